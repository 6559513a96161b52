"""Tests of the cases by which `ntkfl conform` tests implementations: training engine, plain loop and limit agree.

The content of the cases is tested too.
"""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch

from ntkfl.conformance import ConformanceCase, KitCase, answers, cases, kit_cases, loops, methods, plan, write
from ntkfl.conformance.comparing import allowed, first_difference
from ntkfl.conformance.kit import EXPECTED, SCHEMA, SCHEMA_FILE
from ntkfl.conformance.kit_cases import LIMIT_CASES, OPTIONS, trajectory
from ntkfl.training import LocalWork
from ntkfl.training.methods import catalogue

KIT = cases()
# Without `equals`, a case's expected values come from the plain loop of its own method.
LOOPED = {case: replace(case, equals=None) for case in KIT}
FORM = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
each_case = pytest.mark.parametrize("case", KIT, ids=lambda case: case.case.name)


def slow_if(case):
    """Marks the easier of two settings as slow.

    The torch loops take longest, so quick tests run these loops only on limit cases and on the harder setting.
    """
    return pytest.mark.slow if case.case.name.endswith("network-plain") else ()


def test_the_local_steps_that_a_case_offers_are_those_of_the_loops():
    momentum, clip = 0, 0
    for case in (kit.case for kit in KIT if kit.case.method in ("fedavg", "fedit", "ties", "task-arithmetic")):
        for t, client in ((number, own) for number in range(case.rounds) for own in case.cohort(number)):
            own = case.trained(t, client, case.start)
            np.testing.assert_array_equal(own, loops.train(case, case.start, t, client))
        momentum, clip = momentum + (case.momentum > 0), clip + (case.clip is not None)
    assert momentum and clip


def test_every_method_has_cases_and_names_are_unique():
    without = set(catalogue()) - set(methods())
    assert methods() == tuple(OPTIONS) and not without, (
        f"{', '.join(sorted(without))} has no cases: add options to OPTIONS in ntkfl/conformance/kit_cases.py, and its "
        "plain loop to LOOPS in ntkfl/conformance/loops.py"
    )
    assert {case.case.method for case in KIT} == set(OPTIONS)
    assert len({case.case.name for case in KIT}) == len(KIT)


def test_an_adapter_answers_a_case_of_ones_own():
    """An adapter, here our module of plain loops, answers the case from the page on conformance."""
    samples = np.array([[1.0], [2.0]]), np.array([1.0, -2.0]), np.array([0, 1])
    setting = plan.Setting(plan.DrawnData("line"), 0.05, LocalWork(batch_size=None, steps=5))
    case = KitCase(plan.case("scaffold", {"option": "I"}, setting, 20, data=(samples, {"w": np.zeros(1)})))
    (answer,) = answers(Path(loops.__file__), [case])
    assert answer.values["w"].shape == (20, 1) and not answer.fault
    assert np.abs(answer.values["w"] - case.expected["w"]).max() <= 1e-12


@pytest.mark.parametrize("method", methods())
def test_a_method_alone_is_its_part_of_the_kit(method):
    assert [kit.case.name for kit in cases([method])] == [k.case.name for k in KIT if k.case.method == method]


def test_an_unknown_method_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"the kit has no method 'fedavgn'\..*fedavg"):
        cases(["fedavgn"])


@pytest.mark.quick_rows(4)
@each_case
def test_a_case_is_what_its_schema_says_and_stays_itself_in_files(case, tmp_path):
    FORM.validate(case.case.document)
    case.case.write(tmp_path / "one")
    read = ConformanceCase.read(tmp_path / "one")
    assert read.document == case.case.document
    assert all(np.array_equal(read.arrays[name], value) for name, value in case.case.arrays.items())
    assert all(value.dtype in (np.float64, np.int64) for value in read.arrays.values())


def test_a_document_of_another_form_is_none():
    FORM.check_schema(SCHEMA)
    document = KIT[0].case.document
    with pytest.raises(jsonschema.ValidationError):
        FORM.validate(document | {"loss": "median"})
    with pytest.raises(ValueError, match="the case's format is 'other'; it must be 'ntkfl conformance case 1'"):
        ConformanceCase(document | {"format": "other"}, KIT[0].case.arrays)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("case", [pytest.param(k, marks=slow_if(k), id=k.case.name) for k in KIT])
def test_models_move_unless_they_must_not_and_stay_moderate(case):
    expected = LOOPED[case].expected
    model = {name: expected[name] for name in case.case.results}
    began = case.case.result(case.case.start)
    moved = max(np.abs(model[name][-1] - began[name]).max() for name in model)
    if case.case.method == "local":
        moved = np.abs(expected["client_models"][-1] - case.case.start).max()
    assert (moved > 1e-3) == (not case.case.name.endswith("zero-rate"))
    assert all(np.isfinite(value).all() and np.abs(value).max() < 20 for value in model.values())
    assert all(len(value) == case.case.rounds for value in expected.values())


@pytest.mark.parametrize("case", [kit for kit in KIT if kit.equals], ids=lambda case: case.case.name)
def test_a_limit_is_what_it_says_computed_without_the_method(case):
    expected, limit = LOOPED[case].expected, trajectory(case.case, case.equals)
    assert max(np.abs(expected[name] - limit[name]).max() for name in case.case.results) < 1e-13


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    "method", [m for m in methods() if m not in ("fedavg", "fedit")]
)  # FedIT is left out like FedAvg itself, because FedIT is FedAvg of the factors.
def test_fed_avg_is_not_taken_for_another_method(method):
    own = [case for case in KIT if case.case.method == method]
    assert any(first_difference(trajectory(kit.case, kit_cases.fed_avg), kit.expected, allowed(kit, "float32"))
               for kit in own)  # fmt: skip


def test_every_limit_has_methods_that_exist():
    assert all(set(limit.methods) <= set(OPTIONS) and limit.methods for limit in LIMIT_CASES)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("case", [k for k in KIT if k.case.method in loops.LOOPS], ids=lambda case: case.case.name)
def test_the_trajectory_is_that_of_extended_precision(case):
    """The rounding of the plain loop is far below the tolerance."""
    extended = trajectory(case.case.cast(np.longdouble), loops.run)
    for name in case.case.results:
        assert extended[name].dtype == np.longdouble
        assert (np.abs(extended[name] - case.expected[name]).max(axis=tuple(range(1, extended[name].ndim)))
                < 1e-3 * allowed(case, "float64")).all()  # fmt: skip


@pytest.mark.parametrize("kit", [k for k in KIT if k.case.method == "diloco-adamw"], ids=lambda k: k.case.name)
def test_diloco_is_torchs_adam_w_within_torchs_sgd_with_nesterov(kit):
    """The case agrees with DiLoCo written with torch.

    Each worker keeps its AdamW, and the difference of the model and the workers' mean is the outer gradient.
    """
    case, given = kit.case, kit.case.options
    w = torch.nn.Parameter(torch.tensor(case.start))
    nesterov = given["momentum"] > 0
    outer = torch.optim.SGD([w], given["server_rate"], momentum=given["momentum"], nesterov=nesterov)
    workers = {i: torch.nn.Parameter(w.detach().clone()) for i in range(case.population)}
    decays = {"betas": (given["first"], given["second"]), "eps": given["epsilon"], "weight_decay": case.weight_decay}
    inner = {i: torch.optim.AdamW([own], lr=1.0, **decays) for i, own in workers.items()}
    for t in range(case.rounds):
        cohort = case.cohort(t)
        for i in cohort:
            workers[i].data.copy_(w.data)
            inner[i].param_groups[0]["lr"] = case.rates[t]
            for batch in case.batches(t, i):
                gradient = case.gradient(workers[i].detach().numpy(), batch.x, batch.y)
                shrunk = 1.0 if case.clip is None else min(1.0, case.clip / np.linalg.norm(gradient))
                workers[i].grad = torch.tensor(gradient * shrunk)
                inner[i].step()
        w.grad = torch.stack([w.data - workers[i].data for i in cohort]).mean(0)
        outer.step()
        for name, value in case.result(w.detach().numpy()).items():
            assert np.abs(value - kit.expected[name][t]).max() < 1e-13


@pytest.mark.parametrize("model", ["line", "logistic", "network"])
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_gradients_are_those_of_autograd(model, loss):
    from ntkfl.conformance.plan import DrawnData

    data = DrawnData(model)
    x, y, _ = data.samples()
    case = plan.case("fedavg", {}, plan.Setting(data, 0.1, plan.LocalWork(), loss=loss), 1)
    leaf = {name: torch.tensor(value, requires_grad=True) for name, value in data.start().items()}
    inputs = torch.tensor(x)
    if model == "line":
        losses = (inputs @ leaf["w"] - torch.tensor(y)) ** 2 / 2
    else:
        if model == "network":
            inputs = torch.tanh(inputs @ leaf["body.0.weight"].T + leaf["body.0.bias"])
        scores = inputs @ leaf["head.weight"].T + leaf["head.bias"]
        losses = torch.nn.functional.cross_entropy(scores, torch.tensor(y), reduction="none")
    getattr(losses, loss)().backward()
    expected = case.flat({name: value.grad.numpy() for name, value in leaf.items()})
    assert np.abs(case.gradient(case.start, x, y) - expected).max() < 1e-13


def test_the_kit_is_a_folder_of_files_without_pickles(tmp_path):
    count = write(tmp_path / "kit", ["fedavg", "local"])
    index = json.loads((tmp_path / "kit" / "kit.json").read_text())
    assert len(index["cases"]) == count == len([k for k in KIT if k.case.method in ("fedavg", "local")])
    assert json.loads((tmp_path / "kit" / SCHEMA_FILE).read_text()) == SCHEMA
    for listed in index["cases"]:
        folder = tmp_path / "kit" / listed["case"]
        case = ConformanceCase.read(folder)
        with np.load(folder / EXPECTED, allow_pickle=False) as expected:
            assert set(listed["required"]) <= set(expected.files)
            assert all(expected[name].shape == (case.rounds, *shape) for name, shape in case.shapes.items())
    with pytest.raises(OSError, match="exists and is not an empty folder; name a new one"):
        write(tmp_path / "kit")
