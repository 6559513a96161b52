"""Methods and their options on the command line.

Options are given as repeated NAME=VALUE, or together with their method as METHOD:NAME=VALUE,NAME=VALUE.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def method_options(typed: Sequence[str] | None) -> dict[str, Any]:
    """The options by name; a value is a number, true, false or null as in JSON, and otherwise text.

    Raises:
        ValueError: an option has no "=".
    """
    return dict(map(_parsed, typed or ()))


def methods_with_options(typed: Sequence[str], options: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each method with its options; options given separately are allowed only with a single method.

    Raises:
        ValueError: an option has no "="; separate options are given with several methods; or a method is given twice
            with the same options.
    """
    if options and len(typed) > 1:
        raise ValueError(
            f"--option is for a single method, and here are {len(typed)}; write --method "
            f"{typed[0]}:{next(iter(options))}=VALUE"
        )
    methods: list[tuple[str, dict[str, Any]]] = []
    for text in typed:
        name, colon, own = text.partition(":")
        methods.append((name, {**(method_options(own.split(",")) if colon else {}), **options}))
        if methods[-1] in methods[:-1]:
            raise ValueError(f"--method {text} is there twice; name it once, or with other options")
    return methods


def _parsed(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option is {text!r}; write NAME=VALUE, such as mu=0.01")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
