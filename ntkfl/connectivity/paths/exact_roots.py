"""Real roots of quadratics with rational coefficients, compared and separated exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering
from math import floor, isqrt, nextafter

from ntkfl import interruption

ZERO = Fraction(0)


@total_ordering
@dataclass(frozen=True)
class Root:
    """The number middle + side sqrt(squared); side is 0 for a fraction, else ±1 with an irrational square root.

    Equal numbers therefore have equal fields.
    """

    middle: Fraction
    side: int = 0
    squared: Fraction = ZERO

    def __lt__(self, other: Root) -> bool:
        return _order(self, other) < 0

    def below(self, bits: int) -> Fraction:
        """A fraction at most as large as this number, and within 2^-bits of it."""
        scale = 2**bits
        size = isqrt(floor(self.squared * scale * scale))
        return self.middle + Fraction(self.side * size - (self.side < 0), scale)

    def floats(self) -> tuple[float, float]:
        """Two floats that enclose it, for numbers in [0, 1]."""
        low = self.below(80)
        return nextafter(float(low), -1.0), nextafter(float(low + Fraction(1, 2**79)), 2.0)


def roots_between(constant: int, slope: int, bend: int, low: Fraction, high: Fraction) -> list[Root]:
    """The roots of constant + slope t + bend t^2, not all 0, in an open interval."""
    if not bend:
        candidates = [Root(Fraction(-constant, slope))] if slope else []
    else:
        discriminant, middle = slope * slope - 4 * bend * constant, Fraction(-slope, 2 * bend)
        if discriminant < 0:
            return []
        root = isqrt(discriminant)
        if root * root == discriminant:
            candidates = [Root(middle + Fraction(side * root, 2 * bend)) for side in ((-1, 1) if root else (1,))]
        else:
            candidates = [Root(middle, side, Fraction(discriminant, 4 * bend * bend)) for side in (-1, 1)]
    ends = Root(low), Root(high)
    return [point for point in candidates if ends[0] < point < ends[1]]


def rational_between(low: Root, high: Root) -> Fraction:
    """A fraction strictly between two different numbers, the smaller first.

    Raises:
        ValueError: the first is not the smaller.
    """
    if not low < high:
        raise ValueError(f"there is no number between {low} and {high}; the first must be the smaller")
    if not low.side and not high.side:
        return (low.middle + high.middle) / 2
    bits = 16
    while True:
        interruption.check()
        middle = (low.below(bits) + high.below(bits)) / 2
        if low < Root(middle) < high:
            return middle
        bits *= 2


def _order(one: Root, other: Root) -> int:
    """The sign of one - other: of gap + s sqrt(p) against t sqrt(q), by squares."""
    gap = one.middle - other.middle
    left, right = _sign(gap, one.side, one.squared), other.side
    if left != right or left == 0:
        return (left > right) - (left < right)
    turn = (gap > 0) - (gap < 0)
    return left * _sign(gap * gap + one.squared - other.squared, turn * one.side, 4 * gap * gap * one.squared)


def _sign(number: Fraction, side: int, squared: Fraction) -> int:
    """The sign of number + side sqrt(squared)."""
    sign = (number > 0) - (number < 0)
    if not side or sign in (0, side):
        return sign or side
    excess = number * number - squared
    return sign if excess > 0 else side if excess < 0 else 0
