"""Permutations of groups of units under which two networks are nearest: assignments, one group after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

Orders = list[Int[np.ndarray, " units"]]


class Pair(NamedTuple):
    """Numbers of the first network, and those of the second in their place, with the factors of their axes.

    Args:
        target, given: the two networks' numbers. factors: of the axes.
        error: of the target's entries.
    """

    target: Float[np.ndarray, ...]
    given: Float[np.ndarray, ...]
    factors: tuple[Factor, ...]
    error: Float[np.ndarray, ...] | float = 0.0


@dataclass(frozen=True, eq=False)
class Matching:
    """What was found: of each group the order of its units, the squared distances as given and so moved, the sweeps."""

    orders: Orders
    cost_before: Estimate
    cost_after: Estimate
    sweeps: int


def match(pairs: Sequence[Pair], sizes: Sequence[int], starts: int = 1) -> Matching:
    """Permute the groups in turns, each to where the rest being as it is the distance is smallest, until none changes.

    Each turn is an assignment problem: its optimum is taken if it lowers the distance beyond rounding, so that the
    distance falls in every change and there is an end; where a tensor has one group on two axes (a residual stream of
    square maps), the distance is not linear in the assignment, and the turn may miss a better one. With one group that
    no tensor has twice, the distance is the smallest there is; otherwise it is a minimum of the turns.

    Args:
        pairs: what is compared. sizes: of the groups.
        starts: how often it is done, the first time from the first group to the last, then in other orders of the
            groups, always the same ones; the nearest that is found counts.

    Raises:
        ValueError: no start.
    Source: Ainsworth et al. (2023), Git Re-Basin, Algorithm 1, where the groups' order is drawn in every sweep.
    """
    if starts < 1:
        raise ValueError(f"starts is {starts}; at least 1 is needed")
    pairs = [_viewed(pair) for pair in pairs]
    found = [_descended(pairs, sizes, np.random.default_rng(start) if start else None) for start in range(starts)]
    return min(found, key=lambda one: float(one.cost_after.value))


def _descended(pairs: Sequence[Pair], sizes: Sequence[int], rng: np.random.Generator | None) -> Matching:
    """One descent; the generator draws the groups' order of each sweep."""
    orders = [np.arange(size) for size in sizes]
    before = _cost(pairs, orders)
    sweeps, changed = 0, True
    while changed:
        sweeps, changed = sweeps + 1, False
        for group in range(len(sizes)) if rng is None else rng.permutation(len(sizes)).tolist():
            interruption.check()
            own = [pair for pair in pairs if any(factor.group == group for factor in pair.factors)]
            if not own:
                continue
            other = [*orders]
            other[group] = linear_sum_assignment(_gains(own, orders, group), maximize=True)[1]
            if _cost(own, other).hi < _cost(own, orders).lo:
                orders, changed = other, True
    return Matching(orders, before, _cost(pairs, orders), sweeps)


def weight_pairs(units: Units, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[Pair]:
    """The weights of two networks of one architecture.

    Args:
        units: of either. first, second: their weights by name.
    """
    return [Pair(_numbers(first[name]), _numbers(second[name]), factors) for name, factors in units.factors.items()]


def permuted(weights: Mapping[str, Tensor], units: Units, orders: Orders) -> dict[str, Tensor]:
    """The weights with unit r of each group where the order's entry r was; bit for bit the same numbers.

    Args:
        weights: by name. units: the network's. orders: of every group, a permutation.
    """
    found = dict(weights)
    for name, factors in units.factors.items():
        if any(factor.group is not None for factor in factors):
            value = weights[name].reshape([factor.size for factor in factors])
            for place, factor in enumerate(factors):
                if factor.group is not None:
                    value = value.index_select(place, torch.as_tensor(orders[factor.group], device=value.device))
            found[name] = value.reshape(weights[name].shape)
    return found


def _numbers(value: Tensor) -> Float[np.ndarray, ...]:
    return value.detach().double().cpu().numpy()


def _viewed(pair: Pair) -> Pair:
    shape = [factor.size for factor in pair.factors]
    error = np.broadcast_to(pair.error, pair.target.shape)
    return Pair(pair.target.reshape(shape), pair.given.reshape(shape), pair.factors, error.reshape(shape))


def along(
    values: Float[np.ndarray, ...], factors: Sequence[Factor], orders: Orders, but: int | None = None
) -> Float[np.ndarray, ...]:
    """The numbers with all their axes along the groups in these orders.

    Args:
        values, factors: the numbers, and the factors of their axes. orders: of every group.
        but: an axis that stays as it is.
    """
    for place, factor in enumerate(factors):
        if factor.group is not None and place != but:
            values = values.take(orders[factor.group], axis=place)
    return values


def _gains(pairs: Sequence[Pair], orders: Orders, group: int) -> Float[np.ndarray, "units units"]:
    """Inner products of each unit's numbers in the first network with each unit's in the second."""
    largest = (
        max(float(np.abs(part).max()) for pair in pairs for part in pair[:2]) or 1.0
    )  # so that products are finite
    found = np.zeros((len(orders[group]),) * 2)
    for pair in pairs:
        for place, factor in enumerate(pair.factors):
            if factor.group == group:
                rows = (
                    np.moveaxis(part / largest, place, 0)
                    for part in (pair.target, along(pair.given, pair.factors, orders, place))
                )
                one, other = (part.reshape(factor.size, -1) for part in rows)
                found += one @ other.T
    return found


def distance(pairs: Sequence[Pair]) -> Estimate:
    """The squared distance of all pairs, as they are."""
    costs = [squared_distance(Estimate(pair.target, pair.error), Estimate.exact(pair.given)) for pair in pairs]
    return sum(costs[1:], costs[0])


def _cost(pairs: Sequence[Pair], orders: Orders) -> Estimate:
    return distance([pair._replace(given=along(pair.given, pair.factors, orders)) for pair in pairs])
