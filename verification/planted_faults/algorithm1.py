"""Faults in the runs of Algorithm 1, in each implementation that `simulate` may choose."""

from typing import Any

import numpy as np

from ntkfl.problem import Weights
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


@around
def _by_samples(right: Any, self: Any, share: float) -> Any:
    """The server weights the clients by their numbers of samples instead of equally."""
    real = self.local_gram.diagonal(axis1=1, axis2=2) > 0
    sizes = real.sum(axis=1)
    weight = np.repeat(sizes / sizes.mean(), real.shape[1])
    self.summed *= weight[:, None]
    return right(self, share)


def _where(by_weights: bool) -> Fault:
    """The clients' step is 1% too large, in weight space alone or in pre-activation space alone."""
    return around(
        lambda right, self, eta_local, outputs: right(
            self, (1.01 if self.by_weights is by_weights else 1) * eta_local, outputs
        )
    )


@around
def _never_frozen(right: Any, *args: Any, **named: Any) -> Any:
    return right(*args, **(named | {"linearised": False}))


def _seen(**factors: float) -> Fault:
    return changed(lambda seen: seen._replace(**{k: f * getattr(seen, k) for k, f in factors.items()}))


@around
def _all_signs_plus(right: Any, *args: Any, **named: Any) -> Weights:
    hidden, signs = right(*args, **named)
    return Weights(hidden, np.abs(signs))


RUNS = "ntkfl.algorithm1"
NEURONS, COMPILED = f"{RUNS}.neurons:Neurons", f"{RUNS}.neurons:CompiledNeurons"
PRODUCTS = f"{RUNS}.client_threads:ClientProducts.train"
LARGER, LARGER_STEP = argument_times(1, 1.01), setup_times("eta_local", 1.01)

MUTANTS = (
    on_every_way("the server's mean by samples", f"{NEURONS}.end", _by_samples),
    on_every_way("the server's step 1% too large", f"{NEURONS}.end", LARGER),
    on_every_way("the clients' step 0.1% too large", f"{NEURONS}.step", argument_times(1, 1.001)),
    PlantedFault(
        "the total movement 1% too long", f"{COMPILED}.begin", _seen(total_movement=1.02), "fl-ntk/X.8", width=512
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
