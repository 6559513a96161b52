"""Tests of FedNova: unequal numbers of local steps do not move the optimum."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_federations import classes, fixed_point, flat, models, on_classes, on_quadratics, optimum

from ntkfl.training.engine.local_plan import LocalWork
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.optimizers import SGD, Adam

pytestmark = pytest.mark.method("fednova")

EITHER = pytest.mark.parametrize("optimizer", [SGD(), SGD(0.9, 1e-2)], ids=["plain", "momentum"])


@EITHER
def test_equal_numbers_of_steps_are_fedavg(optimizer):
    """If all clients take equally many steps, FedNova is FedAvg, although clients differ in size and so in weight."""
    given = {"optimizer": optimizer, "work": LocalWork(batch_size=2, steps=4), "participation": 0.6}
    assert np.abs(models(on_classes("fednova", **given), 3) - models(on_classes(**given), 3)).max() < 1e-12


@EITHER
@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.method("fedprox")
def test_equal_numbers_of_steps_with_a_proximal_term_are_fedprox(optimizer, mu):
    given = {"optimizer": optimizer, "work": LocalWork(batch_size=None, steps=4), "options": {"mu": mu}}
    assert np.abs(models(on_classes("fednova", **given), 3) - models(on_classes("fedprox", **given), 3)).max() < 1e-12


@EITHER
def test_one_client_is_fedavg(optimizer):
    given = {"optimizer": optimizer, "data": classes((7,))}
    assert np.abs(models(on_classes("fednova", **given), 3) - models(on_classes(**given), 3)).max() < 1e-12


def test_unequal_steps_are_not_fedavg():
    assert np.abs(models(on_classes("fednova"), 1) - models(on_classes(), 1)).max() > 1e-3


def repeated(sizes=(1, 2, 4, 9, 3)):
    """Returns data in which each client has one sample several times.

    With batches of one sample, a client takes as many steps as it has copies of its sample. Each step uses the exact
    gradient of the client's loss.
    """
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((len(sizes), 2)), 2 * rng.standard_normal(len(sizes))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return FederatedData(torch.tensor(x[owner]), torch.tensor(y[owner]), owner, len(sizes))


def error(method, rate, momentum, mu=0.0):
    """Returns the distance of the rounds' fixed point from the minimiser of the mean loss over all samples."""
    options = {"mu": mu} if mu else {}
    data = repeated()
    run = on_quadratics(
        method, rate=rate, data=data, work=LocalWork(batch_size=1), optimizer=SGD(momentum), options=options
    )
    limit, radius = fixed_point(replace(run, model=replace(run.model, initial=lambda seed: {"w": torch.zeros(2)})))
    assert radius < 1
    return np.linalg.norm(limit - optimum(data, np.bincount(data.owner) / len(data.owner)))


@pytest.mark.parametrize("momentum, mu", [(0.0, 0.0), (0.5, 0.0), (0.9, 0.0), (0.0, 2.0), (0.9, 2.0)])
def test_unequal_steps_reach_the_optimum_as_the_rate_falls(momentum, mu):
    """As the rate falls, FedNova's error falls in proportion to the rate, while FedAvg's error stays."""
    first, second = (error("fednova", rate, momentum, mu) for rate in (2e-4, 1e-4))
    assert second < 0.02 and 1.9 < first / second < 2.1
    assert error("fedavg", 1e-4, momentum) > 0.1


@pytest.mark.parametrize("momentum, pull", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.3)])
def test_constant_gradients_are_averaged_by_size_whatever_the_steps(momentum, pull):
    """Constant gradients are averaged by size, whatever the numbers of steps are.

    The rate is so small that a round hardly changes the gradients. mu is so large that rate * mu is `pull`.
    """
    rate, data = 1e-9, repeated()
    sizes = np.bincount(data.owner)
    options = {"mu": pull / rate} if pull else {}
    run = on_quadratics(
        "fednova", rate=rate, data=data, work=LocalWork(batch_size=1), optimizer=SGD(momentum), options=options
    )
    start = {"w": torch.zeros(2, dtype=torch.float64)}
    steps = sizes * 1.0
    if momentum:
        steps = np.array([sum(sum(momentum**k for k in range(done + 1)) for done in range(n)) for n in sizes])
    if pull:
        steps = np.array([sum((1 - pull) ** done for done in range(n)) for n in sizes])
    gradient = -(data.x.T @ data.y).numpy() / len(data.y)  # the mean gradient over all samples, at w = 0
    moved = flat(run.round(run.start(start)).state.model)
    assert np.abs(moved / rate + (sizes @ steps / sizes.sum()) * gradient).max() < 1e-6


@pytest.mark.parametrize("momentum, pull", [(0.0, 0.0), (0.9, 0.0), (0.0, 0.3), (0.5, 0.3), (0.9, 0.02)])
def test_the_coefficient_is_the_displacement_of_a_unit_gradient(momentum, pull):
    """The coefficient is the displacement under a gradient of size 1.

    The optimizer's own steps give the expected displacement. With a pull and no momentum, a closed form gives the same.
    """
    optimizer, rate, steps = SGD(momentum), 0.1, torch.arange(8, dtype=torch.float64)
    expected = [0.0]
    w = {"w": torch.zeros(1, 1, dtype=torch.float64)}
    state = optimizer.initial(w)
    for _ in range(7):
        gradient = {"w": 1 + pull / rate * w["w"]}
        optimizer.step(w, gradient, state, rate, None)
        expected.append(-w["w"].item() / rate)
    coefficients = optimizer.coefficient(steps, pull).numpy()
    assert np.abs(coefficients - expected).max() < 1e-12
    if not momentum and pull:
        assert np.abs(coefficients - (1 - (1 - pull) ** steps.numpy()) / pull).max() < 1e-12


def test_adams_coefficient_is_the_number_of_steps():
    assert Adam().coefficient(torch.tensor([3.0, 5.0])).tolist() == [3, 5]
