"""Parts of messages: a count with its noun, and the known name that is nearest to an unknown name."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def number_of(count: int, noun: str) -> str:
    """ "1 case", "2 cases": the number with `noun`, which is given in the singular and gets an s in the plural."""
    return f"{count} {noun}{'s' * (count != 1)}"


def labels_differ(outputs: int, name: str, labels: int) -> str:
    """ "the network has 2 outputs; wine has 1 label a sample", for data with other labels than a network's outputs."""
    return f"the network has {number_of(outputs, 'output')}; {name} has {number_of(labels, 'label')} a sample"


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """ " Did you mean ...?", or nothing where none of the known names is as similar as `cutoff` (difflib's ratio)."""
    near = get_close_matches(word.lower(), known, n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def refusing(names: Mapping[str, str], needed: Mapping[str, str] | None = None) -> Callable[[Class], Class]:
    """A class decorator that refuses old names and calls without a needed argument; the message says what to give."""

    def of_class(cls: Any) -> Any:
        init, otherwise = cls.__init__, getattr(cls, "__getattr__", object.__getattribute__)
        required = needed or {}

        @wraps(init)  # keeps the signature
        def initialised(self: Any, *given: Any, **named: Any) -> None:
            for name in (*(old for old in names if old in named), *(new for new in required if new not in named)):
                raise TypeError(f"{cls.__name__} has no {name}: {names.get(name) or required[name]}")
            init(self, *given, **named)

        def missing(self: Any, name: str) -> Any:
            if why := names.get(name):
                raise AttributeError(f"{cls.__name__} has no {name}: {why}")
            return otherwise(self, name)  # raises Python's own AttributeError, also where a property raised one

        cls.__init__, cls.__getattr__ = initialised, missing
        return cls

    return of_class
