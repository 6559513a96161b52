"""Networks of torch modules, MLPs, CNNs and yours, aligned by permuting units and channels layer by layer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ntkfl.connectivity.alignment import By
from ntkfl.connectivity.network import check_shapes
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.matching import Matching, Pair, match, permuted
from ntkfl.connectivity.units.numbers import unit_numbers
from ntkfl.connectivity.units.walk import Units
from ntkfl.estimate import Estimate

# of 356 runs of git-re-basin (38 pairs of MLPs, three hidden layers) 8 came nearer than six starts, 133 came nearer
# than one start
STARTS = 6


@dataclass(frozen=True, eq=False)
class TorchAlignment:
    """The second of two networks, with its units in the order that fits the first network's units.

    Args:
        permutations: a permutation for each group of units, by the name of the group's first weight; unit r of
            `aligned` is unit permutation[r] of the given network.
        aligned: the network in the new order, which is the same function.
        cost_before: squared distance before permuting, of the weights, the activations or the parts of the outputs, as
            `by` says. Activations and parts have the module's rounding, which the error leaves out.
        cost_after: the squared distance in the new order.
        sweeps: number of sweeps over all groups, from the best start.
        held: the weights whose units stay in their places, with the reasons.
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
    """Permute the second network's units, layer after layer until nothing changes, to the order nearest to the first's.

    One evaluation shows which axes of the weights belong together, so that no list of layers is needed. The groups of a
    group norm, and of a grouped convolution, have their channels permuted alike. Batch norm is taken in evaluation
    mode: its weights and running averages move with their channels. The mean of two aligned networks has the mean of
    their running averages, which differ from the averages of its own activations (Jordan et al. 2023, REPAIR): compute
    them again before you evaluate the mean.

    Args:
        first: the network that stays.
        second: the network whose units are permuted, of the same architecture.
        x: inputs. For weights only their shape counts, and one sample is enough.
        by: the description of the units, as in `unit_numbers`: weights, activations, or the units' parts of the
            outputs; default weights.
        starts: the number of orders of the units from which the turns begin, as in `match`; the nearest result counts.
            With several hidden layers and `by` weights each start ends in a minimum of its own, and the minima differ
            by some percent. For three layers of 1024 units one start takes 7 seconds on one core, six take 50;
            default 6.

    Raises:
        ValueError: networks of different shapes, no start, or as `unit_numbers`.
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
        network: the network whose units are moved.
        units: its groups of units.
        matching: the order of each group.
        x: inputs of samples.

    Raises:
        ValueError: the outputs change, which happens only if the module computes with more than torch's operations.
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
