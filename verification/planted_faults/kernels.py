"""Faults in Gram matrices, counts and eigenvalues, and in the exact dynamics at infinite width."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from verification.planted_faults.fault import PlantedFault, around, changed, times

GRAM = "ntkfl.gram.finite_width"
REGIME = "ntkfl.limit.infinite_width:KernelRegime"
EVERY = "ntkfl.limit.regime:Regime"
PASS, MEMORY = "ntkfl.limit.shuffled_pass:ShuffledPass", "ntkfl.limit.scheduled_rounds:DrawnMemoryRegime"
SCHEDULED, STATE = "ntkfl.limit.scheduled_rounds:ScheduledRegime", "ntkfl.limit.mean_square:StateMoments"


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


def _one_step_more(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda q, step, terms: right(q, step, np.asarray(terms) + 1)


def _a_round_late(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, rounds, *args: right(self, np.asarray(rounds) + 1, *args)


@around
def _at_the_training_points(right: Any, self: Any, x: Any, *args: Any, cross_gram: Any = None, **named: Any) -> Any:
    count = len(x if cross_gram is None else cross_gram)
    rows = np.resize(np.arange(self.problem.n), count)
    return right(self, x, *args, cross_gram=self.gram[rows], **named)


def _at_a_step_of_1(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: right(self.at(replace(self.setup, eta_global=1.0)), *args)


def _of_the_round_after(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number: right(self, number + 1)


def _forgotten(jump: np.ndarray) -> np.ndarray:
    """FedDyn's server adds the noise once, and does not sum it up."""
    return np.where(np.arange(len(jump)) < 2, jump, 0.0)


MUTANTS = (
    PlantedFault("1% too large", "ntkfl.gram.limit:infinite", times(1.01), "fl-ntk/H-inf"),
    PlantedFault("0.01% too large", "ntkfl.gram.limit:infinite_estimate", times(1.0001), "fl-ntk/H-inf"),
    PlantedFault("one neuron in a hundred too many", f"{GRAM}:finite", times(1.01), "fl-ntk/counts"),
    PlantedFault("one neuron in a hundred too few", f"{GRAM}:finite_estimate", times(0.99), "fl-ntk/counts"),
    PlantedFault("test points in reverse order", f"{GRAM}:finite", changed(lambda h: h[::-1]), "fl-ntk/X.8", width=512),
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
    PlantedFault("the clients' response 1.0001 times too large", f"{REGIME}._response", times(1.0001), "fl-ntk/X.4"),
    PlantedFault("a local step too many", "ntkfl.limit.round_modes:geometric_sum", _one_step_more, "fl-ntk/X.2"),
    PlantedFault("the server's step 1% too large", f"{REGIME}._rho", times(1.01), "fl-ntk/X.4"),
    PlantedFault("transposed", f"{REGIME}.round_map", changed(np.transpose), "fl-ntk/X.4"),
    PlantedFault("1% too large", f"{REGIME}.nu", times(1.01), "fl-ntk/X.2"),
    PlantedFault("in reverse order", f"{REGIME}.spectrum", changed(lambda values: values[::-1]), "fl-ntk/X.2"),
    PlantedFault("0.1% too slow", f"{REGIME}.rate", times(1.001), "fl-ntk/X.3b"),
    PlantedFault("of the round after", f"{EVERY}.outputs", _a_round_late, "fl-ntk/X.1"),
    PlantedFault(
        "training points in place of the new ones", f"{EVERY}.predict", _at_the_training_points, "fl-ntk/X.8", width=512
    ),
    PlantedFault("1% too long", f"{REGIME}.movement", times(1.01), "fl-ntk/X.8", width=512),
    PlantedFault("at a server's step of 1", f"{REGIME}.rounds_to", _at_a_step_of_1, "fl-ntk/X.6"),
    PlantedFault("1% too large", f"{REGIME}.step_limits", times(1.01), "fl-ntk/X.3c"),
    PlantedFault("0.1% too much", f"{PASS}.noise_after", times(1.001), "fl-ntk/passes-with-memory"),
    PlantedFault("0.1% too long", f"{PASS}.length", times(1.001), "fl-ntk/passes-with-memory"),
    PlantedFault("noise is not summed up", f"{MEMORY}._jump", changed(_forgotten), "fl-ntk/drawn-memory"),
    PlantedFault("of the round after", f"{SCHEDULED}._of_round", _of_the_round_after, "fl-ntk/drawn-memory"),
    PlantedFault("0.0001% too large", f"{STATE}._beside", times(1.000001), "fl-ntk/rate-sides"),
)
