"""Tests of FedProx and FedDyn: proximal limits, dual variables, fixed points."""

import numpy as np
import pytest
import torch
from tiny_federations import fixed_point, flat, models, on_classes, on_quadratics, optimum, quadratics, rows, states

from ntkfl.training.engine.federation import State
from ntkfl.training.methods import build
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD

pytestmark = pytest.mark.method("fedprox")

EQUAL = np.full(5, 0.2)


@pytest.mark.parametrize("optimizer", [SGD(), SGD(0.9, 1e-2)], ids=["plain", "momentum"])
def test_without_a_proximal_term_fedprox_is_fedavg_to_the_bit(optimizer):
    prox = on_classes("fedprox", options={"mu": 0.0}, optimizer=optimizer, participation=0.6)
    assert (models(prox, 3) == models(on_classes("fedavg", optimizer=optimizer, participation=0.6), 3)).all()


def ends(run, state=None):
    """Returns the clients' models after a round, (clients, P)."""
    return rows(run.round(state or run.start(), keep_ends=True).ends)


@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0])
def test_many_steps_reach_the_proximal_point(mu):
    run = on_quadratics("fedprox", options={"mu": mu}, rate=1 / (1 + mu), steps=25)
    hessians, linear = quadratics(run.data)
    w = flat(run.start().model)
    closed = np.linalg.solve(hessians + mu * np.eye(3), (linear + mu * w)[..., None])[..., 0]
    assert np.abs(ends(run) - closed).max() < 1e-12


def test_a_strong_proximal_term_holds_clients_where_they_start():
    start, previous = flat(on_quadratics().start().model), np.inf
    for mu in (1e2, 1e4, 1e6):
        run = on_quadratics("fedprox", options={"mu": mu}, rate=0.5 / mu, steps=50)
        hessians, linear = quadratics(run.data)
        gradients = np.linalg.norm(hessians @ start - linear, axis=1)
        moved = np.linalg.norm(ends(run) - start, axis=1)
        assert (moved <= gradients / mu).all() and (moved >= 0.9 * gradients / mu).all() and moved.max() < previous
        previous = moved.max()


@pytest.mark.parametrize("mu", [0.3, 30.0])
def test_the_first_local_step_does_not_feel_the_proximal_term(mu):
    run = on_quadratics("fedprox", options={"mu": mu}, steps=1)
    assert (ends(run) == ends(on_quadratics(steps=1))).all()
    later = on_quadratics("fedprox", options={"mu": mu}, steps=2)
    assert np.abs(ends(later) - ends(on_quadratics(steps=2))).max() > 1e-3


@pytest.mark.method("feddyn", "fedprox")
def test_feddyns_first_round_is_fedprox_on_the_clients():
    dyn, prox = (
        on_classes(name, options=options) for name, options in (("feddyn", {"alpha": 0.3}), ("fedprox", {"mu": 0.3}))
    )
    assert np.abs(ends(dyn) - ends(prox)).max() < 1e-14


@pytest.mark.parametrize("alpha", [0.01, 0.3, 3.0])
@pytest.mark.method("feddyn")
def test_feddyns_first_server_model_is_twice_the_mean_difference_away(alpha):
    """In the first round, FedDyn moves the server model by twice the clients' mean displacement, for every alpha.

    So FedDyn does not tend to FedAvg as alpha tends to 0. FedDyn's server state h is divided by the number of all
    clients, even if only some of them train. So the factor is 1.6 in place of 2 if 60% of the clients train.
    """
    for participation, times in ((1.0, 2.0), (0.6, 1.6)):
        run = on_quadratics("feddyn", options={"alpha": alpha}, participation=participation)
        w = flat(run.start().model)
        mean = ends(run).mean(axis=0) - w
        assert np.abs(models(run, 1)[0] - (w + times * mean)).max() < 1e-12


def dual_means(state: State):
    return flat(state.server["dual"]), rows(state.clients["rule"]["dual"]).mean(axis=0)


@pytest.mark.parametrize("participation", [1.0, 0.4])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.method("feddyn")
def test_feddyns_server_keeps_the_mean_of_all_duals(participation, momentum):
    run = on_classes("feddyn", options={"alpha": 0.3}, participation=participation, optimizer=SGD(momentum), rate=0.05)
    for state in states(run, 6)[1:]:
        server, clients = dual_means(state)
        assert np.abs(server - clients).max() < 1e-14 and np.abs(server).max() > 1e-4


@pytest.mark.method("feddyn")
def test_duals_of_unsampled_clients_are_left_alone():
    run = on_classes("feddyn", options={"alpha": 0.3}, participation=0.4)
    before = states(run, 3)[-1]
    result = run.round(before)
    stay = np.setdiff1d(np.arange(5), result.cohort)
    kept, now = (rows(state.clients["rule"]["dual"]) for state in (before, result.state))
    assert (kept[stay] == now[stay]).all() and np.abs(kept[stay]).max() > 0
    assert (np.abs(kept[result.cohort] - now[result.cohort]).max(axis=1) > 0).all()


def solved(**changes):
    """Returns a run of FedDyn whose clients solve their problems up to rounding."""
    return on_quadratics("feddyn", options={"alpha": 1.0}, rate=0.5, steps=18, **changes)


@pytest.mark.method("feddyn")
def test_after_an_exact_local_solution_the_dual_is_the_gradient():
    run = solved(participation=0.6)
    hessians, linear = quadratics(run.data)
    state = states(run, 3)[-1]
    result = run.round(state, keep_ends=True)
    duals = rows(result.state.clients["rule"]["dual"])
    for client, end in zip(result.cohort, rows(result.ends), strict=True):
        assert np.abs(hessians[client] @ end - linear[client] - duals[client]).max() < 1e-12


@pytest.mark.method("feddyn")
def test_feddyn_reaches_the_optimum_of_the_uniform_mean_where_fedavg_does_not():
    run = solved()
    best = optimum(run.data, EQUAL)
    assert np.abs(models(run, 40)[-1] - best).max() < 1e-9
    biased, _ = fixed_point(on_quadratics(rate=0.5, steps=40))
    assert np.abs(biased - best).max() > 0.05


@pytest.mark.method("feddyn")
def test_feddyn_stays_at_the_optimum_once_there():
    run = solved()
    hessians, linear = quadratics(run.data)
    best = optimum(run.data, EQUAL)
    gradients = torch.tensor(hessians @ best - linear)
    start = run.round(run.start()).state
    at = State(
        1,
        {"model": {"w": torch.tensor(best)}, "dual": {"w": gradients.mean(0)}},
        {"rule": {"dual": {"w": gradients}}},
        start.has_trained,
    )
    assert np.abs(flat(run.round(at).state.model) - best).max() < 1e-12


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("fedprox", {"mu": -0.1}, "fedprox: mu is -0.1; it must be 0 or more"),
        ("fednova", {"mu": -0.1}, "fednova: mu is -0.1; it must be 0 or more"),
        ("feddyn", {"alpha": 0}, "feddyn: alpha is 0; it must be positive"),
    ],
)
def test_options_out_of_range_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        build(name, CrossEntropy(), **options)
