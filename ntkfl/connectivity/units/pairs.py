"""Numbers of two networks side by side, and their distances when the second network's units are permuted."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ntkfl.connectivity.alignment import squared_distance
from ntkfl.connectivity.units.walk import Factor
from ntkfl.estimate import Estimate

Orders = list[Int[np.ndarray, " units"]]


class Pair(NamedTuple):
    """Numbers of the first network and those of the second at the same places, with the factors of their axes.

    Args:
        target: the first network's numbers.
        given: the second network's numbers, of the same shape.
        factors: the factors of the axes.
        error: the error of the target's entries.
    """

    target: Float[np.ndarray, "..."]
    given: Float[np.ndarray, "..."]
    factors: tuple[Factor, ...]
    error: Float[np.ndarray, "..."] | float = 0.0


def viewed(pair: Pair) -> Pair:
    """The pair with its arrays reshaped, so that every factor has an axis of its own.

    Args:
        pair: numbers of two networks.
    """
    shape = [factor.size for factor in pair.factors]
    error = np.broadcast_to(pair.error, pair.target.shape)
    return Pair(pair.target.reshape(shape), pair.given.reshape(shape), pair.factors, error.reshape(shape))


def along(
    values: Float[np.ndarray, "..."], factors: Sequence[Factor], orders: Orders, but: int | None = None
) -> Float[np.ndarray, "..."]:
    """The numbers with every axis of a group's units in that group's order.

    Args:
        values: the numbers.
        factors: the factors of their axes.
        orders: the order of every group's units.
        but: the axis that stays; default none.
    """
    for place, factor in enumerate(factors):
        if factor.group is not None and place != but:
            values = values.take(orders[factor.group], axis=place)
    return values


def largest(pairs: Sequence[Pair]) -> float:
    """The largest number of either network.

    Args:
        pairs: the numbers of both networks that are compared.
    """
    return max(float(np.abs(part).max()) for pair in pairs for part in pair[:2])


def unit_products(
    target: Float[np.ndarray, "..."], given: Float[np.ndarray, "..."], place: int
) -> Float[np.ndarray, "units units"]:
    """Inner products of each unit's numbers in the first network with each unit's in the second.

    Args:
        target: the first network's numbers.
        given: the second network's numbers, of the same shape.
        place: the axis of the units.
    """
    one, other = (np.moveaxis(part, place, 0).reshape(part.shape[place], -1) for part in (target, given))
    return np.asarray(one @ other.T)


def distance(pairs: Sequence[Pair], orders: Orders | None = None) -> Estimate:
    """The squared distance over all pairs, a number, with the second network's units in these orders.

    Args:
        pairs: the numbers of both networks that are compared.
        orders: the order of every group's units; default: the units' own order.
    """
    costs = []
    for pair in pairs:
        given = pair.given if orders is None else along(pair.given, pair.factors, orders)
        costs.append(squared_distance(Estimate(pair.target, pair.error), Estimate.exact(given)))
    return sum(costs[1:], costs[0])
