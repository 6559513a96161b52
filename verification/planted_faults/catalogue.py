"""The planted faults.

They are faults in kernels, in runs of Algorithm 1, in barriers and averages of networks, and in the training engine.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ntkfl.problem import Weights
from ntkfl.training.method import Finish
from ntkfl.training.tree import tree_map
from verification.planted_faults.fault import (
    PlantedFault,
    argument_times,
    around,
    changed,
    on_every_way,
    setup_times,
    times,
)
from verification.planted_faults.planting import Fault

GRAM = "ntkfl.gram.finite_width"
REGIME = "ntkfl.limit.infinite_width:KernelRegime"
EVERY = "ntkfl.limit.infinite_width:Regime"
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
    """Counts one neuron too many as safe for every sample: the first that is not safe
    (`ntkfl.gram.patterns.safe_neurons`).
    """
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
    """The wrong noise of FedDyn's server: it is added once, and not summed up over rounds."""
    return np.where(np.arange(len(jump)) < 2, jump, 0.0)


KERNELS = (
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


@around
def _by_samples(right: Any, self: Any, share: float) -> Any:
    """Lets the server weight the clients by their numbers of samples instead of equally."""
    real = self.local_gram.diagonal(axis1=1, axis2=2) > 0
    sizes = real.sum(axis=1)
    weight = np.repeat(sizes / sizes.mean(), real.shape[1])
    self.summed *= weight[:, None]
    return right(self, share)


def _where(by_weights: bool) -> Fault:
    """Makes the clients' step 1% too large, either only in weight space or only in pre-activation space."""
    return around(
        lambda right, self, eta_local, outputs: right(
            self, (1.01 if self.by_weights is by_weights else 1) * eta_local, outputs
        )
    )


@around
def _never_frozen(right: Any, *args: Any, **named: Any) -> Any:
    return right(*args, **(named | {"linearised": False}))


def _fields_times(**factors: float) -> Fault:
    return changed(lambda record: record._replace(**{k: f * getattr(record, k) for k, f in factors.items()}))


@around
def _all_signs_plus(right: Any, *args: Any, **named: Any) -> Weights:
    hidden, signs = right(*args, **named)
    return Weights(hidden, np.abs(signs))


RUNS = "ntkfl.algorithm1"
NEURONS, COMPILED = f"{RUNS}.neurons:Neurons", f"{RUNS}.neurons:CompiledNeurons"
PRODUCTS = f"{RUNS}.client_threads:ClientProducts.train"
LARGER, LARGER_STEP = argument_times(1, 1.01), setup_times("eta_local", 1.01)

ALGORITHM1 = (
    on_every_way("the server's mean by samples", f"{NEURONS}.end", _by_samples),
    on_every_way("the server's step 1% too large", f"{NEURONS}.end", LARGER),
    on_every_way("the clients' step 0.1% too large", f"{NEURONS}.step", argument_times(1, 1.001)),
    PlantedFault(
        "the total movement 1% too long",
        f"{COMPILED}.begin",
        _fields_times(total_movement=1.02),
        "fl-ntk/X.8",
        width=512,
    ),
    on_every_way("the server's step 1% too large", f"{COMPILED}.end", LARGER),
    on_every_way("the clients' step 0.1% too large", f"{COMPILED}.step", argument_times(1, 1.001)),
    on_every_way("the server's step 1% too large", f"{RUNS}.switch_tracking:DealtNetwork.move", LARGER),
    on_every_way("by coefficients, the clients' step 1% too large", PRODUCTS, _where(False)),
    on_every_way("in weight space, the clients' step 1% too large", PRODUCTS, _where(True)),
    on_every_way("the clients' step 1% too large", f"{RUNS}.switch_tracking:SwitchTracking.train", LARGER),
    on_every_way("the clients' step 1% too large", f"{RUNS}.client_groups:run", LARGER_STEP),
    on_every_way("the weights kept 1% too long", f"{NEURONS}.weights", times(1.01)),
    PlantedFault("patterns are never frozen", f"{RUNS}.simulation:simulate", _never_frozen, "fl-ntk/X.1", width=512),
    on_every_way("the clients' step 1% too large", f"{RUNS}.reference:plain_run", LARGER_STEP),
    PlantedFault("all signs +1", "ntkfl.initialisation:draw", _all_signs_plus, "fl-ntk/B.8-hoeffding", trials=25),
)


@around
def _last_piece_missing(right: Any, self: Any) -> Any:
    fewer = len(self.coefficients) > 1
    return right(replace(self, edges=self.edges[:-1], coefficients=self.coefficients[:-1]) if fewer else self)


def _scaled_barrier(factor: float) -> Fault:
    return changed(lambda barrier: replace(barrier, value=replace(barrier.value, value=factor * barrier.value.value)))


@around
def _member_missing(right: Any, networks: Any, *args: Any, **named: Any) -> Any:
    return right(networks[:-1] if len(networks) > 2 else networks, *args, **named)


BARRIER = "ntkfl.connectivity.barrier"
PIECES = "ntkfl.connectivity.paths.piecewise:PiecewisePolynomial"
LINEAR = "ntkfl.connectivity.linear_rounds"

CONNECTIVITY = (
    PlantedFault("the last piece missing", f"{PIECES}.supremum", _last_piece_missing, "fedgucci/X1"),
    PlantedFault("the last piece missing", f"{PIECES}.integral", _last_piece_missing, "fedgucci/F12"),
    PlantedFault("1.0001 times too large", f"{BARRIER}:loss_barrier", _scaled_barrier(1.0001), "fedgucci/F1"),
    PlantedFault("1% too small", f"{BARRIER}:accuracy_barrier", _scaled_barrier(0.99), "fedgucci/F1b"),
    PlantedFault("1.0001 times too large", f"{BARRIER}:connectivity_loss", times(1.0001), "fedgucci/F12"),
    PlantedFault("1% too small", f"{BARRIER}:largest_gap", _scaled_barrier(0.99), "fedgucci/F1"),
    PlantedFault("1% too small", f"{BARRIER}:largest_loss", _scaled_barrier(0.99), "fedgucci/F1"),
    PlantedFault("the last member missing", f"{BARRIER}:group_barrier", _member_missing, "fedgucci/F14"),
    PlantedFault("the last member missing", f"{BARRIER}:group_accuracy_barrier", _member_missing, "fedgucci/F14"),
    PlantedFault("the last member missing", "ntkfl.connectivity.network:combination", _member_missing, "fedgucci/F14"),
    PlantedFault("beta 1% too large", f"{LINEAR}:fedgucci", argument_times(1, 1.01), "fedgucci/X4"),
    PlantedFault("1% too large", "ntkfl.connectivity.network:TwoLayer.outputs", times(1.01), "fedgucci/F1"),
    PlantedFault("half the region", "ntkfl.connectivity.low_loss_region:region_size", times(0.5), "fedgucci/F3"),
)


@around
def _other_sign(right: Any, self: Any, gradient: Any, params: Any, step: Any) -> Any:
    """Computes g + c_i - c in place of g - c_i + c."""
    return tree_map(lambda g, corrected: 2 * g - corrected, gradient, right(self, gradient, params, step))


@around
def _half_the_pull(right: Any, self: Any, *given: Any) -> Any:
    return right(replace(self, pull=self.pull / 2), *given)


def _kept(right: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a client begin with kept velocities instead of with 0.

    The kept velocities are the last velocities of parameters of the same shapes, if there are such velocities.
    """
    held: dict[Any, Any] = {}

    def wrong(self: Any, params: Any) -> Any:
        begun = right(self, params)
        return held.setdefault(tuple(value.shape for value in params.values()), begun) if begun else begun

    return wrong


@around
def _one_step_longer(right: Any, self: Any, client: Any, broadcast: Any, end: Finish) -> Any:
    return right(self, client, broadcast, end._replace(coefficient=end.coefficient + 1))


@around
def _without_value(right: Any, network: Any, params: Any) -> Any:
    """Computes J(theta_0, x) D in place of f(theta_0, x) + J(theta_0, x) D."""
    line = right(network, params)
    return replace(line, features=lambda moved, x: line.outputs(moved, x) - network.outputs(params, x))


@around
def _without_biases(right: Any, x: Any, network: Any, params: Any, *z: Any) -> Any:
    """Computes the kernel of all parameters except the biases."""
    fixed = {name: value for name, value in params.items() if name.endswith("bias")}
    own = replace(
        network,
        features=lambda moved, x: network.features(fixed | moved, x),
        head=lambda moved, z: network.head(fixed | moved, z),
    )
    return right(x, own, {name: value for name, value in params.items() if name not in fixed}, *z)


def _weights_replaced(kind: str, by: str) -> Fault:
    """Replaces the clients' weights of one kind, `kind`, by their weights of another kind, `by`; the kinds are "size"
    and "uniform".
    """
    return changed(lambda weights: weights | {kind: weights[by]})


TRAINING = "ntkfl.training"
SCAFFOLD = f"{TRAINING}.methods.scaffold:ControlVariates"
SHARES = f"{TRAINING}.engine.federation:Federation._shares"
LINEAR_METHODS, DEEP = "fl-ntk/X.14", "deep/linearised"
LARGER_LOCAL_STEP = setup_times("eta_local", 1.001)

METHODS = (
    PlantedFault("the control variates' sign", f"{SCAFFOLD}.correct", _other_sign, LINEAR_METHODS),
    PlantedFault("control variates over a step too many", f"{SCAFFOLD}.finish", _one_step_longer, LINEAR_METHODS),
    PlantedFault(
        "the proximal term halved", f"{TRAINING}.methods.fed_prox:Proximal.correct", _half_the_pull, LINEAR_METHODS
    ),
    PlantedFault("momenta kept from round to round", f"{TRAINING}.optimizers:SGD.initial", _kept, LINEAR_METHODS),
    PlantedFault(
        "equal weights where they go by samples", SHARES, _weights_replaced("size", by="uniform"), LINEAR_METHODS
    ),
    PlantedFault(
        "weights by samples where they are equal", SHARES, _weights_replaced("uniform", by="size"), LINEAR_METHODS
    ),
    PlantedFault(
        "the clients' step 0.1% too large", f"{TRAINING}.optimizers:SGD.step", argument_times(4, 1.001), LINEAR_METHODS
    ),
    on_every_way(
        "the clients' step 0.1% too large", f"{TRAINING}.engine_trajectory:engine_trajectory", LARGER_LOCAL_STEP
    ),
    PlantedFault(
        "without the network's value", f"{TRAINING}.engine_trajectory:linearised_network", _without_value, DEEP
    ),
    PlantedFault("without the biases", "ntkfl.gram.finite_width:empirical", _without_biases, DEEP),
    PlantedFault(
        "the clients' step 0.1% too large", f"{TRAINING}.wide_training:network_federation", LARGER_LOCAL_STEP, DEEP
    ),
)


FAULTS = (*KERNELS, *ALGORITHM1, *CONNECTIVITY, *METHODS)
