"""Tests of SCAFFOLD: its control variates are means of gradients, and it reaches the optimum without drift."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_federations import (
    SIZES,
    fixed_point,
    flat,
    models,
    on_classes,
    on_quadratics,
    optimum,
    quadratics,
    rows,
    states,
)

from ntkfl.training.engine.local_plan import LocalWork, local_plan
from ntkfl.training.methods import build
from ntkfl.training.objectives import CrossEntropy
from ntkfl.training.optimizers import SGD, Adam

pytestmark = pytest.mark.method("scaffold")

EQUAL = np.full(len(SIZES), 1 / len(SIZES))
both = pytest.mark.parametrize("option", ["I", "II"])


@both
def test_one_step_is_gradient_descent_on_the_uniform_mean(option):
    run = on_quadratics("scaffold", steps=1, options={"option": option, "server_rate": 0.8})
    hessians, linear = quadratics(run.data)
    w = flat(run.start().model)
    for model in models(run, 6):
        w = w - 0.8 * 0.1 * EQUAL @ (hessians @ w - linear)
        assert np.abs(model - w).max() < 1e-12


@both
@pytest.mark.parametrize("momentum, rate", [(0.0, 0.1), (0.5, 0.05)])
def test_many_local_steps_reach_the_optimum_of_the_uniform_mean(option, momentum, rate):
    run = on_quadratics("scaffold", rate=rate, options={"option": option}, optimizer=SGD(momentum))
    best = optimum(run.data, EQUAL)
    assert np.abs(models(run, 60)[-1] - best).max() < 1e-10
    assert np.abs(fixed_point(replace(run, method=on_quadratics("fl-ntk").method))[0] - best).max() > 1e-3


@both
@pytest.mark.parametrize("participation", [1.0, 0.4])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_servers_variate_is_the_mean_of_all_clients(option, participation, momentum):
    run = on_classes(
        "scaffold", options={"option": option}, participation=participation, optimizer=SGD(momentum), rate=0.05
    )
    for state in states(run, 6)[1:]:
        server, clients = flat(state.server["control"]), rows(state.clients["rule"]["control"])
        assert np.abs(server - clients.mean(axis=0)).max() < 1e-14 and np.abs(server).max() > 1e-3


@both
def test_the_first_round_is_fedavg_with_equal_weights(option):
    run = on_classes("scaffold", options={"option": option}, participation=0.6)
    uniform = replace(run, method=replace(on_classes("fedavg").method, weighting="uniform"))
    assert (models(run, 1) == models(uniform, 1)).all()
    assert np.abs(models(run, 2) - models(uniform, 2)).max() > 1e-4


def test_option_I_keeps_full_gradients_at_the_model_received():
    run = on_quadratics("scaffold", options={"option": "I"}, work=LocalWork(epochs=2, batch_size=2), participation=0.6)
    hessians, linear = quadratics(run.data)
    state = states(run, 2)[-1]
    result = run.round(state)
    gradients = hessians @ flat(state.model) - linear
    kept = rows(result.state.clients["rule"]["control"])
    assert np.abs(kept - gradients)[result.cohort].max() < 1e-12


def test_option_II_keeps_the_mean_of_the_gradients_met():
    run = on_quadratics("scaffold", steps=7)
    hessians, linear = quadratics(run.data)
    w, mean = np.tile(flat(run.start().model), (5, 1)), 0.0
    for _ in range(7):
        gradients = np.einsum("ijk,ik->ij", hessians, w) - linear
        w, mean = w - 0.1 * gradients, mean + gradients / 7
    state = states(run, 1)[-1]
    assert np.abs(rows(state.clients["rule"]["control"]) - mean).max() < 1e-12


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_constant_gradient_is_kept_as_it_is_whatever_the_momentum(momentum):
    """A constant gradient is kept as control variate, whatever the momentum is.

    The rate is so small that a round hardly changes the gradient.
    """
    run = on_quadratics("scaffold", rate=1e-9, steps=6, optimizer=SGD(momentum))
    hessians, linear = quadratics(run.data)
    gradients = hessians @ flat(run.start().model) - linear
    kept = rows(states(run, 1)[-1].clients["rule"]["control"])
    assert np.abs(kept - gradients).max() < 1e-6


def test_steps_that_are_padding_do_not_count():
    """Steps that are padding do not count: tau_i is the number of real steps.

    With batches of 2 samples, the five clients take 3, 2, 5, 2 and 4 steps.
    """
    run = on_quadratics("scaffold", work=LocalWork(epochs=1, batch_size=2), participation=1.0, rate=1e-9)
    w = flat(run.start().model)
    result = run.round(run.start())
    assert result.steps.tolist() == [3, 2, 5, 2, 4]
    kept = rows(result.state.clients["rule"]["control"])
    for client, own in enumerate(run.data.members()):
        plan = local_plan(run.data.members(), [client], run.work, run.seed, 0, 0)
        x, y = run.data.x.numpy(), run.data.y.numpy()
        batches = [batch[real] for batch, real in zip(plan.index[0], plan.real[0], strict=True) if real.any()]
        met = [x[rows_].T @ (x[rows_] @ w - y[rows_]) / len(rows_) for rows_ in batches]
        assert len(met) == -(-len(own) // 2)
        assert np.abs(kept[client] - np.mean(met, axis=0)).max() < 1e-6


def test_a_rate_of_zero_leaves_the_variates():
    run = on_quadratics("scaffold", rate=0.0)
    state = states(run, 2)[-1]
    assert not rows(state.clients["rule"]["control"]).any() and not flat(state.server["control"]).any()


def test_control_variates_from_displacements_need_sgd():
    run = on_classes("scaffold")
    with pytest.raises(
        ValueError, match="scaffold computes mean gradients from the clients' displacements, which sgd allows"
    ):
        replace(run, optimizer=Adam())
    replace(run, method=build("scaffold", CrossEntropy(), option="I"), optimizer=Adam())


@pytest.mark.parametrize("at_once", [1, 2, 16])
def test_a_client_without_samples_has_no_full_gradient(at_once):
    run = on_classes("scaffold", options={"option": "I"})
    data = replace(run.data, clients=run.data.clients + 1)
    federation = replace(run, data=data, at_once=at_once)
    controls = federation.round(federation.start()).state.clients["rule"]["control"]
    assert all((rows[-1] == 0).all() and not (rows[0] == 0).all() for rows in controls.values())
