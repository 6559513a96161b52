"""Groups of torch models aligned: all to one of them, or all to each other in rounds."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ntkfl import interruption
from ntkfl.connectivity.alignment import ROUNDS, By, mean_of_others
from ntkfl.connectivity.network import check_shapes
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.matching import Matching, Pair, along, distance, match
from ntkfl.connectivity.units.numbers import Numbers, unit_numbers
from ntkfl.connectivity.units.torch_alignment import STARTS, TorchAlignment, align_torch, moved
from ntkfl.estimate import Estimate


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
        by: the description of a unit, as in `align_torch`; default "weights".
        reference: the index of the network that the others are aligned to. None: networks take turns, and each is
            aligned to the mean of the others' numbers, until no unit moves. No turn raises the sum of squared distances
            over all pairs, and no network is preferred.
        starts: the number of starting orders in every turn, as in `align_torch`; default 6.

    Returns:
        An alignment for every network. Its costs are distances to the reference, or to the mean of the others; its
        sweeps are counted over all rounds.

    Raises:
        ValueError: as `align_torch`; a reference that is no network's index.
        TooLittleMemory: as `align_torch`.
    Source: Git Re-Basin (arXiv:2209.04836), Algorithm 3 (MergeMany), with numbers of units in place of weights.
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
    """The k-th network's numbers and the mean of the others', all in their present order."""
    pairs = []
    for place, layer in enumerate(numbers):
        mean = mean_of_others(k, [Estimate.exact(values[place]) for values in at])
        pairs.append(Pair(mean.value, at[k][place], layer.factors, mean.error))
    return pairs
