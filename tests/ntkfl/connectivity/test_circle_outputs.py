"""Tests of networks whose inputs lie on a circle, and of clients that are trained apart.

The computed outputs, means and client models are compared with direct evaluation, a fine grid, and Algorithm 1.
"""

import numpy as np
import pytest

from ntkfl import simulate
from ntkfl.connectivity.client_training import circle_outputs, trained_clients
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup


def direct(hidden, signs, angles):
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.maximum(x @ hidden.T, 0) @ signs / np.sqrt(len(signs))


@pytest.fixture(scope="module")
def networks():
    first, second = draw(64, 2, 0), draw(64, 2, 1)
    return np.stack([first.hidden, second.hidden, np.ones((64, 2))]), first.signs


def test_outputs_are_those_of_the_networks(networks):
    models, signs = networks
    circle = circle_outputs(models, signs)
    assert circle.shares.sum() == pytest.approx(1, abs=1e-14)
    for number, hidden in enumerate(models):
        assert circle.outputs[number] == pytest.approx(direct(hidden, signs, circle.angles), abs=1e-14)


def test_means_are_integrals_over_the_circle(networks):
    """Means are integrals over the circle.

    For x uniform on the circle, E relu(w.x) = |w| / pi and E relu(u.x) relu(v.x) = |u||v| (sin a + (pi - a) cos a) / (4
    pi), with the angle a between u and v.
    """
    models, signs = networks
    circle = circle_outputs(models, signs)
    lengths = np.linalg.norm(models, axis=2)
    assert circle.mean(circle.outputs) == pytest.approx(lengths @ signs / np.pi / 8, abs=1e-10)
    u, v = models[0], models[1]
    cosine = np.clip(u @ v.T / np.outer(lengths[0], lengths[1]), -1, 1)
    angle = np.arccos(cosine)
    kernel = np.outer(lengths[0], lengths[1]) * (np.sin(angle) + (np.pi - angle) * cosine) / (4 * np.pi)
    assert circle.mean(circle.outputs[0] * circle.outputs[1]) == pytest.approx(signs @ kernel @ signs / 64, abs=1e-10)


def test_their_mean_is_the_first_round_of_algorithm_1():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 3))
    problem = Problem(x / np.linalg.norm(x, axis=1, keepdims=True), rng.normal(size=7), np.array([0, 0, 0, 1, 1, 2, 2]))
    setup, weights = Setup(32, eta_local=0.4, local_steps=5, rounds=1), draw(32, 3, 4)
    models = trained_clients(problem, setup, weights)
    assert models.mean(axis=0) == pytest.approx(simulate(problem, setup, weights, keep=(1,)).weights[1], abs=1e-13)


def test_bad_input():
    weights = draw(8, 2, 0)
    problem = Problem(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match=r"shape \(8, 2\) and the signs \(8,\); the circle needs \(networks, m, 2\)"):
        circle_outputs(weights.hidden, weights.signs)
    with pytest.raises(ValueError, match=r"labels have shape \(3,\); 2 samples and one output need \(2,\)"):
        trained_clients(problem, Setup(8), weights, np.ones(3))
    with pytest.raises(ValueError, match=r"hidden weights have shape \(8, 2\); they must be \(8, 3\)"):
        trained_clients(Problem(np.eye(3), np.ones(3)), Setup(8), weights)
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="eta_local = 1e\\+200 is too large"):
        trained_clients(problem, Setup(8, eta_local=1e200, local_steps=4), weights)
