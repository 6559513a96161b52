"""Tests of every method against plain numpy loops over clients, for any grouping; in float32 up to rounding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import case_of, flat, models, network, on_classes, on_quadratics, rows, states

from ntkfl.conformance import loops
from ntkfl.conformance.kit_cases import OPTIONS
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.methods import catalogue
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.tree import flatten

# Loops of other methods are only used by the conformance tests.
METHODS = tuple(method for method in loops.LOOPS if method in catalogue())
# If a method has options for a server rate, cases with the rate 1 are left to the conformance tests.
CASES = {
    f"{tag}{method}": (method, options)
    for method in METHODS
    for tag, options in OPTIONS[method].items()
    if tag or "server-rate-" not in OPTIONS[method]
}
KEPT = {  # names of states in the plain loops -> the party that keeps this state in the engine, and its name there
    "momentum": ("server", "momentum"),
    "first_moment": ("server", "first"),
    "second_moment": ("server", "second"),
    "dual": ("server", "dual"),
    "control": ("server", "control"),
    "client_duals": ("clients", "dual"),
    "client_controls": ("clients", "control"),
    "client_models": ("clients", "model"),
}
each_case = pytest.mark.parametrize("case", CASES)


def check(case, *runs):
    """Asserts that every round of each run has the plain loop's states, and returns how far the model moved."""
    options, first = CASES[case][1], runs[0]
    expected = list(loops.LOOPS[first.method.name](case_of(first, 3, options), **options))
    for run in runs:
        history = states(run, 3)[1:]
        for state, kept in zip(history, expected, strict=True):
            agrees(state, kept)
    return np.abs(flat(history[-1].model) - flat(history[0].model)).max()


def agrees(state, kept):
    """Asserts that a state equals the plain loop's state after that round."""
    assert np.abs(flat(state.model) - kept["model"]).max() < 1e-10
    has_trained = state.has_trained.numpy()
    for name, value in kept.items():
        if name != "model":
            where, own = KEPT[name]
            if where == "server":
                assert np.abs(flat(state.server[own]) - value).max() < 1e-10
            else:
                assert np.abs(rows(state.clients["rule"][own])[has_trained] - value[has_trained]).max() < 1e-10


@pytest.mark.quick_rows(4)
@pytest.mark.kind("equals a plain loop")
@each_case
@pytest.mark.parametrize(
    "optimizer, participation, groups",
    [(SGD(), 1.0, [16]), (SGD(0.9, 1e-2), 0.6, [1, 2])],
    ids=["plain", "momentum"],
)
def test_on_a_network(case, optimizer, participation, groups):
    method, options = CASES[case]
    run = on_classes(method, options=options, optimizer=optimizer, participation=participation)
    moved = check(case, *(replace(run, at_once=at_once) for at_once in groups))
    assert moved > 1e-3 or case == "local"


@pytest.mark.kind("equals a plain loop")
@each_case
@pytest.mark.parametrize("optimizer", [SGD(), SGD(0.5)], ids=["plain", "momentum"])
def test_on_quadratics(case, optimizer):
    method, options = CASES[case]
    work = LocalWork(epochs=2, batch_size=4)
    check(case, on_quadratics(method, options=options, optimizer=optimizer, work=work, participation=0.6))


@pytest.mark.method("fl-ntk")
def test_the_losses_of_fl_ntk_are_sums_unless_another_is_given():
    run = on_quadratics("fl-ntk", rate=0.02, objective=None, participation=0.6, options=CASES["server-rate-fl-ntk"][1])
    assert run.method.objective == HalfSquares("sum") and case_of(run, 1).loss == "sum"
    check("server-rate-fl-ntk", run)


@pytest.mark.quick_rows(4)
@pytest.mark.kind("clients grouped")
@each_case
def test_grouping_clients_changes_nothing_but_rounding(case):
    method, options = CASES[case]
    one = on_classes(method, options=options, participation=0.8, at_once=1)
    alone = [flatten({"server": s.server, "clients": s.clients}) for s in states(one, 2)]
    # There is one group of three clients, and one group of the fourth client.
    grouped = states(replace(one, at_once=3), 2)
    for first, second in zip(alone, grouped, strict=True):
        other = flatten({"server": second.server, "clients": second.clients})
        assert first.keys() == other.keys()
        assert all((first[path] - other[path]).abs().max() < 1e-12 for path in first)


@pytest.mark.quick_rows(4)
@pytest.mark.kind("float32")
@each_case
def test_in_float32_everything_stays_float32_and_close(case):
    method, options = CASES[case]
    # The threshold is 0, because signs of values that are nearly 0 may differ.
    options = options | ({"threshold": 0.0} if method == "fedgma" else {})
    run = on_classes(method, options=options, at_once=1)
    expected = models(run, 2)[-1]
    start = {name: value.float() for name, value in run.model.initial(run.seed).items()}
    single = replace(run, model=network(torch.float32), data=run.data.to("cpu", torch.float32))
    for at_once in (1, 16):
        last = states(replace(single, at_once=at_once), 2, start)[-1]
        assert all(v.dtype == torch.float32 for v in flatten({"s": last.server, "c": last.clients}).values())
        assert np.abs(flat(last.model) - expected).max() < 1e-4


@pytest.mark.quick_rows(4)
@pytest.mark.kind("no samples")
@each_case
def test_a_client_without_samples_moves_nothing(case):
    """A client without samples moves nothing.

    Means that are weighted by sizes leave this client out. Uniform means have it as one of M clients, with Delta = 0.
    """
    method, options = CASES[case]
    run = on_classes(method, options=options, at_once=1 if method == "cyclic" else 16)
    empty = replace(run, data=replace(run.data, clients=run.data.clients + 1))
    last, without = states(empty, 2)[-1], states(run, 2)[-1]
    assert all(torch.isfinite(value).all() for value in flatten({"s": last.server, "c": last.clients}).values())
    if method in ("cyclic", "fedavg", "fedavg-aligned", "local", "fedprox", "fednova", "fedadam", "fedyogi"):
        assert np.abs(flat(last.model) - flat(without.model)).max() < 1e-12
    if method in ("feddyn", "scaffold"):
        assert not rows(last.clients["rule"][{"feddyn": "dual", "scaffold": "control"}[method]])[-1].any()
