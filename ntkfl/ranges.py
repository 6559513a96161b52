"""Real numbers outside a range, refused with a sentence that says which; of integers: `problem.require_size`."""

from collections.abc import Callable

RANGES: dict[str, Callable[[float], bool]] = {
    "be positive": lambda value: value > 0,
    "be 0 or more": lambda value: value >= 0,
    "lie in [0, 1]": lambda value: 0 <= value <= 1,
    "lie in [0, 1)": lambda value: 0 <= value < 1,
    "lie in (0, 1]": lambda value: 0 < value <= 1,
}


def require_number(what: str, value: float, must: str) -> None:
    """Refuse a number outside its range; NaN lies in none.

    Raises:
        ValueError: "momentum is 1; it must lie in [0, 1)", say.
    """
    if not RANGES[must](value):
        raise ValueError(f"{what} is {value:g}; it must {must}")
