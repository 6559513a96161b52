"""Signs of the outputs' margins along a segment, in integer arithmetic, where rounding leaves these signs open."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.paths.exact_roots import Root, rational_between, roots_between

Quadratic = tuple[int, int, int]  # constant term first


class ExactSegment:
    """The segment between two networks, or the means of several at either end, in integers times powers of two."""

    def __init__(self, first: Sequence[TwoLayer], second: Sequence[TwoLayer]) -> None:
        self._count, self._networks = len(first), (*first, *second)
        self._seen: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def work(self) -> int:
        """An estimate of the number of integer products in `changes` if few units change."""
        net = self._networks[0]
        return 2 * net.hidden.size + 20 * len(net.hidden) * net.n_outputs

    @cached_property
    def _hidden(self) -> tuple[np.ndarray, np.ndarray]:
        return self._sums([net.hidden for net in self._networks])

    @cached_property
    def _readouts(self) -> tuple[np.ndarray, np.ndarray]:
        return self._sums([np.atleast_2d(net.readout) for net in self._networks])

    def _sums(self, weights: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The weights of both ends, up to a common positive factor."""
        exact = _integers(*weights)
        return sum(exact[1 : self._count], exact[0]), sum(exact[self._count + 1 :], exact[self._count])

    def _sides(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U_1 x and U_2 x of one input, up to a common positive factor."""
        key = x.tobytes()
        if key not in self._seen:
            (row,) = _integers(x)
            self._seen[key] = (self._hidden[0] @ row, self._hidden[1] @ row)
        return self._seen[key]

    def changes(self, x: np.ndarray, label: int, low: float, high: float) -> tuple[bool, list[tuple[Root, bool]]]:
        """Whether x is classified correctly just after `low`, and each alpha below `high` where this changes.

        The alphas ascend, each with the answer just after it; a tie at a single alpha is no change.
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
    """The outputs as quadratics in alpha of the units that are on."""
    rise, coefficients = a - c, []
    for weight_a, two in zip(v1, v2, strict=True):
        more = weight_a - two
        coefficients.append((int((two * c).sum()), int((two * rise + more * c).sum()), int((more * rise).sum())))
    return coefficients


def _value(quadratic: Quadratic, at: Fraction) -> int:
    """The value at a rational point, times the square of its denominator."""
    p, q = at.numerator, at.denominator
    return quadratic[0] * q * q + quadratic[1] * p * q + quadratic[2] * p * p


def _integers(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays times one power of two, by which all their entries are integers."""
    mantissas, exponents = zip(*(np.frexp(array) for array in arrays), strict=True)
    lowest = min(int(e[m != 0].min(initial=2000)) for m, e in zip(mantissas, exponents, strict=True))
    return tuple(
        np.array(
            [int(m * 2**53) << max(int(e) - lowest, 0) for m, e in zip(ms.ravel(), es.ravel(), strict=True)], object
        ).reshape(ms.shape)
        for ms, es in zip(mantissas, exponents, strict=True)
    )
