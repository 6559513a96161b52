"""Real roots of quadratics with rational coefficients, compared and separated exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, total_ordering
from itertools import pairwise
from math import floor, isqrt, nextafter

import numpy as np

from ntkfl import interruption
from ntkfl.connectivity.network import TwoLayer

Quadratic = tuple[int, int, int]  # constant term first


class ExactSegment:
    """The segment between two networks, or two means of networks, with weights as integers times powers of two."""

    def __init__(self, first: Sequence[TwoLayer], second: Sequence[TwoLayer]) -> None:
        self._count, self._networks = len(first), (*first, *second)
        self._seen: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def work(self) -> int:
        """An estimate of the number of integer products that `changes` takes if few units turn on or off."""
        net = self._networks[0]
        return 2 * net.hidden.size + 20 * len(net.hidden) * net.n_outputs

    @cached_property
    def _hidden(self) -> tuple[np.ndarray, np.ndarray]:
        return self._sums([net.hidden for net in self._networks])

    @cached_property
    def _readouts(self) -> tuple[np.ndarray, np.ndarray]:
        return self._sums([np.atleast_2d(net.readout) for net in self._networks])

    def _sums(self, weights: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The weights at both ends, up to a common positive factor."""
        exact = _integers(*weights)
        return sum(exact[1 : self._count], exact[0]), sum(exact[self._count + 1 :], exact[self._count])

    def _sides(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The products U_1 x and U_2 x for one input, up to a common positive factor."""
        key = x.tobytes()
        if key not in self._seen:
            (row,) = _integers(x)
            self._seen[key] = (self._hidden[0] @ row, self._hidden[1] @ row)
        return self._seen[key]

    def changes(self, x: np.ndarray, label: int, low: float, high: float) -> tuple[bool, list[tuple[Root, bool]]]:
        """Whether x is classified correctly just after `low`, and the changes between correct and wrong below `high`.

        Changes are in ascending order of alpha. Each is given by its alpha and whether x is classified correctly just
        after it. A tie at a single alpha is no change.
        """
        (a, c), (v1, v2) = self._sides(x), self._readouts
        left, right = Fraction(low), Fraction(high)
        kinks = {Fraction(int(c[i]), int(c[i] - a[i])) for i in range(len(a)) if a[i] * c[i] < 0}
        edges = [left, *sorted(kink for kink in kinks if left < kink < right), right]
        correct_from: list[tuple[Root, bool]] = []
        for begin, end in pairwise(edges):
            middle = (begin + end) / 2
            p, q = middle.numerator, middle.denominator
            active = np.array([p * weight_a + (q - p) * two > 0 for weight_a, two in zip(a, c, strict=True)], bool)
            margins = _margins(_quadratics(a[active], c[active], v1[:, active], v2[:, active]), label)
            cuts = {root for margin in margins if any(margin) for root in roots_between(*margin, begin, end)}
            for here, two in pairwise([Root(begin), *sorted(cuts), Root(end)]):
                at = rational_between(here, two)
                correct = all(_value(margin, at) > 0 for margin in margins)
                if not correct_from or correct_from[-1][1] != correct:
                    correct_from.append((here, correct))
        return correct_from[0][1], correct_from[1:]


def _margins(outputs: list[Quadratic], label: int) -> list[Quadratic]:
    if len(outputs) == 1:
        (constant, slope, bend), sign = outputs[0], 1 if label > 0 else -1
        return [(sign * constant, sign * slope, sign * bend)]
    own = outputs[label]
    others = (other for number, other in enumerate(outputs) if number != label)
    return [(own[0] - other[0], own[1] - other[1], own[2] - other[2]) for other in others]


def _quadratics(a: np.ndarray, c: np.ndarray, v1: np.ndarray, v2: np.ndarray) -> list[Quadratic]:
    """The outputs of the given units, all of which are on, as quadratics in alpha."""
    rise, coefficients = a - c, []
    for weight_a, two in zip(v1, v2, strict=True):
        more = weight_a - two
        coefficients.append((int((two * c).sum()), int((two * rise + more * c).sum()), int((more * rise).sum())))
    return coefficients


def _value(quadratic: Quadratic, at: Fraction) -> int:
    """The value at a rational point, times the square of the point's denominator."""
    p, q = at.numerator, at.denominator
    return quadratic[0] * q * q + quadratic[1] * p * q + quadratic[2] * p * p


def _integers(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays times one power of two that makes all their entries integers."""
    mantissas, exponents = zip(*(np.frexp(array) for array in arrays), strict=True)
    lowest = min(int(e[m != 0].min(initial=2000)) for m, e in zip(mantissas, exponents, strict=True))
    return tuple(
        np.array(
            [int(m * 2**53) << max(int(e) - lowest, 0) for m, e in zip(ms.ravel(), es.ravel(), strict=True)], object
        ).reshape(ms.shape)
        for ms, es in zip(mantissas, exponents, strict=True)
    )


ZERO = Fraction(0)


@total_ordering
@dataclass(frozen=True)
class Root:
    """The number middle + side sqrt(squared).

    For a fraction `side` is 0; else it is ±1 and the square root is irrational. Equal numbers therefore have equal
    fields.
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
        """Two floats that enclose this number, if it is in [0, 1]."""
        low = self.below(80)
        return nextafter(float(low), -1.0), nextafter(float(low + Fraction(1, 2**79)), 2.0)


def roots_between(constant: int, slope: int, bend: int, low: Fraction, high: Fraction) -> list[Root]:
    """The roots of constant + slope t + bend t^2 in an open interval. The coefficients are not all 0."""
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
    """A fraction strictly between two numbers; the first number must be the smaller one.

    Raises:
        ValueError: the first is not smaller than the second.
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
    """The sign of one - other.

    The difference is (gap + s sqrt(p)) - t sqrt(q) with signs s and t. The squares of its two terms are compared.
    """
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
