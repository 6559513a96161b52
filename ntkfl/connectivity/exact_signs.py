"""Signs and roots of the outputs' margins along a segment in integer arithmetic, where rounding leaves them open."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isqrt

import numpy as np

from ntkfl.connectivity.network import TwoLayer

Quadratic = tuple[int, int, int]  # constant term first


class ExactSegment:
    """The segment between two networks, its weights as integers times powers of two."""

    def __init__(self, first: TwoLayer, second: TwoLayer) -> None:
        self._networks = (first, second)
        self._seen: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    @cached_property
    def _hidden(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = _integers(*(net.hidden for net in self._networks))
        return first, second

    @cached_property
    def _readouts(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = _integers(*(np.atleast_2d(net.readout) for net in self._networks))
        return first, second

    def _sides(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U_1 x and U_2 x of one input, up to a common positive factor."""
        key = x.tobytes()
        if key not in self._seen:
            (row,) = _integers(x)
            self._seen[key] = (self._hidden[0] @ row, self._hidden[1] @ row)
        return self._seen[key]

    def constant_states(self, x: np.ndarray, label: int, low: float, high: float) -> tuple[list[bool], set[Hashable]]:
        """Whether x is classified correctly on the pieces of (low, high), and the points at which it may change.

        A sample with one output has label 1 or -1. Two points are equal exactly when they are the same number.
        """
        (a, c), (v1, v2) = self._sides(x), self._readouts
        left, right = Fraction(low), Fraction(high)
        crossing = [i for i in range(len(a)) if a[i] * c[i] < 0]
        kinks = {Fraction(int(c[i]), int(c[i] - a[i])) for i in crossing}
        edges = [left, *sorted(kink for kink in kinks if left < kink < right), right]
        states: list[bool] = []
        points: set[Hashable] = set()
        for begin, end in pairwise(edges):
            middle = (begin + end) / 2
            p, q = middle.numerator, middle.denominator
            active = np.array([p * one + (q - p) * two > 0 for one, two in zip(a, c, strict=True)], bool)
            quadratics = _margins(_quadratics(a[active], c[active], v1[:, active], v2[:, active]), label)
            if not all(any(quadratic) for quadratic in quadratics):
                states.append(False)  # a tie on the whole piece
                points |= {edge for edge in (begin, end) if left < edge < right}
                continue
            found = {point for quadratic in quadratics for point in _roots_between(quadratic, begin, end)}
            points |= found
            if begin != left and min(_value(quadratic, begin) for quadratic in quadratics) == 0:
                points.add(begin)
            if not found:
                states.append(all(_value(quadratic, middle) > 0 for quadratic in quadratics))
        return states, points


def _margins(outputs: list[Quadratic], label: int) -> list[Quadratic]:
    if len(outputs) == 1:
        (constant, slope, bend), sign = outputs[0], 1 if label > 0 else -1
        return [(sign * constant, sign * slope, sign * bend)]
    own = outputs[label]
    others = (other for number, other in enumerate(outputs) if number != label)
    return [(own[0] - other[0], own[1] - other[1], own[2] - other[2]) for other in others]


def _quadratics(a: np.ndarray, c: np.ndarray, v1: np.ndarray, v2: np.ndarray) -> list[Quadratic]:
    """The outputs as quadratics in alpha of the units that are on."""
    rise, found = a - c, []
    for one, two in zip(v1, v2, strict=True):
        more = one - two
        found.append((int((two * c).sum()), int((two * rise + more * c).sum()), int((more * rise).sum())))
    return found


def _value(quadratic: Quadratic, at: Fraction) -> int:
    """The value at a rational point, times the square of its denominator."""
    p, q = at.numerator, at.denominator
    return quadratic[0] * q * q + quadratic[1] * p * q + quadratic[2] * p * p


def _roots_between(quadratic: Quadratic, low: Fraction, high: Fraction) -> Iterable[Hashable]:
    """The roots in the open interval: a fraction, or (monic coefficients, which root) where it is irrational."""
    constant, slope, bend = quadratic
    if bend == 0:
        return [root for root in ([Fraction(-constant, slope)] if slope else []) if low < root < high]
    discriminant = slope * slope - 4 * bend * constant
    if discriminant < 0:
        return []
    root = isqrt(discriminant)
    if root * root == discriminant:
        pair = {Fraction(-slope + root, 2 * bend), Fraction(-slope - root, 2 * bend)}
        return [point for point in pair if low < point < high]
    middle, squared = Fraction(-slope, 2 * bend), Fraction(discriminant, 4 * bend * bend)
    monic = (Fraction(constant, bend), Fraction(slope, bend))
    sides = (side for side in (-1, 1) if _above(middle, side, squared, low))
    return [(monic, side) for side in sides if not _above(middle, side, squared, high)]


def _above(middle: Fraction, side: int, squared: Fraction, point: Fraction) -> bool:
    """Whether middle + side sqrt(squared) > point, the root irrational."""
    gap = point - middle
    return (gap < 0 or squared > gap * gap) if side > 0 else (gap < 0 and squared < gap * gap)


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
