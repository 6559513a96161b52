"""Faults in the exact dynamics at infinite width: its maps, rates, outputs and step limits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from verification.planted_faults.fault import PlantedFault, around, changed, times

REGIME = "ntkfl.limit.infinite_width:KernelRegime"
EVERY = "ntkfl.limit.regime:Regime"


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


MUTANTS = (
    PlantedFault("the clients' response 1.0001 times too large", f"{REGIME}._response", times(1.0001), "fl-ntk/X.4"),
    PlantedFault("a local step too many", "ntkfl.limit.round_modes:geometric_sum", _one_step_more, "fl-ntk/X.2"),
    PlantedFault("the server's step 1% too large", f"{REGIME}._rho", times(1.01), "fl-ntk/X.4"),
    PlantedFault("transposed", f"{REGIME}.round_map", changed(np.transpose), "fl-ntk/X.4"),
    PlantedFault("1% too large", f"{REGIME}.nu", times(1.01), "fl-ntk/X.2"),
    PlantedFault("in reverse order", f"{REGIME}.spectrum", changed(lambda values: values[::-1]), "fl-ntk/X.2"),
    PlantedFault("0.1% too slow", f"{REGIME}.rate", times(1.001), "fl-ntk/X.3b"),
    PlantedFault("of the round after", f"{EVERY}.outputs", _a_round_late, "fl-ntk/X.1"),
    PlantedFault("training points in place of the new ones", f"{EVERY}.predict", _at_the_training_points, "fl-ntk/X.8"),
    PlantedFault("1% too long", f"{REGIME}.movement", times(1.01), "fl-ntk/X.8"),
    PlantedFault("at a server's step of 1", f"{REGIME}.rounds_to", _at_a_step_of_1, "fl-ntk/X.6"),
    PlantedFault("1% too large", f"{REGIME}.step_limits", times(1.01), "fl-ntk/X.3c"),
)
