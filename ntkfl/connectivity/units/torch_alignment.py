"""Networks of torch modules, MLPs, CNNs and yours, aligned by permuting units and channels layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ntkfl.connectivity.network import check_shapes
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.matching import Pair, match, permuted, weight_pairs
from ntkfl.connectivity.units.walk import Read, Units, units_of
from ntkfl.estimate import Estimate
from ntkfl.nearest_name import did_you_mean

By = Literal["weights", "activations"]
RULES = ("weights", "activations")


@dataclass(frozen=True, eq=False)
class TorchAlignment:
    """The second of two networks with its units moved to where they fit those of the first.

    Args:
        permutations: by the first weight that a group of units has; unit r of `aligned` is unit permutation[r] of the
            network that was given.
        aligned: the moved network; the same function.
        cost_before, cost_after: the squared distance, as given and as moved, of the weights, or of what layers read (in
            the arithmetic of the module, whose rounding the error leaves out).
        sweeps: how often all groups had their turn, the last time without a change.
        held: weights whose units stay in their places, and why.
    """

    permutations: Mapping[str, Int[np.ndarray, " units"]]
    aligned: TorchNetwork
    cost_before: Estimate
    cost_after: Estimate
    sweeps: int
    held: Mapping[str, str]


def align_torch(
    first: TorchNetwork, second: TorchNetwork, x: Tensor | np.ndarray, by: By = "weights", starts: int = 1
) -> TorchAlignment:
    """Permute the second network's units, layer by layer in turns until nothing changes, to where they fit the first's.

    Layers are found by following the axes of weights through the operations of one evaluation, so that no list of
    layers is needed. Of a group norm's channels, and of a grouped convolution's, those of each group are permuted
    alike. Batch norm is taken in evaluation mode: its weights and running averages move with their channels. The mean
    of two such networks has the mean of their averages, which are not those of the mean's own activations (Jordan et
    al. 2023, REPAIR): take them anew before judging it.

    Args:
        first, second: of one architecture.
        x: inputs. For weights only their shape counts, and one sample is enough.
        by: what is compared: weights (running averages too), or activations, the numbers that each layer reads, over
            the root of the samples.
        starts: how often the turns are taken, in other orders of the layers; the nearest that is found counts. With
            several hidden layers and `by` weights one start ends in a minimum that another one may better by a percent.

    Raises:
        ValueError: networks of different shapes, an unknown rule, no sample, no start, a module that cannot be
            followed or that has no unit to permute, with the weights and the reason.
    Source: Ainsworth et al. (2023), Git Re-Basin, sections 3.1 and 3.2.
    """
    check_shapes([first, second])
    if by not in RULES:
        raise ValueError(f"units are compared by {' or '.join(RULES)}, not by {by!r};{did_you_mean(by, RULES)}")
    if not len(x):
        raise ValueError("x has no sample; at least one is needed")
    (units, read), (_, other) = (_units(network, x) for network in (first, second))
    if not units.names:
        why = "; ".join(f"{name}: {reason}" for name, reason in units.held.items())
        raise ValueError("the network has no units that could be permuted" + (f" ({why})" if why else ""))
    pairs = weight_pairs(units, first.state, second.state) if by == "weights" else _read_pairs(read, other, len(x))
    found = match(pairs, units.sizes, starts)
    aligned = TorchNetwork(second.module, permuted(second.state, units, found.orders))
    _check(second, aligned, x)
    orders = dict(zip(units.names, found.orders, strict=True))
    return TorchAlignment(orders, aligned, found.cost_before, found.cost_after, found.sweeps, units.held)


def _units(network: TorchNetwork, x: Any) -> tuple[Units, list[Read]]:
    weights = {name: value for name, value in network.state.items() if value.is_floating_point()}
    return units_of(network.evaluated, weights, network.inputs(x), network.tied())


def _read_pairs(first: list[Read], second: list[Read], n: int) -> list[Pair]:
    pairs = []
    for one, other in zip(first, second, strict=True):
        target, given = (each.values.double().cpu().numpy() / np.sqrt(n) for each in (one, other))
        pairs.append(Pair(target, given, one.factors))
    return [pair for pair in pairs if any(factor.group is not None for factor in pair.factors)]


def _check(given: TorchNetwork, aligned: TorchNetwork, x: Any) -> None:
    """That the function stayed, which fails only where a module computes with more than torch's operations.

    Raises:
        ValueError: it did not.
    """
    before, after = given.outputs(x), aligned.outputs(x)
    kind = next(value.dtype for value in given.state.values() if value.is_floating_point())
    off, largest = np.abs(after - before).max(), np.abs(before).max()
    if not off <= torch.finfo(kind).eps ** 0.5 * largest:
        raise ValueError(
            f"the module's outputs changed by {off:.2g}, of {largest:.2g}, when its units were permuted: it computes "
            "with more than torch's operations, which cannot be followed"
        )
