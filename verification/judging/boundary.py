"""The value of a positive number at which success turns into failure.

The value is found by doubling, and then by bisection on a logarithmic scale.
"""

from collections.abc import Callable
from typing import NamedTuple

from ntkfl import interruption


class Boundary(NamedTuple):
    """The hardest value that succeeded, and the next harder value that was tried and failed.

    Each of them is None if there is no such value.
    """

    value: float | None
    failed: float | None


def boundary(
    succeeds: Callable[[float], bool],
    start: float,
    *,
    harder: float,
    easiest: float,
    hardest: float,
    ratio: float = 1.1,
) -> Boundary:
    """The hardest value that was found to succeed, and the next harder value that was tried and failed.

    The second value is harder than the first by at most the factor `ratio`, which is above 1. If success is not
    monotone, there may be other boundaries. `harder` is the factor from a tried value to the next harder value that is
    tried, such as 2 or 1/2. A boundary beyond either end of the range is reported as None.

    Raises:
        ValueError: a start outside the range, a factor that leads to no harder value, or a ratio not above 1.
    """
    low, high = sorted((easiest, hardest))
    if not 0 < low <= start <= high:
        raise ValueError(f"the start is {start:g}; it must be within {low:g} to {high:g}")
    if not (harder > 0 and harder != 1 and (hardest > easiest) == (harder > 1)) or not ratio > 1:
        raise ValueError(
            f"the factor is {harder:g} and the ratio {ratio:g}; give a factor towards {hardest:g} and a ratio above 1"
        )
    good: float | None = None
    bad: float | None = None
    value = start
    while good is None or bad is None:
        interruption.check()
        if succeeds(value):
            good, end, step = value, hardest, harder
        else:
            bad, end, step = value, easiest, 1 / harder
        if value == end:
            break
        value = min(max(value * step, low), high)
    while good is not None and bad is not None and max(good / bad, bad / good) > ratio:
        interruption.check()
        middle = (good * bad) ** 0.5
        if middle in (good, bad):  # no float lies between the two values
            break
        good, bad = (middle, bad) if succeeds(middle) else (good, middle)
    return Boundary(good, bad)
