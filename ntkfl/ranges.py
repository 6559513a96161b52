"""Checks that a value is a number, and in its range; `problem.require_size` checks integers."""

from collections.abc import Callable
from numbers import Real

RANGES: dict[str, Callable[[float], bool]] = {
    "be positive": lambda value: value > 0,
    "be 1 or more, and finite": lambda value: 1 <= value < float("inf"),
    "be 0 or more": lambda value: value >= 0,
    "lie in [0, 1]": lambda value: 0 <= value <= 1,
    "lie in [0, 1)": lambda value: 0 <= value < 1,
    "lie in (0, 1]": lambda value: 0 < value <= 1,
}


def is_number(value: object, kind: type = Real) -> bool:
    """Whether a value is a number of this kind, such as `numbers.Integral`; True and False do not count."""
    return isinstance(value, kind) and not isinstance(value, bool)


def require_number(what: str, value: float, must: str) -> None:
    """Refuse a number outside its range, NaN, and a value that is no real number.

    Raises:
        ValueError: "momentum is 1; it must lie in [0, 1)", say.
    """
    if not is_number(value):
        raise ValueError(f"{what} is {value!r}; it must be a number, and {must}")
    if not RANGES[must](value):
        raise ValueError(f"{what} is {value:g}; it must {must}")
