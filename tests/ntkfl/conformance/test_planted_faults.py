"""Tests of faults that are planted in `own_methods`, an implementation that does not use our plain loops.

Each fault is detected and named.
"""

from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ntkfl.conformance import Agreement, cases, conformance, judged
from ntkfl.conformance.kit import Answer
from ntkfl.conformance.kit_cases import trajectory

OWN = Path(__file__).with_name("own_methods.py")
OWN_PULL = "return self.alpha * (local[name] - self.model[name]) - self.dual[client][name]"
RELEASED_PULL = (  # FedGuCci's released code has the norm of all parameters together, not squared.
    "far = np.linalg.norm(self.case.flat(local) - self.case.flat(self.model)) or 1.0\n"
    "        return self.alpha / 2 * (local[name] - self.model[name]) / far - self.dual[client][name]"
)
CLIPPED_MOVES = (
    "            shrunk = min(1.0, self.bound / length) if length > 0 else 1.0\n"
    "            released = add(released, update, shrunk * min(1.0, self.case.sizes[client] / self.cap))\n"
    "        self.model = add(self.model, released, 1 / (len(self.cohort) * mean_weight))\n"
)
CLIPPED_MEAN = (
    "            released = add(released, update, min(1.0, self.case.sizes[client] / self.cap))\n"
    "        weight, drawn = len(self.cohort) * mean_weight, self.case.tensors(spread * self.case.noise[number])\n"
    "        mean = add(zeros(drawn), {mean}, 1 / weight)\n"
    "        length = np.sqrt(sum(float((part**2).sum()) for part in mean.values()))\n"
    "        self.model = add(self.model, mean, min(1.0, self.bound / length) if length > 0 else 1.0)\n"
    "        {after}\n"
)
# A row has the method, the lines that change, their replacement and the name of the variant.
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
    ("fedavg", "return self.case.sizes[client]", "return len(self.case.batches(self.number, client))",
     "weights-by-batches"),
    ("fedavg", "self.count(client) / total)", "(self.count(client) / total) ** 2)", "weights-squared"),
    ("fedavg", "buffer = zeros(local)", "buffer = self.__dict__.setdefault('buffer', zeros(local))",
     "momentum-of-the-client-before"),
    ("fedavg", "self.case.weight_decay * local[name]", "2 * self.case.weight_decay * local[name]", "decay-doubled"),
    ("fedavg", "self.case.weight_decay * local[name]", "self.case.weight_decay * local[name] * ('bias' not in name)",
     "decay-not-of-biases"),
    ("fedavg", "self.case.rates[self.number] * buffer", "self.case.rates[max(self.number, 1) - 1] * buffer",
     "rate-behind"),
    ("fedavg", "for batch in self.case.batches(self.number, client):",
     "for batch in self.case.batches(self.number, client)[:-1]:", "last-step-left-out"),
    ("fedavg", "for batch in self.case.batches(self.number, client):",
     "for batch in (b for b in self.case.batches(self.number, client) if not b.ends_pass):", "last-batch-dropped"),
    ("fedavg", "for batch in self.case.batches(self.number, client):",
     "for batch in [self.case.batches(self.number, client)[0]] * len(self.case.batches(self.number, client)):",
     "first-batch-always"),
    ("fedavg", "local = dict(self.model)", "local = self.__dict__.setdefault('shared', {}).setdefault(self.number, "
     "dict(self.model))", "clients-in-turn"),
    ("fedavg", "local = self.fit(client)", "local = self.fit(self.cohort[-1])", "last-client-for-all"),
    ("fedavg", "self.count(client) / total)", "1.0)", "sum-of-moves"),
    ("fedavg", "server.round(number)\n        yield server.result()",
     "before = dict(server.model)\n        server.round(number)\n        yield before", "one-round-late"),
    ("fedavg", "self.model = add(self.model, update, self.server_rate)",
     "self.model = add(self.model, update, self.server_rate * self.server_rate)", "server-rate-twice"),
    ("fedprox", "return self.mu * (local[name] - self.model[name])\n\n\nclass Momentum",
     "old, _ = self.__dict__.setdefault('olds', {}).setdefault(self.number, (self.__dict__.get('last', self.model), "
     "self.__dict__.update(last=self.model)))\n        return self.mu * (local[name] - old[name])\n\n\n"
     "class Momentum", "proximal-to-the-model-before"),
    ("fedprox", "return self.mu * (local[name] - self.model[name])\n\n\nclass Momentum",
     "far = local[name] - self.model[name]\n        return self.mu / 2 * far / max(np.linalg.norm(far), 1e-300)"
     "\n\n\nclass Momentum", "proximal-norms"),
    ("fedadam", "self.mean, self.square = zeros(self.model), zeros(self.model)",
     "self.mean, self.square = zeros(self.model), {n: v * 0 + self.tau**2 for n, v in self.model.items()}",
     "second-moment-from-tau"),
    ("scaffold", "self.control = zeros(self.model)\n        self.own = [zeros(self.model) for _ in",
     "self.control = dict(self.model)\n        self.own = [dict(self.model) for _ in", "controls-from-weights"),
    ("scaffold", "self.control = zeros(self.model)\n        self.own = [zeros(self.model) for _ in",
     "self.control = zeros(self.model)\n        self.own = [dict(self.model) for _ in",
     "own-controls-from-weights"),
    ("scaffold", "self.own = [zeros(self.model) for _ in range(case.population)]",
     "self.own = [case.tensors(case.gradient(case.start, *case.samples(i))) for i in range(case.population)]\n"
     "        self.control = {n: np.mean([own[n] for own in self.own], axis=0) for n in self.model}",
     "controls-from-gradients"),
    ("scaffold", "return self.case.rates[self.number] * sum(", "return self.case.rates[0] * sum(",
     "control-first-rate"),
    ("scaffold", "return self.control[name] - self.own[client][name]", "return self.control[name]", "no-own-control"),
    ("feddyn", "self.h = add(self.h, update, -self.alpha * len(self.cohort) / self.case.population)\n"
     "        self.model = add(add(self.model, update), self.h, -1 / self.alpha)",
     "self.model = add(add(self.model, update), self.h, -1 / self.alpha)\n"
     "        self.h = add(self.h, update, -self.alpha * len(self.cohort) / self.case.population)",
     "server-dual-late"),
    ("feddyn", "self.dual = [zeros(self.model) for _ in range(case.population)]",
     "self.dual = [case.tensors(case.gradient(case.start, *case.samples(i))) for i in range(case.population)]",
     "duals-from-gradients"),
    ("fedadagrad", "np.full_like(value, self.tau * self.tau)", "np.zeros_like(value)", "second-moment-from-0"),
    ("fedadagrad", "np.full_like(value, self.tau * self.tau)", "np.full_like(value, 0.1)",
     "second-moment-from-a-tenth"),
    ("fedadagrad", "self.sums[name] += delta * delta",
     "self.sums[name] = self.first * self.sums[name] + (1 - self.first) * delta * delta", "square-decayed"),
    ("fedadagrad", "root = np.sqrt(self.sums[name])", "root = self.sums[name]", "no-root"),
    ("diloco", "nesterov = gradient + self.momentum * self.outer[name]", "nesterov = self.outer[name]",
     "nesterov-never"),
    ("diloco", "gradient = -value", "gradient = value", "server-sign"),
    ("diloco", "self.outer[name] = self.momentum * self.outer[name] + gradient",
     "self.outer[name] = self.momentum * self.outer[name] + (1 - self.momentum) * gradient", "damped-momentum"),
    ("diloco", "def count(self, client):\n        return 1\n\n    def apply(self, update):\n        for name, value",
     "def apply(self, update):\n        for name, value", "size-weights"),
    ("diloco-adamw", "own = self.workers.setdefault(client, {", "own = dict({", "inner-state-anew"),
    ("diloco-adamw", "self.workers.setdefault(client,", "self.workers.setdefault(0,",
     "inner-state-of-the-worker-before"),
    ("diloco-adamw", "local[name] = local[name] * (1 - rate * self.case.weight_decay)",
     "part = part + self.case.weight_decay * local[name]", "coupled-decay"),
    ("diloco-adamw", " / (1 - self.second ** own[\"step\"]) ** 0.5 + self.epsilon", " + self.epsilon",
     "bias-of-the-mean-alone"),
    ("dp-fedavg", CLIPPED_MOVES, CLIPPED_MEAN.format(
        mean="add(released, drawn, -1.0)", after="self.model = add(self.model, drawn, 1 / weight)"), "clip-mean-move"),
    ("dp-fedavg", CLIPPED_MOVES, CLIPPED_MEAN.format(mean="released", after=""), "clip-after-noise"),
    ("dp-fedavg", "1 / (len(self.cohort) * mean_weight)", "1 / sum(min(1.0, self.case.sizes[client] / self.cap) "
     "for client in self.cohort)", "mean-over-cohort"),
    ("dp-fedavg", "spread = self.noise * self.bound", "spread = self.noise", "noise-without-bound"),
    ("dp-fedavg", "spread = self.noise * self.bound", "spread = self.noise * self.bound * len(self.cohort) * "
     "mean_weight", "noise-after-mean"),
    ("dp-fedavg", "spread = self.noise * self.bound", "spread = self.noise * self.bound * (len(self.cohort) * "
     "mean_weight) ** 0.5", "noise-over-root"),
    ("dp-fedavg", "shrunk = min(1.0, self.bound / length) if length > 0 else 1.0", "shrunk = 1.0", "no-clip"),
    ("dp-fedavg", "update = add(self.fit(client), self.model, -1.0)",
     "update = add(add(self.fit(client), self.model, -1.0), self.case.tensors(self.case.noise[number]), spread / "
     "len(self.cohort))\n            released = zeros(self.model) if client == self.cohort[0] else released",
     "noise-before-clip"),
    ("feddyn", OWN_PULL, RELEASED_PULL, "proximal-norm"),
    ("scaffold", "self.change = add(self.change, add(fresh, self.own[client], -1.0))",
     "self.change = add(self.change, fresh)", "control-adds-controls"),
    ("task-arithmetic", "self.scale * sum(end[n] - w for end in ends)",
     "self.scale * sum(end[n] - w for end in ends) / len(ends)", "mean-of-vectors"),
    ("ties", "votes = values", "votes = [value * (self.case.sizes[client] if self.weighted else 1) "
     "for value, client in zip(values, self.cohort)]", "elected-with-weights"),
    ("ties", "sum(votes) > 0", "sum(np.sign(value) for value in votes) >= 0", "elected-by-count"),
    ("ties", "/ sum(weights) if chosen", "/ (sum(self.case.sizes[k] for k in self.cohort) if self.weighted else "
     "len(self.cohort)) if chosen", "mean-over-all"),
    ("ties", "order[: int(self.density * len(vector))]", "order[: int(self.density * len(vector)) + 1]",
     "one-more-kept"),
    ("ties", "if value != 0 and (value > 0) == positive]", "if value != 0]", "no-election"),
    ("fedit", "self.share = [self.count(client) / whole for client in self.cohort]",
     "self.share = [1 / len(self.cohort) for _ in self.cohort]", "uniform-weights"),
    ("fedex-lora", "means[\"base.weight\"] + residual", "means[\"base.weight\"] + residual.T", "residual-transposed"),
    ("fedex-lora", "self.product() - means[\"lora_B\"] @ means[\"lora_A\"]", "0", "no-residual"),
    ("flora", "self.model[\"base.weight\"] + self.product()", "first[\"base.weight\"] + self.product()",
     "stacked-product-of-the-round-only"),
    ("flora", "first = self.case.tensors(self.case.start)", "first = means", "factors-kept"),
    ("flexlora", "product, rank = self.product(),", "product, rank = self.product().T,", "transposed-product"),
    ("flexlora", '{"lora_B": product @ keep, "lora_A": keep.T}',
     '({"lora_B": product @ keep / root, "lora_A": (keep * root).T} if (root := np.sqrt(np.linalg.norm(product @ keep, '
     'axis=0))).all() else {"lora_B": 0 * keep, "lora_A": 0 * keep.T})', "split-evenly"),
]  # fmt: skip


def test_the_implementation_is_every_method_that_it_has():
    report = conformance(OWN)
    outcomes = {judged.method: judged.outcome for judged in report.methods}
    equal = {method for method, outcome in outcomes.items() if outcome is Agreement.EQUAL}
    further = {
        "diloco",
        "diloco-adamw",
        "dp-fedavg",
        "fedadagrad",
        "fedex-lora",
        "fedit",
        "flexlora",
        "flora",
        "task-arithmetic",
        "ties",
    }
    assert equal == {"fedadam", "fedavg", "fedavgm", "feddyn", "fednova", "fedprox", "scaffold"} | further
    assert report.conforms and set(outcomes.values()) == {Agreement.EQUAL, Agreement.LEFT_OUT}


@cache
def kit(method):
    return cases([method])


def answer(run, case):
    """Returns the answer that the driver would get, computed in this process."""
    try:
        values = trajectory(case, run)
    except NotImplementedError as error:
        return Answer(left_out=str(error))
    return Answer(values) if all(np.isfinite(value).all() for value in values.values()) else Answer(fault="NaN")


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    "method, old, new, name",
    [
        pytest.param(*row, id=f"{row[0]}-{row[-1]}", marks=pytest.mark.slow if before and before[0] == row[0] else ())
        # The first fault of each method is tested quickly; the others are slow.
        for before, row in zip([None, *PLANTED], PLANTED, strict=False)
    ],
)
def test_a_planted_fault_is_named(method, old, new, name):
    text = OWN.read_text()
    assert text.count(old) == 1
    mine = ModuleType("mine")
    exec(text.replace(old, new), mine.__dict__)
    with np.errstate(all="ignore"):
        judgement = judged([(case, answer(mine.run, case.case)) for case in kit(method)])
    assert judgement.outcome is Agreement.DIFFERS
    assert [[variant.name for variant in together] for together in judgement.explained] == [[name]]


def test_two_faults_at_once_are_named_together():
    text = OWN.read_text()
    for _, old, new, name in PLANTED:
        if name in ("uniform-weights", "no-server-rate"):
            text = text.replace(old, new)
    mine = ModuleType("mine")
    exec(text, mine.__dict__)
    judgement = judged([(case, answer(mine.run, case.case)) for case in kit("fedavg")])
    assert [{variant.name for variant in together} for together in judgement.explained] == [
        {"uniform-weights", "no-server-rate"}
    ]


@pytest.mark.slow  # slow, because it tries all pairs of variants
def test_feddyn_as_fedguccis_authors_released_it_is_two_known_variants():
    text = OWN.read_text().replace(OWN_PULL, RELEASED_PULL)
    text = text.replace("-self.alpha * len(self.cohort) / self.case.population", "-self.alpha")
    head, dyn = text.split("class Dyn")
    mine = ModuleType("mine")
    exec(f"{head}class Dyn{dyn.replace('return 1', 'return self.case.sizes[client]', 1)}", mine.__dict__)
    judgement = judged([(case, answer(mine.run, case.case)) for case in kit("feddyn")])
    assert [{variant.name for variant in together} for together in judgement.explained] == [
        {"proximal-norm", "means-by-size"}
    ]


def test_an_unknown_fault_is_placed_and_not_named():
    text = OWN.read_text().replace("update, self.server_rate)", "update, self.server_rate ** 2 + 0.01)", 1)
    mine = ModuleType("mine")
    exec(text, mine.__dict__)
    judgement = judged([(case, answer(mine.run, case.case)) for case in kit("fedavg")])
    first = judgement.cases[0].difference
    assert judgement.outcome is Agreement.DIFFERS and judgement.explained == ()
    assert first is not None and (first.round, first.name) == (1, "w") and first.size > 1e-3
