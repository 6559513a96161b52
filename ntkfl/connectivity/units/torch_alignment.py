"""Any torch module as a network that can be averaged, and the alignment of such networks.

Networks are aligned by permuting units and channels. A group is a set of units that one permutation reorders, in all
weights in which they occur. A factor is an axis of an array, or a part of an axis, that belongs to one group or to
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ntkfl import interruption
from ntkfl.connectivity.alignment import ROUNDS, RULES, By, mean_of_others, squared_distance
from ntkfl.connectivity.network import check_shapes
from ntkfl.connectivity.units.walk import Factor, Read, Units, units_of
from ntkfl.estimate import Estimate
from ntkfl.memory import require
from ntkfl.messages import did_you_mean
from ntkfl.problem import finite_array


@dataclass(frozen=True, eq=False)
class TorchNetwork:
    """A torch module with weights of its own, evaluated in evaluation mode and without gradients.

    Args:
        module: the module that defines the architecture. The module is neither trained nor changed, and many networks
            may share it.
        state: parameters and buffers by name, as `module.state_dict()` has them. Entries that are no real numbers, such
            as batch norm's counters, are no weights, and `at` does not change them. Batch norm's running averages count
            as weights and are averaged. A tied weight counts once for each of its names.

    Raises:
        ValueError: names or shapes differ from the module's names or shapes, or a weight is not finite.
    """

    module: nn.Module
    state: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        own, given = ({name: value.shape for name, value in s.items()} for s in (self.module.state_dict(), self.state))
        wrong = sorted(name for name in own | given if own.get(name) != given.get(name))
        if wrong:
            raise ValueError(f"the state does not fit the module: {', '.join(wrong)} differs in name or shape")
        for name in dict(self.module.named_parameters()):
            if self.state[name].is_complex():
                raise ValueError(f"weight {name} is complex; every weight must be a real number")
        for name, value in self._weights():
            if not bool(torch.isfinite(value).all()):
                raise ValueError(f"weight {name} has an entry that is not finite; every weight must be finite")
        object.__setattr__(self, "state", {name: value.detach().clone() for name, value in self.state.items()})

    @classmethod
    def of(cls, module: nn.Module) -> TorchNetwork:
        """The network of a module with the weights that the module has now.

        Args:
            module: a torch module; it is neither trained nor changed.
        """
        return cls(module, module.state_dict())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights, by name."""
        return {name: tuple(value.shape) for name, value in self._weights()}

    def vector(self) -> Float[np.ndarray, " S"]:
        """All weights as one vector of float64, (S,)."""
        return np.concatenate([value.double().cpu().numpy().ravel() for _, value in self._weights()])

    def at(self, vector: Float[np.ndarray, " S"]) -> TorchNetwork:
        """The network of the same shape with these weights, each in the type of this network's weight.

        Args:
            vector: the weights, shape (S,).

        Raises:
            ValueError: the vector has another shape.
        """
        weights = self._weights()
        sizes, vector = [value.numel() for _, value in weights], finite_array("vector", vector)
        if np.shape(vector) != (sum(sizes),):
            raise ValueError(f"the weights have shape {np.shape(vector)}; this network has ({sum(sizes)},)")
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        replaced = {n: torch.as_tensor(p).reshape(v.shape).to(v) for (n, v), p in zip(weights, parts, strict=True)}
        return TorchNetwork(self.module, {**self.state, **replaced})

    def outputs(self, x: Tensor | np.ndarray) -> Float[np.ndarray, ...]:
        """The module's outputs, (n,) or (n, C), float64.

        Args:
            x: inputs of samples, a tensor or an array.
        """
        with torch.no_grad():
            return self.evaluated(self.state, self.inputs(x)).double().cpu().numpy()

    def inputs(self, x: Tensor | np.ndarray) -> Tensor:
        """The inputs as the module gets them, (n, ...). Arrays are converted to the type of the first weight.

        Args:
            x: inputs of samples, a tensor or an array.
        """
        if not isinstance(x, Tensor):
            # a copy, since torch warns of read-only arrays
            return torch.as_tensor(finite_array("x", x).copy()).to(self._weights()[0][1])
        if x.is_complex() or not bool(torch.isfinite(x).all()):
            finite_array("x", x)  # this raises an error whose message says what is wrong
        return x

    def evaluated(self, weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The module's outputs, (n, ...), with these tensors in place of the network's weights of the same names.

        Args:
            weights: tensors by name.
            inputs: the inputs, as `inputs` returns them.
        """
        training = {part: part.training for part in self.module.modules()}
        self.module.eval()
        try:
            outputs: Tensor = torch.func.functional_call(
                self.module, {**self.state, **weights}, (inputs,), tie_weights=False
            )
        finally:
            for part, was in training.items():
                part.training = was
        return outputs

    def tied(self) -> list[list[str]]:
        """For each tensor of the module that has several names, these names."""
        names: dict[int, list[str]] = {}
        for every in (self.module.named_parameters, self.module.named_buffers):
            for name, value in every(remove_duplicate=False):
                names.setdefault(id(value), []).append(name)
        return [group for group in names.values() if len(group) > 1]

    def _weights(self) -> list[tuple[str, Tensor]]:
        return [(name, value) for name, value in self.state.items() if value.is_floating_point()]


def units_and_parts(network: TorchNetwork, weights: Mapping[str, Tensor], x: Any) -> tuple[Units, list[Read]]:
    """The units, and for each layer that reads units its parts, (outputs, *shape of the layer's inputs).

    A part is a number that the layer reads, times the derivative of an output with respect to this number. In a
    two-layer ReLU network it is the contribution of a hidden unit to an output. If a unit's incoming weights are
    multiplied by c and its outgoing weights divided by c, no part changes. Inputs that several layers read count once;
    their gradient is the sum over all paths to the outputs.

    Args:
        network: any module.
        weights: the weights by name.
        x: the inputs, as the module gets them.

    Returns: the units, and the parts of each layer.

    Raises:
        ValueError: as `units_of`; or the outputs have no gradient.
        TooLittleMemory: the parts do not fit into memory.
    """
    trained = {name for name, _ in network.module.named_parameters(remove_duplicate=False)}
    own = {n: value.detach().requires_grad_() if n in trained else value for n, value in weights.items()}
    outputs: list[Tensor] = []

    def watched(given: Mapping[str, Tensor], inputs: Any) -> Tensor:
        # saved values are copied, since a module may change in place values that a gradient needs
        with torch.enable_grad(), saved_tensors_hooks(lambda value: value.detach().clone(), lambda value: value):
            outputs.append(network.evaluated(given, inputs))
        return outputs[0]

    units, reads = units_of(watched, own, x, network.tied())
    moved = {read.edge: read for read in reads if _moves(read)}
    return units, _parts(outputs[0], list(moved.values()))


def _parts(outputs: Tensor, reads: list[Read]) -> list[Read]:
    if not reads:
        return []
    edges = [read.edge for read in reads if read.edge is not None]
    if not outputs.requires_grad or len(edges) < len(reads):
        raise ValueError(
            "the network's outputs have no derivative by the inputs of its layers, which is needed to compare units by "
            "outputs: evaluate it with gradients, or compare by weights or activations"
        )
    rows = outputs.flatten(1) if outputs.ndim > 1 else outputs.reshape(-1, 1)
    # 3: the parts of the first network, and two copies of the parts of the second
    per_row = 8 * sum(read.values.numel() for read in reads) * 3 / len(rows)
    require("the parts of the outputs", lambda n, outputs: per_row * n * outputs, n=len(rows), outputs=rows.shape[1])
    parts: list[list[Tensor]] = [[] for _ in reads]
    for column in rows.unbind(1):
        interruption.check()
        gradients = torch.autograd.grad(column.sum(), edges, retain_graph=True, allow_unused=True)
        for part, read, gradient in zip(parts, reads, gradients, strict=True):
            part.append(torch.zeros_like(read.values) if gradient is None else gradient * read.values)
    count = Factor(rows.shape[1], None)
    return [Read(torch.stack(part), (count, *read.factors)) for part, read in zip(parts, reads, strict=True)]


class Numbers(NamedTuple):
    """An array of numbers that describe units, with the factors of the array's axes."""

    values: Float[np.ndarray, ...]
    factors: tuple[Factor, ...]


def unit_numbers(network: TorchNetwork, x: Tensor | np.ndarray, by: By = "weights") -> tuple[Units, list[Numbers]]:
    """The units of a network, and arrays of numbers that describe them. If units are permuted, so are the arrays' axes.

    Args:
        network: any module whose axes can be followed.
        x: inputs. If `by` is "weights", only their shape is used, and one sample is enough.
        by: "weights": all weights, including running averages. "activations": the numbers that each layer reads,
            divided by the square root of the number of samples. "outputs": the parts of `units_and_parts`, divided by
            this square root. Default weights.

    Returns: the units, and a list of arrays: of every weight, or of every layer that reads units.

    Raises:
        ValueError: `by` is unknown, or there is no sample. The module cannot be followed, or has no units that can be
            permuted; the message names the weights and the reason. Activations or parts are not finite. `by` is
            "outputs", and the outputs have no gradient.
        TooLittleMemory: for outputs, the parts do not fit into memory.
    """
    if by not in RULES:
        raise ValueError(f"units are compared by {', '.join(RULES)}, not by {by!r};{did_you_mean(by, RULES)}")
    if not len(x):
        raise ValueError("x has no sample; at least one is needed")
    weights = {name: value for name, value in network.state.items() if value.is_floating_point()}
    inputs = network.inputs(x)
    if by == "outputs":
        units, read = units_and_parts(network, weights, inputs)
    else:
        units, read = units_of(network.evaluated, weights, inputs, network.tied())
    if not units.names:
        why = "; ".join(f"{name}: {reason}" for name, reason in units.held.items())
        raise ValueError("the network has no units that could be permuted" + (f" ({why})" if why else ""))
    if by == "weights":
        return units, [_viewed(weights[name], factors, 1) for name, factors in units.factors.items()]
    viewed = [_viewed(*view[:2], len(x)) for view in read if _moves(view)]
    for number, view in enumerate(viewed):
        if not np.isfinite(view.values).all():
            what = "activations" if by == "activations" else "parts of the outputs"
            raise ValueError(
                f"layer {number}, counted from 0, of the {len(viewed)} layers that read units' values has {what} that "
                "are not finite; they must be finite: take other inputs, or compare by weights"
            )
    return units, viewed


def _moves(read: Read) -> bool:
    return any(factor.group is not None for factor in read.factors)


def _viewed(values: Tensor, factors: tuple[Factor, ...], n: int) -> Numbers:
    array: Any = values.detach().double().cpu().numpy().reshape([factor.size for factor in factors])
    return Numbers(array if n == 1 else array / np.sqrt(n), factors)


Orders = list[Int[np.ndarray, " units"]]


class Pair(NamedTuple):
    """An array of the first network, the same array of the second network, and the factors of the axes.

    Args:
        target: the first network's numbers.
        given: the second network's numbers, of the same shape.
        factors: the factors of the axes.
        error: a bound of the errors of the target's entries; default 0.
    """

    target: Float[np.ndarray, ...]
    given: Float[np.ndarray, ...]
    factors: tuple[Factor, ...]
    error: Float[np.ndarray, ...] | float = 0.0


def viewed(pair: Pair) -> Pair:
    """The pair, with arrays reshaped so that every factor has an axis of its own.

    Args:
        pair: numbers of two networks.
    """
    shape = [factor.size for factor in pair.factors]
    error = np.broadcast_to(pair.error, pair.target.shape)
    return Pair(pair.target.reshape(shape), pair.given.reshape(shape), pair.factors, error.reshape(shape))


def along(
    values: Float[np.ndarray, ...], factors: Sequence[Factor], orders: Orders, but: int | None = None
) -> Float[np.ndarray, ...]:
    """The array, with the units along each axis in the order of the axis's group.

    Args:
        values: the array.
        factors: the factors of its axes.
        orders: the order of every group's units.
        but: the axis that is not permuted; default none.

    Returns: an array of the same shape (...).
    """
    for place, factor in enumerate(factors):
        if factor.group is not None and place != but:
            values = values.take(orders[factor.group], axis=place)
    return values


def largest(pairs: Sequence[Pair]) -> float:
    """The largest absolute value of a number of either network.

    Args:
        pairs: the numbers of both networks that are compared.
    """
    return max(float(np.abs(part).max()) for pair in pairs for part in pair[:2])


def unit_products(
    target: Float[np.ndarray, ...], given: Float[np.ndarray, ...], place: int
) -> Float[np.ndarray, "units units"]:
    """The inner products of each unit's numbers in the first network with each unit's numbers in the second.

    Args:
        target: the first network's numbers.
        given: the second network's numbers, of the same shape.
        place: the axis of the units.
    """
    one, other = (np.moveaxis(part, place, 0).reshape(part.shape[place], -1) for part in (target, given))
    return np.asarray(one @ other.T)


def distance(pairs: Sequence[Pair], orders: Orders | None = None) -> Estimate:
    """The sum of the squared distances of all pairs, a number, with the second network's units in these orders.

    Args:
        pairs: the numbers of both networks that are compared.
        orders: the order of every group's units; default: the units' own order.
    """
    costs = []
    for pair in pairs:
        given = pair.given if orders is None else along(pair.given, pair.factors, orders)
        costs.append(squared_distance(Estimate(pair.target, pair.error), Estimate.exact(given)))
    return sum(costs[1:], costs[0])


STEPS, GAP = 50, 1e-3  # largest number of steps; steps end when the relative gain, to first order, is at most GAP

Means = list[Float[np.ndarray, "units units"]]


def relaxed(pairs: Sequence[Pair], sizes: Sequence[int], begin: Sequence[Orders] = ()) -> Orders:
    """Orders near a stationary point of a relaxed problem.

    Usually these orders are better starts for `match` than given orders. In the relaxed problem each group has a doubly
    stochastic matrix in place of an order, and the inner product of the two networks is maximised. All matrices change
    together, by the method of Frank and Wolfe. If a tensor has more than two axes of units, the step length is computed
    as if the objective were quadratic along the step.

    Args:
        pairs: the numbers of both networks that are compared.
        sizes: the sizes of the groups.
        begin: lists of orders, each list with one order for each group. The method of Frank and Wolfe starts from the
            mean of the lists. If there are no lists, it starts from the mean of all possible orders.

    Raises:
        TooLittleMemory: the matrices do not fit into memory.
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
    """The pairs, divided by their largest absolute value, so that products are finite."""
    scale = largest(pairs) or 1.0
    return [pair._replace(target=pair.target / scale, given=pair.given / scale) for pair in pairs]


def _slopes(pairs: Sequence[Pair], at: Sequence[np.ndarray], applied: Callable[..., np.ndarray]) -> Means:
    """The derivative of the networks' inner product with respect to each group's matrix."""
    return [_slope(pairs, at, group, applied) for group in range(len(at))]


def _slope(
    pairs: Sequence[Pair], at: Sequence[np.ndarray], group: int, applied: Callable[..., np.ndarray]
) -> Float[np.ndarray, "units units"]:
    """The derivative of the networks' inner product with respect to one group's matrix."""
    slope = np.zeros((len(at[group]),) * 2)
    for pair in pairs:
        for place, factor in enumerate(pair.factors):
            if factor.group == group:
                slope += unit_products(pair.target, applied(pair.given, pair.factors, at, place), place)
    return slope


def _mixed(values: Float[np.ndarray, ...], factors: Sequence[Factor], means: Means, but: int) -> Float[np.ndarray, ...]:
    """The second network's array, multiplied by the groups' matrices along all axes but axis `but`."""
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
    """The order of each group's units, the squared distances before and after reordering, and the number of sweeps."""

    orders: Orders
    cost_before: Estimate
    cost_after: Estimate
    sweeps: int


def match(pairs: Sequence[Pair], sizes: Sequence[int], starts: int = 1) -> Matching:
    """Reorder one group after the other, each to its best order for the others' present orders, until none changes.

    To reorder a group is an assignment problem. The group gets the optimal order if this lowers the squared distance by
    more than rounding errors. So every change lowers the distance, and the method ends.

    If no tensor has two groups, or one group on two axes, the result has the smallest possible distance, from any
    start. Otherwise it is only certain that no reordering of a single group, as above, lowers the distance. If a tensor
    has one group on two axes (as square maps in a residual stream), the distance is not linear in the assignment, and a
    better order of this group may be missed.

    Args:
        pairs: the numbers of both networks that are compared.
        sizes: the sizes of the groups.
        starts: number of starts, default 1. The first start is the given orders. The second is the result of `relaxed`
            from the mean of all possible orders. Each further start is the result of `relaxed` from the mean of the
            best orders so far and random orders, which are drawn with a fixed seed. The result with the smallest
            distance is returned; if several are equal up to rounding, the first of them.

    Raises:
        ValueError: `starts` is below 1.
        TooLittleMemory: as `relaxed`.
    Source: Git Re-Basin (arXiv:2209.04836), Algorithm 1, which goes through the groups in a random sequence in every
    sweep.
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
    """The matching that the method of `match` reaches from these orders."""
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
        units: the groups of units of the architecture.
        first: the first network's weights by name.
        second: the second network's weights by name.
    """
    return [Pair(_numbers(first[name]), _numbers(second[name]), factors) for name, factors in units.factors.items()]


def permuted(weights: Mapping[str, Tensor], units: Units, orders: Orders) -> dict[str, Tensor]:
    """The weights with each group of units reordered, in the same shape: unit r is the former unit order[r].

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


def _numbers(value: Tensor) -> Float[np.ndarray, ...]:
    return value.detach().double().cpu().numpy()


# Of 356 runs of the package git-re-basin (38 pairs of MLPs with three hidden layers), 8 reached a smaller distance than
# `match` with six starts, and 133 a smaller distance than `match` with one start.
STARTS = 6


@dataclass(frozen=True, eq=False)
class TorchAlignment:
    """The second of two networks, with its units in the order that fits the first network's units.

    Args:
        permutations: a permutation for each group of units, under the name of the group's first weight. Unit r of
            `aligned` is unit permutation[r] of the given network.
        aligned: the network with its units in the new order; its function is the same.
        cost_before: the squared distance before permuting, of the weights, the activations or the parts of the outputs,
            as `by` says. Its error does not contain the module's rounding of activations and parts.
        cost_after: the squared distance in the new order.
        sweeps: number of sweeps over all groups, in the search from the best start.
        held: the weights whose units were not permuted, with the reasons.
    """

    permutations: Mapping[str, Int[np.ndarray, " units"]]
    aligned: TorchNetwork
    cost_before: Estimate
    cost_after: Estimate
    sweeps: int
    held: Mapping[str, str]


def align_torch(
    first: TorchNetwork, second: TorchNetwork, x: Tensor | np.ndarray, by: By = "weights", starts: int = STARTS
) -> TorchAlignment:
    """Permute the second network's units, group after group, to be near the first network's, until nothing changes.

    One evaluation shows which axes of the weights belong together, so that no list of layers is needed. In a group norm
    or a grouped convolution, all groups of the layer get the same permutation of their channels. Batch norm is used in
    evaluation mode: its weights and running averages are permuted with the channels.

    The mean of two aligned networks has the means of their running averages. These mean averages differ from the
    averages of the mean network's own activations (Jordan et al. 2023, REPAIR), so compute running averages again
    before you evaluate the mean.

    Args:
        first: the network that stays.
        second: the network whose units are permuted, of the same architecture.
        x: inputs. If `by` is "weights", only their shape is used, and one sample is enough.
        by: how units are described, as in `unit_numbers`: by "weights", by "activations", or by their parts of the
            "outputs"; default weights.
        starts: the number of starts, as in `match`; the nearest result is returned. With several hidden layers and `by`
            weights, each start leads to another minimum, and the distances of the minima differ by some percent. For
            three layers of 1024 units, one start takes 7 seconds on one core and six starts take 50. Default 6.

    Raises:
        ValueError: the networks have different shapes, or `starts` is below 1; and as `unit_numbers`.
        TooLittleMemory: as `unit_numbers`.
    Source: Git Re-Basin (arXiv:2209.04836), sections 3.1 and 3.2; for outputs, the parts in place of activations.
    """
    check_shapes([first, second])
    (units, numbers), (_, other) = (unit_numbers(network, x, by) for network in (first, second))
    pairs = [Pair(layer.values, two.values, layer.factors) for layer, two in zip(numbers, other, strict=True)]
    return moved(second, units, match(pairs, units.sizes, starts), x)


def moved(network: TorchNetwork, units: Units, matching: Matching, x: Tensor | np.ndarray) -> TorchAlignment:
    """The network with its units in the orders of a matching.

    Args:
        network: the network whose units are reordered.
        units: the groups of its units.
        matching: the orders of the groups.
        x: inputs of samples.

    Raises:
        ValueError: the outputs change. They change only if the module computes with other operations than torch's.
    """
    aligned = TorchNetwork(network.module, permuted(network.state, units, matching.orders))
    before, after = network.outputs(x), aligned.outputs(x)
    kind = next(value.dtype for value in network.state.values() if value.is_floating_point())
    off, largest = np.abs(after - before).max(), np.abs(before).max()
    if not off <= torch.finfo(kind).eps ** 0.5 * largest:
        raise ValueError(
            f"the module's outputs changed by {off:.2g}, of {largest:.2g}, when its units were permuted: it computes "
            "with more than torch's operations, which cannot be followed"
        )
    orders = dict(zip(units.names, matching.orders, strict=True))
    return TorchAlignment(orders, aligned, matching.cost_before, matching.cost_after, matching.sweeps, units.held)


def align_torch_group(
    networks: Sequence[TorchNetwork],
    x: Tensor | np.ndarray,
    by: By = "weights",
    reference: int | None = None,
    starts: int = STARTS,
) -> list[TorchAlignment]:
    """Align all networks to one of them, or all to each other, as `align_group` does for two-layer networks.

    Args:
        networks: two or more of one architecture.
        x: inputs of samples, as in `align_torch`.
        by: how units are described, as in `align_torch`; default "weights".
        reference: the index of the network to which the others are aligned. None: one network after the other is
            aligned to the mean of the others' numbers, again and again until no unit changes its place. None of these
            alignments raises the sum of squared distances over all pairs, and no network is preferred.
        starts: the number of starts of every alignment, as in `align_torch`; default 6.

    Returns:
        An alignment for every network. The costs of an alignment are squared distances to the reference, or to the mean
        of the others. The number of sweeps is the sum over all alignments of this network.

    Raises:
        ValueError: as `align_torch`; or the reference is not the index of a network.
        TooLittleMemory: as `align_torch`.
    Source: Git Re-Basin (arXiv:2209.04836), Algorithm 3 (MergeMany), with the units' numbers in place of weights.
    """
    check_shapes(networks)
    if reference is not None and not 0 <= reference < len(networks):
        raise ValueError(f"the reference is {reference}; there are networks 0..{len(networks) - 1}")
    if reference is not None or len(networks) == 1:
        return [align_torch(networks[reference or 0], network, x, by, starts) for network in networks]
    units, given = zip(*(unit_numbers(network, x, by) for network in networks), strict=True)
    orders = [[np.arange(size) for size in network_units.sizes] for network_units in units]
    at = [[number.values for number in numbers] for numbers in given]
    sweeps, changed = [0] * len(networks), True
    for _ in range(ROUNDS):
        if not changed:
            break
        changed = False
        for k, numbers in enumerate(given):
            interruption.check()
            matching = match(_to_the_others(k, numbers, at), units[k].sizes, starts)
            sweeps[k] += matching.sweeps
            if any(np.any(order != np.arange(len(order))) for order in matching.orders):
                changed = True
                orders[k] = [own[order] for own, order in zip(orders[k], matching.orders, strict=True)]
                at[k] = [along(layer.values, layer.factors, orders[k]) for layer in numbers]
    as_given = [[layer.values for layer in numbers] for numbers in given]
    before, after = (
        [distance(_to_the_others(k, numbers, values)) for k, numbers in enumerate(given)] for values in (as_given, at)
    )
    return [
        moved(network, units[k], Matching(orders[k], before[k], after[k], sweeps[k]), x)
        for k, network in enumerate(networks)
    ]


def _to_the_others(k: int, numbers: Sequence[Numbers], at: Sequence[Sequence[np.ndarray]]) -> list[Pair]:
    """The k-th network's numbers and the mean of the other networks' numbers, all in the present orders."""
    pairs = []
    for place, layer in enumerate(numbers):
        mean = mean_of_others(k, [Estimate.exact(values[place]) for values in at])
        pairs.append(Pair(mean.value, at[k][place], layer.factors, mean.error))
    return pairs
