"""The smallest barrier over all orders of the second network's units, by trying all orders or by a local search."""

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.connectivity.alignment import checked_order, permuted
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.connectivity.network import TwoLayer, check_shapes
from ntkfl.estimate import Estimate

ALL = 8  # largest number of hidden units for which every order is tried; 8! = 40320 barriers take about a minute


@dataclass(frozen=True, eq=False)
class LeastBarrier:
    """The smallest barrier that the search has found, and the order of the units that has this barrier.

    Args:
        permutation: the order of the second network's units, (h,).
        barrier: the barrier with this order.
        tried: the number of orders that were evaluated.
        proved: whether every order was evaluated, so that `barrier` encloses the smallest barrier of all orders.
            Otherwise `barrier` is only an upper bound.
        local: whether no exchange of two units lowers the barrier further. False also if the search ended before it was
            known whether an exchange lowers the barrier.
    """

    permutation: Int[np.ndarray, " h"]
    barrier: Estimate
    tried: int
    proved: bool
    local: bool


def least_barrier(
    first: TwoLayer,
    second: TwoLayer,
    x: Float[np.ndarray, "n l"],
    y: np.ndarray,
    loss: str = "squared",
    start: Int[np.ndarray, " h"] | None = None,
    evaluations: int = 2000,
) -> LeastBarrier:
    """The order of the second network's units with the smallest loss barrier that was found.

    Up to 8 units all orders are tried. With more units, a local search exchanges two units at a time. The search makes
    an exchange that certainly lowers the barrier, and ends when no exchange does. Computed barriers of logistic and
    cross-entropy losses have an error, and a gain within this error is not recognised.

    Args:
        first: the network that stays.
        second: the network whose units are permuted.
        x: inputs, shape (n, l).
        y: labels, shape (n,) or (n, C), see `LOSSES`.
        loss: "squared" (default), "absolute", "logistic" or "cross-entropy".
        start: the first order of the search, for example `Alignment.permutation`; default: the given order.
        evaluations: the largest number of barriers that the search computes; default 2000.

    Raises:
        ValueError: as `loss_barrier`; the start is no permutation; evaluations is below 1.
    """
    check_shapes([first, second])
    if evaluations < 1:
        raise ValueError(f"evaluations is {evaluations}; at least 1 barrier must be taken")
    units = len(first.hidden)
    best = np.arange(units) if start is None else checked_order("start", start, units)

    def barrier(order: Int[np.ndarray, " h"]) -> Estimate:
        return loss_barrier(first, permuted(second, order), x, y, loss).value

    if units <= ALL:
        barriers = [(np.array(order), barrier(np.array(order))) for order in permutations(range(units))]
        order, _ = min(barriers, key=lambda pair: float(pair[1].value))
        low, high = (min(float(end) for end in ends) for ends in zip(*((b.lo, b.hi) for _, b in barriers), strict=True))
        rigour = max(value.rigour for _, value in barriers)
        smallest = Estimate.between(low, high, "smallest of all orders", rigour)
        return LeastBarrier(order, smallest, len(barriers), True, True)
    lowest, tried, lower = barrier(best), 1, True
    while lower and tried < evaluations:
        interruption.check()
        lower = False
        for i, j in combinations(range(units), 2):
            if tried >= evaluations:
                return LeastBarrier(best, lowest, tried, False, False)
            order = best.copy()
            order[[i, j]] = best[[j, i]]
            other, tried = barrier(order), tried + 1
            if other.hi < lowest.lo:
                best, lowest, lower = order, other, True
    return LeastBarrier(best, lowest, tried, False, not lower)
