"""Checks that a value is a number, and in its range."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

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
    if known is int or known is float:  # a class that registers its kinds takes a microsecond to ask
        return known is int or kind is Real
    return isinstance(value, kind) and known is not bool


def require_number(what: str, value: float, must: str) -> None:
    """Refuse a number outside its range, NaN, and a value that is no real number.

    Raises:
        ValueError: "momentum is 1; it must lie in [0, 1)", say.
    """
    if not is_number(value):
        raise ValueError(f"{what} is {value!r}; it must be a number, and {must}")
    if not RANGES[must](value):
        raise ValueError(f"{what} is {value:g}; it must {must}")


def require_size(name: str, value: Any, least: int = 1, *, optional: bool = False) -> None:
    """Raise a ValueError unless the value is an integer and at least `least`, or None where it is optional.

    True and False do not count as integers.
    """
    if not (optional and value is None) and not (is_number(value, Integral) and value >= least):
        wanted = "a positive integer" if least == 1 else f"an integer, {least} or more"
        raise ValueError(f"{name} is {value!r}; it must be {wanted}")


def require_seed(seed: int) -> None:
    """Raise a ValueError unless the value is an integer that a generator of JAX takes as its seed."""
    if not (is_number(seed, Integral) and 0 <= seed < 2**63):
        raise ValueError(f"seed is {seed!r}; it must be an integer from 0 to 2^63 - 1")
