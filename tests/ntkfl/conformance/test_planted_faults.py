"""Faults planted in somebody's implementation, written without the plain loops: each is found, and named."""

from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ntkfl.conformance import Outcome, cases, conformance, judged
from ntkfl.conformance.catalogue import trajectory
from ntkfl.conformance.exchange import Answer

OWN = Path(__file__).with_name("own_methods.py")
# method, the lines that are changed and what stands there instead, the variant's name
PLANTED = [
    ("fedavg", "return self.case.sizes[client]", "return 1", "uniform-weights"),
    ("fedavg", "total = sum(self.count(client) for client in self.cohort)", "total = sum(self.case.sizes)",
     "weights-of-everybody"),
    ("fedavg", "self.model = add(self.model, update, self.server_rate)", "self.model = add(self.model, update)",
     "no-server-rate"),
    ("fedavg", "batch.x, batch.y))", "batch.x, batch.y) * len(batch.y))", "sum-loss"),
    ("fedavg", "buffer = zeros(local)", "buffer = self.__dict__.setdefault('buffers', {}).setdefault(client, "
     "zeros(local))", "momentum-kept"),
    ("fedavg", "step = step + self.case.weight_decay * local[name]", "step = step + 0", "no-decay"),
    ("fedavg", "self.case.rates[self.number] * buffer", "self.case.rates[0] * buffer", "constant-rate"),
    ("fedprox", "return self.mu * (local[name] - self.model[name])\n\n\nclass Momentum",
     "return 2 * self.mu * (local[name] - self.model[name])\n\n\nclass Momentum", "proximal-doubled"),
    ("fedavgm", "self.velocity = add(update, self.velocity, self.momentum)",
     "self.velocity = {n: self.momentum * self.velocity[n] + (1 - self.momentum) * update[n] for n in update}",
     "damped-momentum"),
    ("fedavgm", "ahead = add(update, self.velocity, self.momentum) if self.nesterov else self.velocity",
     "ahead = self.velocity", "nesterov-never"),
    ("fedadam", "self.mean[name] / scale", "self.mean[name] / (1 - self.first ** (self.number + 1)) / "
     "(np.sqrt(self.square[name] / (1 - self.second ** (self.number + 1))) + self.tau)", "bias-corrected"),
    ("fedadam", "scale = np.sqrt(self.square[name]) + self.tau", "scale = np.sqrt(self.square[name] + self.tau)",
     "tau-in-root"),
    ("fedadam", "(1 - self.first) * delta", "delta", "moment-undamped"),
    ("fedadam", "self.first * self.mean[name] + (1 - self.first) * delta", "delta", "difference-as-moment"),
    ("scaffold", "return self.control[name] - self.own[client][name]",
     "return self.own[client][name] - self.control[name]", "correction-sign"),
    ("scaffold", "1 / self.case.population)", "1 / len(self.cohort))", "control-over-cohort"),
    ("scaffold", 'if self.option == "I":', "if True:", "always-option-I"),
    ("scaffold", "sum(m**j for k in range(steps) for j in range(k + 1))", "steps", "steps-without-momentum"),
    ("feddyn", "-self.alpha * len(self.cohort) / self.case.population", "-self.alpha", "mean-over-cohort"),
    ("feddyn", "local[name] - self.model[name]) - self.dual", "local[name] - self.model[name]) + 0 * self.dual",
     "no-dual"),
    ("fednova", "weight = self.count(client) / sum(self.case.sizes[c] for c in self.cohort)",
     "weight = 1 / len(self.cohort)", "uniform-steps"),
    ("fednova", "speed = self.case.momentum * speed + 1 -", "speed = 1 -", "steps-without-momentum"),
    ("fednova", "return place", "return 1.0", "not-normalised"),
]  # fmt: skip


def test_the_implementation_is_every_method_that_it_has():
    found = conformance(OWN)
    outcomes = {one.method: one.outcome for one in found.methods}
    equal = {method for method, outcome in outcomes.items() if outcome is Outcome.EQUAL}
    assert equal == {"fedadam", "fedavg", "fedavgm", "feddyn", "fednova", "fedprox", "scaffold"}
    assert found.conforms and set(outcomes.values()) == {Outcome.EQUAL, Outcome.LEFT_OUT}


@cache
def kit(method):
    return cases([method])


def answer(run, case):
    """As the driver asks, without a process of its own."""
    try:
        values = trajectory(case, run)
    except NotImplementedError as error:
        return Answer(left_out=str(error))
    return Answer(values) if all(np.isfinite(value).all() for value in values.values()) else Answer(fault="NaN")


@pytest.mark.parametrize("method, old, new, name", PLANTED, ids=[f"{row[0]}-{row[-1]}" for row in PLANTED])
def test_a_planted_fault_is_named(method, old, new, name):
    text = OWN.read_text()
    assert text.count(old) == 1
    mine = ModuleType("mine")
    exec(text.replace(old, new), mine.__dict__)
    with np.errstate(all="ignore"):
        found = judged([(case, answer(mine.run, case.case)) for case in kit(method)])
    assert found.outcome is Outcome.DIFFERS
    assert [[variant.name for variant in together] for together in found.explained] == [[name]]


def test_two_faults_at_once_are_named_together():
    text = OWN.read_text()
    for _, old, new, name in PLANTED:
        if name in ("uniform-weights", "no-server-rate"):
            text = text.replace(old, new)
    mine = ModuleType("mine")
    exec(text, mine.__dict__)
    found = judged([(case, answer(mine.run, case.case)) for case in kit("fedavg")])
    assert [{variant.name for variant in together} for together in found.explained] == [
        {"uniform-weights", "no-server-rate"}
    ]


def test_an_unknown_fault_is_placed_and_not_named():
    text = OWN.read_text().replace("update, self.server_rate)", "update, self.server_rate ** 2 + 0.01)", 1)
    mine = ModuleType("mine")
    exec(text, mine.__dict__)
    found = judged([(case, answer(mine.run, case.case)) for case in kit("fedavg")])
    first = found.cases[0].difference
    assert found.outcome is Outcome.DIFFERS and found.explained == ()
    assert first is not None and (first.round, first.name) == (1, "w") and first.size > 1e-3
