"""Faults in the training engine and its methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ntkfl.training.method import Finish
from ntkfl.training.tree import tree_map
from verification.library.mutant import LibraryMutant, argument_times, setup_times

METHODS = "ntkfl.training.methods"


def _other_sign(right: Callable[..., Any]) -> Callable[..., Any]:
    """g + c_i - c in place of g - c_i + c."""
    return lambda self, gradient, params, step: tree_map(
        lambda g, corrected: 2 * g - corrected, gradient, right(self, gradient, params, step)
    )


def _half_the_pull(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *given: right(replace(self, pull=self.pull / 2), *given)


def _kept(right: Callable[..., Any]) -> Callable[..., Any]:
    """The velocities of the round before, where a client of the same shape had some."""
    held: dict[Any, Any] = {}

    def wrong(self: Any, params: Any) -> Any:
        begun = right(self, params)
        return held.setdefault(tuple(value.shape for value in params.values()), begun) if begun else begun

    return wrong


def _by_size(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: Any, clients: Any) -> Any:
        found = right(self, clients)
        return found | {"uniform": found["size"]}

    return wrong


def _all_alike(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: Any, clients: Any) -> Any:
        found = right(self, clients)
        return found | {"size": found["uniform"]}

    return wrong


def _one_step_more(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: Any, client: Any, broadcast: Any, end: Finish) -> Any:
        return right(self, client, broadcast, end._replace(coefficient=end.coefficient + 1))

    return wrong


def _without_value(right: Callable[..., Any]) -> Callable[..., Any]:
    """J(theta_0, x) D in place of f(theta_0, x) + J(theta_0, x) D."""

    def wrong(network: Any, params: Any) -> Any:
        line = right(network, params)
        return replace(line, features=lambda moved, x: line.outputs(moved, x) - network.outputs(params, x))

    return wrong


def _without_biases(right: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of all parameters but the biases."""

    def wrong(network: Any, params: Any, *data: Any) -> Any:
        fixed = {name: value for name, value in params.items() if name.endswith("bias")}
        own = replace(
            network,
            features=lambda moved, x: network.features(fixed | moved, x),
            head=lambda moved, z: network.head(fixed | moved, z),
        )
        return right(own, {name: value for name, value in params.items() if name not in fixed}, *data)

    return wrong


WAYS = ("fl-ntk/Alg1-update",)  # two cases of each family in which networks are run by every way
DEEP = ("deep/linearised",)

MUTANTS = (
    LibraryMutant(
        "the control variates' sign",
        f"{METHODS}.scaffold:ControlVariates.correct",
        _other_sign,
        ("fl-ntk/X.14",),
    ),
    LibraryMutant(
        "control variates over a step too many",
        f"{METHODS}.scaffold:ControlVariates.finish",
        _one_step_more,
        ("fl-ntk/X.14",),
    ),
    LibraryMutant("the proximal term halved", f"{METHODS}.fed_prox:Proximal.correct", _half_the_pull, ("fl-ntk/X.14",)),
    LibraryMutant("momenta kept from round to round", "ntkfl.training.optimizers:SGD.initial", _kept, ("fl-ntk/X.14",)),
    LibraryMutant(
        "equal weights where they go by samples",
        "ntkfl.training.engine.federation:Federation._shares",
        _all_alike,
        ("fl-ntk/X.14",),
    ),
    LibraryMutant(
        "weights by samples where they are equal",
        "ntkfl.training.engine.federation:Federation._shares",
        _by_size,
        ("fl-ntk/X.14",),
    ),
    LibraryMutant(
        "the clients' step 0.1% too large",
        "ntkfl.training.optimizers:SGD.step",
        argument_times(4, 1.001),
        ("fl-ntk/X.14",),
    ),
    LibraryMutant(
        "the clients' step 0.1% too large",
        "ntkfl.training.engine_trajectory:engine_trajectory",
        setup_times("eta_local", 1.001),
        WAYS,
        trials=1,
    ),
    LibraryMutant(
        "without the network's value",
        "ntkfl.training.linearised_network:linearised",
        _without_value,
        DEEP,
    ),
    LibraryMutant("without the biases", "ntkfl.gram.empirical_kernel:empirical", _without_biases, DEEP),
    LibraryMutant(
        "the clients' step 0.1% too large",
        "ntkfl.training.wide_training:network_federation",
        setup_times("eta_local", 1.001),
        DEEP,
    ),
)
