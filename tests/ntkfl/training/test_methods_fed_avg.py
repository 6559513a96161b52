"""Tests of FedAvg, FL-NTK's Algorithm 1 and Local in cases where a simpler computation has the same result."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import (
    SIZES,
    classes,
    fixed_point,
    flat,
    models,
    on_classes,
    on_quadratics,
    optimum,
    quadratics,
    regression,
    rows,
    states,
)

from ntkfl import gram
from ntkfl.initialisation import draw
from ntkfl.training.engine.local_plan import LocalWork, local_plan
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import build
from ntkfl.training.models.two_layer import ntk_network
from ntkfl.training.optimizers import SGD
from ntkfl.training.schedules import Exponential

pytestmark = pytest.mark.method("fedavg")

WEIGHTS = np.array(SIZES) / sum(SIZES)


def merged(data):
    """Returns the same samples, all owned by one client."""
    return replace(data, owner=np.zeros_like(data.owner), clients=1)


def test_one_full_step_is_a_step_on_the_pooled_mean_loss():
    full = {"work": LocalWork(batch_size=None), "optimizer": SGD()}
    run = on_classes(options={"server_rate": 0.7}, **full)
    pooled = on_classes(rate=0.7 * 0.2, **full, data=merged(run.data))
    assert np.abs(models(run, 3) - models(pooled, 3)).max() < 1e-12


def test_one_step_follows_the_gradient_of_the_mean_of_quadratics():
    run = on_quadratics(steps=1, options={"server_rate": 0.7})
    hessians, linear = quadratics(run.data)
    w = flat(run.start().model)
    gradient = WEIGHTS @ (hessians @ w - linear)
    assert np.abs(models(run, 1)[0] - (w - 0.7 * 0.1 * gradient)).max() < 1e-12


def test_one_client_alone_is_centralized_sgd():
    run = on_classes(data=merged(classes()), decay=1.0, optimizer=SGD(0.9, 1e-2), keep_optimizer=True)
    own = {name: value.requires_grad_() for name, value in run.start().model.items()}
    steps = torch.optim.SGD(own.values(), lr=0.2, momentum=0.9, weight_decay=1e-2)
    for number in range(3):
        plan = local_plan(run.data.members(), [0], run.work, run.seed, number, 0)
        for batch, real in zip(plan.index[0], plan.real[0], strict=True):
            steps.zero_grad()
            outputs = run.model.outputs(own, run.data.x[batch[real]])
            torch.nn.functional.cross_entropy(outputs, run.data.y[batch[real]]).backward()
            steps.step()
    end = np.concatenate([value.detach().numpy().ravel() for value in own.values()])
    assert np.abs(models(run, 3)[-1] - end).max() < 1e-12


@pytest.mark.parametrize("method", ["fedavg", "fl-ntk", "scaffold", "fednova", "fedprox", "fedgma"])
def test_identical_clients_are_any_one_of_them(method):
    one = classes((6,))
    thrice = FederatedData(one.x.repeat(3, 1), one.y.repeat(3), np.repeat(np.arange(3), 6), 3, classes=3)
    run = on_classes(method, data=one, work=LocalWork(batch_size=None, steps=3))
    assert np.abs(models(replace(run, data=thrice), 3) - models(run, 3)).max() < 1e-12


@pytest.mark.parametrize(
    "method", ["fedavg", "fl-ntk", "fedprox", "feddyn", "scaffold", "fednova", "fedadam", "fedgma"]
)
def test_a_local_rate_of_zero_moves_nothing(method):
    run = on_classes(method, rate=0.0)
    start = flat(run.start().model)
    assert (models(run, 2) == start).all()


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_the_fixed_point_on_quadratics_is_biased_towards_what_local_steps_reach(steps):
    """On quadratics the fixed point is not the optimum unless clients take one step, and it has a closed form.

    A client's K steps are the map w -> w_i + (I - rate H_i)^K (w - w_i), with the client's own optimum w_i. The fixed
    point of a round is the fixed point of the mean of these maps.
    """
    run = on_quadratics(steps=steps)
    hessians, linear = quadratics(run.data)
    kept = np.array([np.linalg.matrix_power(np.eye(3) - 0.1 * hessian, steps) for hessian in hessians])
    own = np.linalg.solve(hessians, linear[..., None])
    walked = np.eye(3) - kept
    closed = np.linalg.solve(np.einsum("i,ijk", WEIGHTS, walked), np.einsum("i,ijk", WEIGHTS, walked @ own))[:, 0]
    limit, radius = fixed_point(run)
    assert radius < 1
    assert np.abs(limit - closed).max() < 1e-10
    best = optimum(run.data, WEIGHTS)
    assert np.abs(limit - best).max() < 1e-10 if steps == 1 else np.abs(limit - best).max() > 1e-3


def test_rounds_reach_that_fixed_point():
    run = on_quadratics(steps=5, rate=0.3)
    assert np.abs(models(run, 20)[-1] - fixed_point(run)[0]).max() < 1e-10


def summed(**changes):
    return on_quadratics("fl-ntk", objective=None, **{"rate": 0.01} | changes)


@pytest.mark.method("fl-ntk")
def test_fl_ntk_with_one_local_step_is_gradient_descent_on_the_sum_over_n():
    run = summed(steps=1, options={"server_rate": 1.7})
    pooled = replace(run, data=merged(run.data), method=build("fl-ntk"), schedule=Exponential(1.7 * 0.01 / len(SIZES)))
    assert np.abs(models(run, 4) - models(pooled, 4)).max() < 1e-12
    x, y, w = run.data.x.numpy(), run.data.y.numpy(), flat(run.start().model)
    assert np.abs(models(run, 1)[0] - (w - 1.7 * 0.01 / len(SIZES) * x.T @ (x @ w - y))).max() < 1e-12


@pytest.mark.method("fl-ntk")
def test_fl_ntk_with_one_client_is_that_many_steps_of_gradient_descent():
    run = summed(steps=6, data=merged(regression()))
    assert (
        np.abs(models(run, 1)[0] - models(replace(run, work=LocalWork(batch_size=None, steps=1)), 6)[-1]).max() < 1e-12
    )


def split(data, clients):
    return replace(data, owner=np.arange(len(data.x)) % clients, clients=clients)


@pytest.mark.method("fl-ntk")
def test_a_server_rate_of_n_undoes_fl_ntks_mean():
    """With one local step, the server rate N cancels the factor 1/N of the mean over N clients."""
    runs = [summed(steps=1, data=split(regression(), n), options={"server_rate": float(n)}) for n in (1, 2, 5, 7)]
    paths = [models(run, 5) for run in runs]
    assert max(np.abs(path - paths[0]).max() for path in paths) < 1e-12


@pytest.mark.parametrize("rate", [1e-3, 1e-4])
@pytest.mark.method("fl-ntk")
def test_twice_the_clients_halve_fl_ntks_move_for_small_rates(rate):
    data = regression()
    start, size = flat(summed().start().model), []
    for clients in (3, 6):
        run = summed(steps=3, rate=rate, data=split(data, clients))
        size.append(np.linalg.norm(models(run, 1)[0] - start))
    assert abs(size[0] / size[1] - 2) < 60 * rate


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.method("fl-ntk")
def test_fl_ntk_contracts_at_the_rate_of_its_theorem(steps):
    """FL-NTK contracts at the rate of its theorem, for unit inputs and a width that suffices.

    The theorem's rate is |y(t+1) - y|^2 <= (1 - eta_g eta_l lambda K / (2N)) |y(t) - y|^2.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y, owner, rate = rng.choice([-1.0, 1.0], 9), np.repeat(np.arange(3), (2, 3, 4)), 0.05
    weights = draw(4096, 5, 0)
    run = replace(
        summed(steps=steps, rate=rate),
        model=ntk_network(weights),
        data=FederatedData(torch.tensor(x), torch.tensor(y), owner, 3),
    )
    smallest = np.linalg.eigvalsh(gram.finite(x, weights.hidden))[0]
    residuals = [
        np.linalg.norm(run.model.outputs(state.model, run.data.x).numpy() - y) ** 2 for state in states(run, 30)
    ]
    ratios = np.array(residuals[1:]) / residuals[:-1]
    assert smallest > 0.01 and (ratios <= 1 - rate * smallest * steps / (2 * 3)).all()
    assert residuals[-1] < 0.95 * residuals[0]


@pytest.mark.method("local")
def test_local_with_one_client_is_fedavg():
    alone = on_classes("local", data=merged(classes()))
    together = on_classes("fedavg", data=merged(classes()))
    own = rows(alone.own_models(states(alone, 3)[-1], [0]))[0]
    assert np.abs(own - models(together, 3)[-1]).max() < 1e-12


@pytest.mark.method("local")
def test_local_clients_end_where_each_would_be_without_the_others():
    run = on_classes("local")
    own = rows(run.own_models(states(run, 3)[-1], list(range(5))))
    for client in range(5):
        mine = torch.tensor(run.data.owner == client)
        only = replace(run.data, x=run.data.x[mine], y=run.data.y[mine], owner=run.data.owner[mine.numpy()])
        assert np.abs(own[client] - models(on_classes("fedavg", data=only), 3)[-1]).max() < 1e-12
    assert run.method.personal and not on_classes("fedavg").method.personal


@pytest.mark.method("local")
def test_local_clients_that_did_not_take_part_have_the_common_initial_model():
    run = on_classes("local", participation=0.4)
    history = states(run, 2)
    start = flat(history[0].model)
    own = rows(run.own_models(history[-1], list(range(5))))
    moved = np.abs(own - start).max(axis=1) > 0
    assert (moved == history[-1].has_trained.numpy()).all() and 0 < moved.sum() < 5
    assert (flat(history[-1].model) == start).all()
    assert (rows(run.own_models(history[0], [3, 1])) == start).all()


def test_own_models_of_other_methods_are_the_broadcast_one():
    run = on_classes("scaffold")
    state = states(run, 1)[-1]
    assert (rows(run.own_models(state, [0, 4])) == flat(state.model)).all()
