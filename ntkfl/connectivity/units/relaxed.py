"""Orders of all groups at once: the inner product of two networks raised over means of orders, then rounded.

The turns of `matching` move one group while the others stay, and end in a minimum of that. Here orders are doubly
stochastic matrices, all of which move together by the method of Frank and Wolfe.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from ntkfl import interruption
from ntkfl.connectivity.units.pairs import Orders, Pair, along, largest, unit_products
from ntkfl.connectivity.units.walk import Factor
from ntkfl.memory import require

STEPS, GAP = 50, 1e-3  # at most; until no mean of orders can be better by more than this share, to first order

Means = list[Float[np.ndarray, "units units"]]


def relaxed(pairs: Sequence[Pair], sizes: Sequence[int], begin: Sequence[Orders] = ()) -> Orders:
    """Orders near a stationary point of the relaxed problem: a start for the turns, better than none as a rule.

    Args:
        pairs: what is compared. sizes: of the groups.
        begin: orders of all groups, at whose mean it begins; none: the mean of all there are.

    Raises:
        TooLittleMemory: matrices that do not fit.
    Source: Vogelstein et al. (2015), Fast Approximate Quadratic Programming for Graph Matching; for weights, Crisostomi
        et al. (2024), C2M3, section 3.
    """
    require("the orders as matrices", lambda units: 40 * len(sizes) * units**2, units=max(sizes))
    scale = largest(pairs) or 1.0  # so that products are finite
    pairs = [pair._replace(target=pair.target / scale, given=pair.given / scale) for pair in pairs]
    means = [np.full((size, size), 1 / size) for size in sizes]
    if begin:
        means = [np.mean([np.eye(len(order))[order] for order in each], axis=0) for each in zip(*begin, strict=True)]
    degree = max(sum(factor.group is not None for factor in pair.factors) for pair in pairs)
    for _ in range(STEPS):
        interruption.check()
        now, slopes = _gain_and_slopes(pairs, means)
        orders = [_best(slope) for slope in slopes]
        best = [np.eye(len(order))[order] for order in orders]
        rise = sum(float(np.sum(slope * (to - at))) for slope, to, at in zip(slopes, best, means, strict=True))
        if rise <= GAP * abs(now):
            break
        there = sum(float(np.sum(pair.target * along(pair.given, pair.factors, orders))) for pair in pairs)
        step = _step(pairs, (means, best), (now, there), rise, degree)
        means = [(1 - step) * at + step * to for at, to in zip(means, best, strict=True)]
    return [_best(mean) for mean in means]


def _best(gains: Float[np.ndarray, "units units"]) -> np.ndarray:
    found: np.ndarray = linear_sum_assignment(gains, maximize=True)[1]
    return found


def _mixed(
    values: Float[np.ndarray, ...], factors: Sequence[Factor], means: Means, but: int | None = None
) -> Float[np.ndarray, ...]:
    """The numbers with the mean of orders applied to all axes but one."""
    for place, factor in enumerate(factors):
        if factor.group is not None and place != but:
            values = np.moveaxis(np.tensordot(means[factor.group], values, (1, place)), 0, place)
    return values


def _gain(pairs: Sequence[Pair], means: Means) -> float:
    return sum(float(np.sum(pair.target * _mixed(pair.given, pair.factors, means))) for pair in pairs)


def _gain_and_slopes(pairs: Sequence[Pair], means: Means) -> tuple[float, Means]:
    """The inner product, and its derivative to each group's matrix."""
    gain, slopes = 0.0, [np.zeros_like(mean) for mean in means]
    for pair in pairs:
        moved = [(place, each.group) for place, each in enumerate(pair.factors) if each.group is not None]
        for place, group in moved:
            own = unit_products(pair.target, _mixed(pair.given, pair.factors, means, place), place)
            slopes[group] += own
            gain += float(np.sum(own * means[group])) / len(moved)
    return gain, slopes


def _step(
    pairs: Sequence[Pair], ends: tuple[Means, Means], gains: tuple[float, float], rise: float, degree: int
) -> float:
    """Where on the way from one end to the other the inner product, a polynomial, is largest.

    Args:
        pairs: what is compared. ends: of the way. gains: there.
        rise: the slope at the first. degree: of the polynomial, at most.
    """
    if degree < 2:
        return 1.0
    at = np.arange(1, degree) / (degree - 1)
    ways = [[(1 - t) * one + t * other for one, other in zip(*ends, strict=True)] for t in at[:-1]]
    bends = np.array([*(_gain(pairs, way) for way in ways), gains[1]]) - gains[0] - rise * at
    curve = np.polynomial.Polynomial([0, rise, *np.linalg.solve(at[:, None] ** np.arange(2, degree + 1), bends)])
    turns = np.asarray(curve.deriv().roots(), complex)
    inside = turns.real[(abs(turns.imag) < 1e-9) & (turns.real > 0) & (turns.real < 1)].tolist()
    return max([1.0, *inside], key=curve)
