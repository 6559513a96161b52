"""Faults in Gram matrices, counts, sets of neurons and eigenvalues."""

from collections.abc import Callable
from typing import Any

import numpy as np

from verification.planted_faults.fault import PlantedFault, changed, times


def _global_patterns(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, owner, u, w, neurons=None: right(x, owner, u, np.broadcast_to(u, np.shape(w)), neurons)


def _of_the_next_client(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, owner, u, w, neurons=None: right(x, (owner + 1) % len(w), u, w, neurons)


def _over_all_neurons(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, owner, u, w, neurons=None: right(x, owner, u, w)


def _without_ties(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, u: right(x, u) & ~right(-np.asarray(x), u)


def _one_too_many(safe: np.ndarray) -> np.ndarray:
    """For every sample, its first unsafe neuron counts as safe."""
    return safe | (np.cumsum(~safe, axis=1) == 1)


def _half_the_radius(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, u, radius: right(x, u, radius / 2)


GRAM = "ntkfl.gram.finite_width"

MUTANTS = (
    PlantedFault("1% too large", "ntkfl.gram.limit:infinite", times(1.01), "fl-ntk/H-inf"),
    PlantedFault("0.01% too large", "ntkfl.gram.limit:infinite_estimate", times(1.0001), "fl-ntk/H-inf"),
    PlantedFault("one neuron in a hundred too many", f"{GRAM}:finite", times(1.01), "fl-ntk/counts"),
    PlantedFault("one neuron in a hundred too few", f"{GRAM}:finite_estimate", times(0.99), "fl-ntk/counts"),
    PlantedFault("test points in reverse order", f"{GRAM}:finite", changed(lambda h: h[::-1]), "fl-ntk/X.8"),
    PlantedFault("symmetric: global patterns on both sides", f"{GRAM}:local_gram", _global_patterns, "fl-ntk/counts"),
    PlantedFault("transposed", f"{GRAM}:local_gram", changed(np.transpose), "fl-ntk/Eq3-4"),
    PlantedFault("of the next client's weights", f"{GRAM}:local_gram", _of_the_next_client, "fl-ntk/counts"),
    PlantedFault("over all neurons, whichever are asked for", f"{GRAM}:local_gram", _over_all_neurons, "fl-ntk/counts"),
    PlantedFault("0.1% too large", "ntkfl.gram.limit:angles", times(1.001), "fl-ntk/H-inf"),
    PlantedFault("one neuron in a hundred too few", f"{GRAM}:jacobian_gram", times(0.99), "fl-ntk/counts"),
    PlantedFault("ties left out", "ntkfl.gram.patterns:activations", _without_ties, "fl-ntk/counts"),
    PlantedFault("one neuron too many", "ntkfl.gram.patterns:safe_neurons", changed(_one_too_many), "fl-ntk/counts"),
    PlantedFault("half the radius", "ntkfl.gram.patterns:safe_neurons", _half_the_radius, "fl-ntk/counts"),
    PlantedFault("1% too large", "ntkfl.gram.spectrum:smallest_eigenvalue", times(1.01), "fl-ntk/H-inf"),
    PlantedFault("1% too small", "ntkfl.gram.spectrum:largest_eigenvalue", times(0.99), "fl-ntk/H-inf"),
    PlantedFault("0.0001% too large", "ntkfl.gram.deep:deep", times(1.000001), "deep/kernel"),
    PlantedFault("0.0001% too large", "ntkfl.gram.deep:deep_estimate", times(1.000001), "deep/kernel"),
    PlantedFault("half the changes", "ntkfl.gram.counts:changes_within", times(0.5), "fl-ntk/B.11"),
)
