"""Tests of IMA, the moving average of the server's models: cases in which IMA changes nothing, and the lag of the mean.

Servers and clients that start from the averaged model are tested too.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import flat, models, on_classes, on_quadratics, rows, states

from ntkfl.training.engine.federation import State
from ntkfl.training.engine.ima import averaged
from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.method import ServerRule
from ntkfl.training.methods import build
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD
from ntkfl.training.tree import tree_map

pytestmark = pytest.mark.method("ima")

ORDERS = "after_server_step", "before_server_step"
BASES = {
    "fedavg": {},
    "fedadam": {"server_rate": 0.1},
    "feddyn": {"alpha": 0.4},
    "scaffold": {},
    "moon": {},
    "fedfa": {},
    "fedgucci": {"anchors": 2},
}
WORK = LocalWork(batch_size=4)


def base(method="fedavg", **changes):
    return on_classes(
        method, options=BASES.get(method, {}), **{"work": WORK, "participation": 0.4, "at_once": 1} | changes
    )


def ima(run, *arguments, **keywords):
    return replace(run, method=averaged(run.method, *arguments, **keywords))


@pytest.mark.parametrize("method", BASES)
def test_a_window_of_one_or_a_start_after_the_end_is_the_method_itself(method):
    run = base(method)
    plain = models(run, 3)
    for order in ORDERS:
        for window, start in ((1, 1), (3, 4)):
            assert np.abs(models(ima(run, window, start, order), 3) - plain).max() < 1e-14


@pytest.mark.parametrize("order", ORDERS)
def test_a_model_that_stands_still_stays(order):
    run = ima(base(rate=0.0), 3, 1, order)
    start = flat(run.start().model)
    assert np.abs(models(run, 3) - start).max() < 1e-15


class Drifting(ServerRule):
    """A server whose model after t rounds is its first model plus t / 4, whatever is broadcast and sent back."""

    def initial(self, params):
        return {"model": params, "place": params}

    def broadcast(self, state, number):
        return {"model": state["model"]}

    def step(self, state, means, now):
        place = tree_map(lambda w: w + 0.25, state["place"])
        return {"model": place, "place": place}


@pytest.mark.parametrize("window, start", [(1, 3), (3, 3), (4, 5)])
def test_a_linear_path_lags_by_half_the_window(window, start):
    run = base()
    run = ima(replace(run, method=replace(run.method, server=Drifting())), window, start)
    path, f0 = models(run, 7), flat(run.start().model)
    for t, w in enumerate(path, 1):
        lag = (window - 1) / 2 if t >= start else 0
        assert np.abs(w - (f0 + 0.25 * (t - lag))).max() < 1e-14


@pytest.mark.parametrize("method", BASES)
def test_each_round_is_the_method_s_own_from_the_averaged_model(method):
    inner = base(method)
    run = ima(inner, 2, 2)
    state, past = run.start(), []
    for t in range(4):
        by_hand = State(t, state.server["rule"] | {"model": state.model}, state.clients, state.has_trained)
        past = [flat(inner.round(by_hand).state.model), *past][:2]
        state = run.round(state).state
        expected = np.mean(past, axis=0) if t + 1 >= 2 else past[0]
        assert np.abs(flat(state.model) - expected).max() < 1e-14
        assert np.abs(rows(state.server["window"]) - np.array(past)).max() < 1e-14


@pytest.mark.method("feddyn")
def test_fed_dyn_s_server_works_from_the_model_that_was_broadcast():
    run = ima(base("feddyn", optimizer=SGD()), 3, 1)
    state = run.start()
    for _ in range(4):
        result = run.round(state, keep_ends=True)
        state = result.state
        duals, h = rows(state.clients["rule"]["dual"]), flat(state.server["rule"]["dual"])
        # The mean is over all clients; a client that has not been drawn yet contributes 0.
        assert np.abs(duals.mean(axis=0) - h).max() < 1e-14
        newest = rows(state.server["window"])[0]
        assert np.abs(newest - (rows(result.ends).mean(axis=0) - h / 0.4)).max() < 1e-13


def test_anchors_are_the_averaged_models_that_clients_received():
    run = ima(base("fedgucci"), 3, 1)
    history = states(run, 4)
    for t in (2, 3, 4):
        anchors = run.method.server.broadcast(history[t].server, t)["anchors"]
        assert np.array_equal(rows(anchors), [flat(history[t].model), flat(history[t - 1].model)])


def test_both_orders_agree_for_a_server_that_takes_the_clients_mean():
    after, before = (ima(base(), 3, 2, order) for order in ORDERS)
    assert np.abs(models(after, 5) - models(before, 5)).max() < 1e-14


@pytest.mark.parametrize("restart", [False, True])
def test_an_adaptive_server_may_step_towards_the_averaged_clients_means(restart):
    run = ima(base("fedadam"), 3, 2, "before_server_step", restart=restart)
    average = replace(run, method=build("fedavg", CrossEntropy()))
    state, centres = run.start(), []
    w = flat(state.model)
    m = v = np.zeros_like(w)
    for t in range(1, 5):
        plain = average.round(State(t - 1, {"model": state.model}, {}, state.has_trained)).state.model
        centres = [flat(plain), *centres][:3]
        if restart and t == 2:
            m, v = np.zeros_like(w), np.zeros_like(w)
        step = (np.mean(centres, axis=0) if t >= 2 else centres[0]) - w
        m, v = 0.9 * m + 0.1 * step, 0.99 * v + 0.01 * step**2
        w = w + 0.1 * m / (np.sqrt(v) + 1e-3)
        state = run.round(state).state
        assert np.abs(flat(state.model) - w).max() < 1e-12


def test_averaging_lowers_the_jumps_from_round_to_round():
    run = on_quadratics(rate=0.3, participation=0.2, at_once=1)
    plain, mean = models(run, 60)[30:], models(ima(run, 5, 20), 60)[30:]
    assert np.abs(np.diff(mean, axis=0)).mean() < 0.5 * np.abs(np.diff(plain, axis=0)).mean()


def test_grouping_clients_changes_nothing():
    run = ima(base("fedfa"), 2, 1)
    assert np.abs(models(replace(run, at_once=2), 3) - models(run, 3)).max() < 1e-12


def test_the_name_says_it():
    assert ima(base("fedadam"), 3, 2).method.name == "fedadam+ima"


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(ValueError, match="the window of models is 0; it must be a positive integer"):
        averaged(base().method, 0, 3)
    with pytest.raises(
        ValueError, match="the number of rounds before averaging is -1; it must be an integer, 0 or more"
    ):
        averaged(base().method, 5, -1)
    for name in ("fednova", "local"):
        with pytest.raises(ValueError, match=f"clients of {name} do not send their differences"):
            averaged(build(name, CrossEntropy()), 3, 1, "before_server_step")
    # The servers of the next methods keep duals, control variates or anchors, which are no moments.
    for name in ("feddyn", "scaffold", "fedgucci", "fedfa"):
        with pytest.raises(ValueError, match=f"restart is for a server with moments.*; that of {name} has none"):
            averaged(build(name, CrossEntropy()), 3, 1, restart=True)


def test_the_average_is_of_the_same_kind_as_the_model():
    run = base()
    model = replace(run.model, initial=lambda seed: tree_map(torch.Tensor.float, base().model.initial(seed)))
    single = ima(replace(run, model=model, data=run.data.to("cpu", torch.float32)), 2, 1)
    assert all(value.dtype == torch.float32 for value in states(single, 3)[-1].model.values())
