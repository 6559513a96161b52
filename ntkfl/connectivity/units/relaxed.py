"""Orders of all groups at once: the inner product of two networks raised over means of orders, then rounded.

The turns of `matching` move one group while the others stay, and end where no single move helps. Here orders are
doubly stochastic matrices, and all of them move together by the method of Frank and Wolfe. Where no tensor has more
than two axes of units the inner product is quadratic and each step the best; elsewhere its slope is taken to be linear
on the way.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int
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
        pairs: what is compared.
        sizes: of the groups.
        begin: orders of all groups, at whose mean it begins; none: the mean of all there are.

    Raises:
        TooLittleMemory: matrices that do not fit.
    Source: Vogelstein et al. (2015), Fast Approximate Quadratic Programming for Graph Matching; for weights, Crisostomi
        et al. (2024), C2M3, section 3.
    """
    require("the orders as matrices", lambda units: 56 * len(sizes) * units**2, units=max(sizes))
    scale = largest(pairs) or 1.0  # so that products are finite
    pairs = [pair._replace(target=pair.target / scale, given=pair.given / scale) for pair in pairs]
    means = [np.full((size, size), 1 / size) for size in sizes]
    if begin:
        means = [np.mean([np.eye(len(order))[order] for order in each], axis=0) for each in zip(*begin, strict=True)]
    bilinear = all(sum(factor.group is not None for factor in pair.factors) <= 2 for pair in pairs)
    slopes = _slopes(pairs, means, _mixed)
    for _ in range(STEPS):
        interruption.check()
        orders = [_best(slope) for slope in slopes]
        there = _slopes(pairs, orders, along)
        best = [np.eye(len(order))[order] for order in orders]
        rise, later = (_product(each, best) - _product(each, means) for each in (slopes, there))
        if rise <= GAP * abs(_product(slopes, means)):
            break
        step = 1.0 if later >= 0 else rise / (rise - later)
        means = _between(means, best, step)
        slopes = _between(slopes, there, step) if bilinear else _slopes(pairs, means, _mixed)
    return [_best(mean) for mean in means]


def _best(gains: Float[np.ndarray, "units units"]) -> Int[np.ndarray, " units"]:
    return np.asarray(linear_sum_assignment(gains, maximize=True)[1])


def _slopes(pairs: Sequence[Pair], at: Sequence[np.ndarray], applied: Callable[..., np.ndarray]) -> Means:
    """The derivative of the inner product to each group's matrix."""
    slopes = [np.zeros((len(each), len(each))) for each in at]
    for pair in pairs:
        for place, factor in enumerate(pair.factors):
            if factor.group is not None:
                slopes[factor.group] += unit_products(pair.target, applied(pair.given, pair.factors, at, place), place)
    return slopes


def _mixed(
    values: Float[np.ndarray, "..."], factors: Sequence[Factor], means: Means, but: int
) -> Float[np.ndarray, "..."]:
    """The numbers with the mean of orders applied to all axes but one."""
    for place, factor in enumerate(factors):
        if factor.group is not None and place != but:
            values = np.moveaxis(np.tensordot(means[factor.group], values, (1, place)), 0, place)
    return values


def _product(slopes: Means, means: Means) -> float:
    return sum(float(np.vdot(slope, mean)) for slope, mean in zip(slopes, means, strict=True))


def _between(one: Means, other: Means, step: float) -> Means:
    return [(1 - step) * each + step * to for each, to in zip(one, other, strict=True)]
