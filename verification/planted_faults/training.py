"""Faults in the training engine and its methods."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ntkfl.training.method import Finish
from ntkfl.training.tree import tree_map
from verification.planted_faults.fault import PlantedFault, argument_times, around, changed, on_every_way, setup_times
from verification.planted_faults.planting import Fault


@around
def _other_sign(right: Any, self: Any, gradient: Any, params: Any, step: Any) -> Any:
    """g + c_i - c in place of g - c_i + c."""
    return tree_map(lambda g, corrected: 2 * g - corrected, gradient, right(self, gradient, params, step))


@around
def _half_the_pull(right: Any, self: Any, *given: Any) -> Any:
    return right(replace(self, pull=self.pull / 2), *given)


def _kept(right: Callable[..., Any]) -> Callable[..., Any]:
    """A client begins with the last velocities of parameters of the same shapes, if there are any, and not with 0."""
    held: dict[Any, Any] = {}

    def wrong(self: Any, params: Any) -> Any:
        begun = right(self, params)
        return held.setdefault(tuple(value.shape for value in params.values()), begun) if begun else begun

    return wrong


@around
def _one_step_more(right: Any, self: Any, client: Any, broadcast: Any, end: Finish) -> Any:
    return right(self, client, broadcast, end._replace(coefficient=end.coefficient + 1))


@around
def _without_value(right: Any, network: Any, params: Any) -> Any:
    """J(theta_0, x) D in place of f(theta_0, x) + J(theta_0, x) D."""
    line = right(network, params)
    return replace(line, features=lambda moved, x: line.outputs(moved, x) - network.outputs(params, x))


@around
def _without_biases(right: Any, x: Any, network: Any, params: Any, *z: Any) -> Any:
    """The kernel of all parameters but the biases."""
    fixed = {name: value for name, value in params.items() if name.endswith("bias")}
    own = replace(
        network,
        features=lambda moved, x: network.features(fixed | moved, x),
        head=lambda moved, z: network.head(fixed | moved, z),
    )
    return right(x, own, {name: value for name, value in params.items() if name not in fixed}, *z)


def _weights(kind: str, of: str) -> Fault:
    """The weights `kind` are replaced by the weights `of`: by size in place of equal ones, or the reverse."""
    return changed(lambda weights: weights | {kind: weights[of]})


TRAINING = "ntkfl.training"
SCAFFOLD = f"{TRAINING}.methods.scaffold:ControlVariates"
SHARES = f"{TRAINING}.engine.federation:Federation._shares"
LINEAR, DEEP = "fl-ntk/X.14", "deep/linearised"
LARGER_STEP = setup_times("eta_local", 1.001)

MUTANTS = (
    PlantedFault("the control variates' sign", f"{SCAFFOLD}.correct", _other_sign, LINEAR),
    PlantedFault("control variates over a step too many", f"{SCAFFOLD}.finish", _one_step_more, LINEAR),
    PlantedFault("the proximal term halved", f"{TRAINING}.methods.fed_prox:Proximal.correct", _half_the_pull, LINEAR),
    PlantedFault("momenta kept from round to round", f"{TRAINING}.optimizers:SGD.initial", _kept, LINEAR),
    PlantedFault("equal weights where they go by samples", SHARES, _weights("size", of="uniform"), LINEAR),
    PlantedFault("weights by samples where they are equal", SHARES, _weights("uniform", of="size"), LINEAR),
    PlantedFault(
        "the clients' step 0.1% too large", f"{TRAINING}.optimizers:SGD.step", argument_times(4, 1.001), LINEAR
    ),
    on_every_way("the clients' step 0.1% too large", f"{TRAINING}.engine_trajectory:engine_trajectory", LARGER_STEP),
    PlantedFault(
        "without the network's value", f"{TRAINING}.engine_trajectory:linearised_network", _without_value, DEEP
    ),
    PlantedFault("without the biases", "ntkfl.gram.finite_width:empirical", _without_biases, DEEP),
    PlantedFault("the clients' step 0.1% too large", f"{TRAINING}.wide_training:network_federation", LARGER_STEP, DEEP),
)
