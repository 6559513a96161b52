"""Permutations of groups of units under which two networks are nearest: assignments, one group after the other.

Further starts come from the relaxed problem: its unknowns are means of permutation matrices (doubly stochastic).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ntkfl import interruption
from ntkfl.connectivity.alignment import squared_distance
from ntkfl.connectivity.units.walk import Factor, Units
from ntkfl.estimate import Estimate
from ntkfl.memory import require

Orders = list[Int[np.ndarray, " units"]]


class Pair(NamedTuple):
    """Numbers of the first network, the second network's numbers at the same places, and the factors of their axes.

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


STEPS, GAP = 50, 1e-3  # most steps; smallest relative gain (to first order) for which the steps go on

Means = list[Float[np.ndarray, "units units"]]


def relaxed(pairs: Sequence[Pair], sizes: Sequence[int], begin: Sequence[Orders] = ()) -> Orders:
    """Orders near a stationary point of the relaxed problem, usually a better start for `match` than the given orders.

    The unknowns are one doubly stochastic matrix for each group, and all move at once by the method of Frank and Wolfe.
    Where a tensor has more than two axes of units, the objective is taken to be quadratic along each step.

    Args:
        pairs: the numbers of both networks that are compared.
        sizes: the sizes of the groups.
        begin: lists of orders, one order for each group; the start is their mean. If empty, the mean of all orders.

    Raises:
        TooLittleMemory: matrices that do not fit.
    Source: Vogelstein et al. (2015), Fast Approximate Quadratic Programming for Graph Matching
        (arXiv:1112.5507); for weights, Crisostomi et al. (2024), C2M3 (arXiv:2405.17897), section 3.
    """
    require("the orders as matrices", lambda units: 56 * len(sizes) * units**2, units=max(sizes))
    pairs = _scaled(pairs)
    means = [np.full((size, size), 1 / size) for size in sizes]
    if begin:
        means = [
            np.mean([np.eye(len(order))[order] for order in orders_of_group], axis=0)
            for orders_of_group in zip(*begin, strict=True)
        ]
    bilinear = all(sum(factor.group is not None for factor in pair.factors) <= 2 for pair in pairs)
    slopes = _slopes(pairs, means, _mixed)
    for _ in range(STEPS):
        interruption.check()
        orders = [_best(slope) for slope in slopes]
        there = _slopes(pairs, orders, along)
        best = [np.eye(len(order))[order] for order in orders]
        rise, later = (_product(matrices, best) - _product(matrices, means) for matrices in (slopes, there))
        if rise <= GAP * abs(_product(slopes, means)):
            break
        step = 1.0 if later >= 0 else rise / (rise - later)
        means = _between(means, best, step)
        slopes = _between(slopes, there, step) if bilinear else _slopes(pairs, means, _mixed)
    return [_best(mean) for mean in means]


def _best(gains: Float[np.ndarray, "units units"]) -> Int[np.ndarray, " units"]:
    return np.asarray(linear_sum_assignment(gains, maximize=True)[1])


def _scaled(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs divided by their largest number, so that products are finite."""
    scale = largest(pairs) or 1.0
    return [pair._replace(target=pair.target / scale, given=pair.given / scale) for pair in pairs]


def _slopes(pairs: Sequence[Pair], at: Sequence[np.ndarray], applied: Callable[..., np.ndarray]) -> Means:
    """The derivative of the inner product with respect to each group's matrix."""
    return [_slope(pairs, at, group, applied) for group in range(len(at))]


def _slope(
    pairs: Sequence[Pair], at: Sequence[np.ndarray], group: int, applied: Callable[..., np.ndarray]
) -> Float[np.ndarray, "units units"]:
    """The derivative with respect to a group's matrix: inner products of first and second network's units."""
    slope = np.zeros((len(at[group]),) * 2)
    for pair in pairs:
        for place, factor in enumerate(pair.factors):
            if factor.group == group:
                slope += unit_products(pair.target, applied(pair.given, pair.factors, at, place), place)
    return slope


def _mixed(
    values: Float[np.ndarray, "..."], factors: Sequence[Factor], means: Means, but: int
) -> Float[np.ndarray, "..."]:
    """The second network's numbers with the mean of orders applied along all axes but axis `but`."""
    for place, factor in enumerate(factors):
        if factor.group is not None and place != but:
            values = np.moveaxis(np.tensordot(means[factor.group], values, (1, place)), 0, place)
    return values


def _product(slopes: Means, means: Means) -> float:
    return sum(float(np.vdot(slope, mean)) for slope, mean in zip(slopes, means, strict=True))


def _between(one: Means, other: Means, step: float) -> Means:
    return [(1 - step) * matrix + step * to for matrix, to in zip(one, other, strict=True)]


@dataclass(frozen=True, eq=False)
class Matching:
    """The result: the order of each group's units, the squared distances before and after reordering, the sweeps."""

    orders: Orders
    cost_before: Estimate
    cost_after: Estimate
    sweeps: int


def match(pairs: Sequence[Pair], sizes: Sequence[int], starts: int = 1) -> Matching:
    """Permute one group after the other, each time to the best order while the others stay, until no group changes.

    Each turn solves an assignment problem. The turn takes its optimum if that lowers the distance by more than
    rounding. So every change lowers the distance, and the turns end. Where a tensor has one group on two axes (a
    residual stream of square maps), the distance is not linear in the assignment, and the turn may miss a better order.
    Where no tensor has two groups, or one group twice, the distance is the smallest possible, from any start; otherwise
    no single turn lowers it.

    Args:
        pairs: the numbers of both networks that are compared.
        sizes: the sizes of the groups.
        starts: number of starting orders, default 1. The first start is the given orders, the second is the result of
            `relaxed` from the mean of all orders. Each further start is a result of `relaxed` from the mean of the best
            order so far and an order drawn with a fixed seed. The nearest result is returned; of several within
            rounding, the first.

    Raises:
        ValueError: no start.
        TooLittleMemory: as `relaxed`.
    Source: Git Re-Basin (arXiv:2209.04836), Algorithm 1, where the groups' order is drawn in every sweep.
    """
    if starts < 1:
        raise ValueError(f"starts is {starts}; at least 1 is needed")
    pairs = [viewed(pair) for pair in pairs]
    before = distance(pairs)
    best = _descended(pairs, [np.arange(size) for size in sizes], before)
    coupled = any(sum(factor.group is not None for factor in pair.factors) > 1 for pair in pairs)
    for start in range(1, starts if coupled else 1):
        if best.cost_after.lo <= 0:
            break
        rng = np.random.default_rng(start)
        drawn = [rng.permutation(size) for size in sizes]
        matching = _descended(pairs, relaxed(pairs, sizes, [best.orders, drawn] if start > 1 else []), before)
        best = matching if matching.cost_after.hi < best.cost_after.lo else best
    return best


def _descended(pairs: Sequence[Pair], orders: Orders, before: Estimate) -> Matching:
    """The matching after turns from the first group to the last, beginning with these orders."""
    having = [
        [pair for pair in pairs if any(factor.group == group for factor in pair.factors)]
        for group in range(len(orders))
    ]
    sweeps, due = 0, {group for group, own in enumerate(having) if own}
    while due or not sweeps:
        sweeps += 1
        for group, own in enumerate(having):
            if group not in due:
                continue
            interruption.check()
            due.discard(group)
            other = [*orders]
            other[group] = _best(_slope(_scaled(own), orders, group, along))
            if distance(own, other).hi < distance(own, orders).lo:
                orders = other
                due |= {factor.group for pair in own for factor in pair.factors if factor.group not in (None, group)}
                due |= (
                    {group} if any(sum(factor.group == group for factor in pair.factors) > 1 for pair in own) else set()
                )
    return Matching(orders, before, distance(pairs, orders), sweeps)


def weight_pairs(units: Units, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[Pair]:
    """The weights of two networks of one architecture.

    Args:
        units: groups of units of the architecture.
        first: the first network's weights by name.
        second: the second network's weights by name.
    """
    return [Pair(_numbers(first[name]), _numbers(second[name]), factors) for name, factors in units.factors.items()]


def permuted(weights: Mapping[str, Tensor], units: Units, orders: Orders) -> dict[str, Tensor]:
    """The weights with each group reordered: unit r is the former unit order[r]; the same numbers in the same shape.

    Args:
        weights: the weights by name.
        units: the groups of units of the network.
        orders: a permutation for every group.
    """
    changed = dict(weights)
    for name, factors in units.factors.items():
        value = weights[name].reshape([factor.size for factor in factors])
        for place, factor in enumerate(factors):
            if factor.group is not None:
                value = value.index_select(place, torch.as_tensor(orders[factor.group], device=value.device))
        changed[name] = value.reshape(weights[name].shape)
    return changed


def _numbers(value: Tensor) -> Float[np.ndarray, "..."]:
    return value.detach().double().cpu().numpy()
