"""A method's options as they are typed: NAME=VALUE, repeated."""

import json
from collections.abc import Sequence
from typing import Any


def method_options(typed: Sequence[str] | None) -> dict[str, Any]:
    """The options by name, each a number, true, false or null as JSON writes them, else text.

    Raises:
        ValueError: one without "=".
    """
    return dict(map(_parsed, typed or ()))


def _parsed(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option is {text!r}; write NAME=VALUE, such as mu=0.01")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
