"""What `ntkfl train list` prints, as lines."""

import inspect
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin


def method_lines() -> Iterator[str]:
    """Every method by name: what it does and where it is from; its options with their defaults below it."""
    from ntkfl.training.methods import catalogue, options

    for name, module in sorted(catalogue().items()):
        yield f"{name}: {(inspect.getdoc(module) or '').partition(chr(10))[0]}"
        given = [f"--option {key}={_default(option)}" for key, option in options(name).items()]
        if given:
            yield f"    {'  '.join(given)}"


def _default(option: inspect.Parameter) -> str:
    """The default as `--option` takes it; behind it, of words, which there are."""
    words = sorted(set(_words(option.annotation)))
    shown = "null" if option.default is None else str(option.default)
    shown = shown.lower() if isinstance(option.default, bool) else shown
    return f"{shown} ({', '.join(words)})" if words else shown


def _words(annotation: Any) -> Iterator[str]:
    """The literals in a type."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _words(part)
