"""Checks that refuse a value that is no number or out of range, and parts of messages, such as a count with its
noun.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


def number_of(count: int, noun: str) -> str:
    """The number with its noun, such as "1 case" or "2 cases".

    `noun` is given in the singular, and gets an s in the plural.
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def labels_differ(outputs: int, name: str, labels: int) -> str:
    """A message such as "the network has 2 outputs; wine has 1 label a sample".

    The message is for data that have another number of labels than the network has outputs.
    """
    return f"the network has {number_of(outputs, 'output')}; {name} has {number_of(labels, 'label')} a sample"


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The text " Did you mean ...?" with the most similar known name; empty if no name is similar enough.

    A name is similar enough if difflib's ratio of similarity is at least `cutoff`.
    """
    near = get_close_matches(word.lower(), known, n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def refusing(names: Mapping[str, str], needed: Mapping[str, str] | None = None) -> Callable[[Class], Class]:
    """Returns a class decorator. The class then refuses old names, and refuses a call that lacks a needed argument.

    The message of the refusal says what to give instead. `names` and `needed` map each name to that part of the
    message.
    """

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
            # raises Python's own AttributeError; a property that raises an AttributeError also leads here
            return otherwise(self, name)

        cls.__init__, cls.__getattr__ = initialised, missing
        return cls

    return of_class


RANGES: dict[str, Callable[[float], bool]] = {
    "be positive": lambda value: value > 0,
    "be a positive finite number": lambda value: 0 < value < float("inf"),
    "be 1 or more, and finite": lambda value: 1 <= value < float("inf"),
    "be 0 or more": lambda value: value >= 0,
    "be 0 or more, and finite": lambda value: 0 <= value < float("inf"),
    "lie between 0 and 1": lambda value: 0 < value < 1,
    "lie in [0, 1]": lambda value: 0 <= value <= 1,
    "lie in [0, 1)": lambda value: 0 <= value < 1,
    "lie in (0, 1]": lambda value: 0 < value <= 1,
}


def is_number(value: object, kind: type = Real) -> bool:
    """Whether a value is a number of this kind, such as `numbers.Integral`; True and False do not count."""
    known = type(value)
    # for other classes `isinstance` looks up whether they are registered as numbers, which takes a microsecond
    if known is int or known is float:
        return known is int or kind is Real
    return isinstance(value, kind) and known is not bool


def require_number(what: str, value: float, must: str) -> None:
    """Refuse a number outside its range, NaN, and a value that is no real number.

    Raises:
        ValueError: with a message such as "momentum is 1; it must lie in [0, 1)".
    """
    if not is_number(value):
        raise ValueError(f"{what} is {value!r}; it must be a number, and {must}")
    if not RANGES[must](value):
        raise ValueError(f"{what} is {value:g}; it must {must}")


def require_size(name: str, value: Any, least: int = 1, *, optional: bool = False) -> None:
    """Raise a ValueError unless the value is an integer that is at least `least`.

    If it is `optional`, the value may also be None. True and False do not count as integers.
    """
    if not (optional and value is None) and not (is_number(value, Integral) and value >= least):
        wanted = "a positive integer" if least == 1 else f"an integer, {least} or more"
        raise ValueError(f"{name} is {value!r}; it must be {wanted}")


def require_seed(seed: int) -> None:
    """Raise a ValueError unless the value is an integer that a generator of JAX takes as its seed."""
    if not (is_number(seed, Integral) and 0 <= seed < 2**63):
        raise ValueError(f"seed is {seed!r}; it must be an integer from 0 to 2^63 - 1")
