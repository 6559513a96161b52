"""Faults in the runs of Algorithm 1, on each of the ways that `simulate` can go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ntkfl.problem import Weights
from verification.library.mutant import LibraryMutant, argument_times, changed, setup_times, times


def _by_samples(right: Callable[..., Any]) -> Callable[..., Any]:
    """The server weighs the clients by their numbers of samples, not all alike."""

    def wrong(self: Any, share: float) -> Any:
        real = self.local_gram.diagonal(axis1=1, axis2=2) > 0
        sizes = real.sum(axis=1)
        weight = np.repeat(sizes / sizes.mean(), real.shape[1])
        self.summed *= weight[:, None]
        return right(self, share)

    return wrong


def _where(by_weights: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The clients' step 1% too large, in weight space or in pre-activation space alone."""

    def fault(right: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(self: Any, eta_local: float, outputs: Any) -> Any:
            return right(self, (1.01 if self.by_weights is by_weights else 1) * eta_local, outputs)

        return wrong

    return fault


def _never_frozen(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: right(*args, **(named | {"linearised": False}))


def _seen(**factors: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return changed(lambda seen: seen._replace(**{k: f * getattr(seen, k) for k, f in factors.items()}))


def _all_signs_plus(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*args: Any, **named: Any) -> Weights:
        hidden, signs = right(*args, **named)
        return Weights(hidden, np.abs(signs))

    return wrong


NEURONS, COMPILED = "ntkfl.algorithm1.neurons:Neurons", "ntkfl.algorithm1.compiled_neurons:CompiledNeurons"

WAYS = ("fl-ntk/Alg1-update",)  # two cases of each family in which networks are run by every way

MUTANTS = (
    LibraryMutant("the server's mean by samples", f"{NEURONS}.end", _by_samples, WAYS, trials=1),
    LibraryMutant("the server's step 1% too large", f"{NEURONS}.end", argument_times(1, 1.01), WAYS, trials=1),
    LibraryMutant("the clients' step 0.1% too large", f"{NEURONS}.step", argument_times(1, 1.001), WAYS, trials=1),
    LibraryMutant("the total movement 1% too long", f"{COMPILED}.begin", _seen(total_movement=1.02), ("fl-ntk/X.8",)),
    LibraryMutant("the server's step 1% too large", f"{COMPILED}.end", argument_times(1, 1.01), WAYS, trials=1),
    LibraryMutant("the clients' step 0.1% too large", f"{COMPILED}.step", argument_times(1, 1.001), WAYS, trials=1),
    LibraryMutant(
        "the server's step 1% too large",
        "ntkfl.algorithm1.dealt_network:DealtNetwork.move",
        argument_times(1, 1.01),
        WAYS,
        trials=1,
    ),
    LibraryMutant(
        "by coefficients, the clients' step 1% too large",
        "ntkfl.algorithm1.client_threads:ClientProducts.train",
        _where(False),
        WAYS,
        trials=1,
    ),
    LibraryMutant(
        "in weight space, the clients' step 1% too large",
        "ntkfl.algorithm1.client_threads:ClientProducts.train",
        _where(True),
        WAYS,
        trials=1,
    ),
    LibraryMutant(
        "the clients' step 1% too large",
        "ntkfl.algorithm1.switch_tracking:SwitchTracking.train",
        argument_times(1, 1.01),
        WAYS,
        trials=1,
    ),
    LibraryMutant(
        "the clients' step 1% too large",
        "ntkfl.algorithm1.client_groups:run",
        setup_times("eta_local", 1.01),
        WAYS,
        trials=1,
    ),
    LibraryMutant("the weights kept 1% too long", f"{NEURONS}.weights", times(1.01), WAYS, trials=1),
    LibraryMutant("patterns are never frozen", "ntkfl.algorithm1.simulation:simulate", _never_frozen, ("fl-ntk/X.1",)),
    LibraryMutant(
        "the clients' step 1% too large",
        "ntkfl.algorithm1.reference:plain_run",
        setup_times("eta_local", 1.01),
        WAYS,
        trials=1,
    ),
    LibraryMutant("all signs +1", "ntkfl.initialisation:draw", _all_signs_plus, ("fl-ntk/B.8-hoeffding",), trials=25),
)
