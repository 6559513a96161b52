"""Image limits: a cell against a plain loop over the network's weights; planted distances and orders."""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions import image_limits
from experiments.studies.questions.image_limits import METHODS, SETUP, STUDY, measure
from experiments.studies.random_seed import own_seed
from ntkfl import data, gram

WIDTH, SEED = 32, 2


@pytest.fixture
def small(monkeypatch):
    """Digits in place of Fashion-MNIST, forty of them."""
    problem = data.digits(40, target="one-hot", clients=4, partition="dirichlet:0.3", test=30)
    monkeypatch.setattr(image_limits, "problem", lambda: problem)
    for cached in (image_limits.limit, image_limits.curves):
        cached.cache_clear()
    yield problem
    for cached in (image_limits.limit, image_limits.curves):
        cached.cache_clear()


def test_a_cell_is_what_a_plain_loop_finds(small):
    """FedAvg: the clients' steps on the hidden weights, and the same steps on coefficients for the limit."""
    measured = measure({"method": "fedavg", "width": WIDTH, "seed": SEED})
    rng = np.random.default_rng(own_seed(SEED, WIDTH, "fedavg"))
    hidden, v = rng.standard_normal((WIDTH, small.d)), rng.choice([-1.0, 1.0], (WIDTH, 10)) / np.sqrt(WIDTH)
    x, y, h = small.x, small.y, gram.infinite(small.x)
    eta = 1 / max(np.linalg.eigvalsh(h[np.ix_(own, own)])[-1] for own in small.clients())

    def outputs(weights, rows):
        return np.maximum(rows @ weights.T, 0) @ v

    start, w, c, furthest = outputs(hidden, x), hidden.copy(), np.zeros(y.shape), 0.0
    for t in range(SETUP.rounds + 1):
        furthest = max(furthest, np.linalg.norm(outputs(w, x) - start - h @ c) / np.linalg.norm(y))
        if t == SETUP.rounds:
            break
        move, turn = np.zeros_like(w), np.zeros_like(c)
        for own in small.clients():
            local, mine = w.copy(), np.zeros((len(own), 10))
            for _ in range(SETUP.local_steps):
                left = y[own] - (outputs(local, x[own]) - start[own])
                local = local + eta * ((x[own] @ local.T >= 0) * (left @ v.T)).T @ x[own]
                mine = mine + eta * (y[own] - h[own] @ c - h[np.ix_(own, own)] @ mine)
            move, turn[own] = move + len(own) / len(x) * (local - w), len(own) / len(x) * mine
        w, c = w + move, c + turn
    assert measured["outputs"] == pytest.approx(furthest, rel=1e-9)
    classes = small.y_test.argmax(axis=1)
    predicted = (outputs(w, small.x_test) - outputs(hidden, small.x_test)).argmax(axis=1)
    exact = (gram.infinite(small.x_test, x) @ c).argmax(axis=1)
    assert measured["accuracy"] == pytest.approx((predicted == classes).mean())
    assert measured["ahead"] == pytest.approx((predicted == classes).mean() - (exact == classes).mean())
    left = np.linalg.norm(y - outputs(w, x) + start) - np.linalg.norm(y - h @ c)
    assert measured["residual"] == pytest.approx(left / np.linalg.norm(y), abs=1e-9)


def cell(point, power=-0.5, swapped=()):
    """Outputs with a power of the width; the methods' accuracies .6, .7, .8, in another order in some cells."""
    rng = np.random.default_rng([1, point["width"], point["seed"], *point["method"].encode()])
    exact = 0.6 + 0.1 * tuple(METHODS).index(point["method"])
    trained = 1.4 - exact if (point["width"], point["seed"]) in swapped else exact
    outputs = 0.6 * point["width"] ** power * rng.lognormal(sigma=0.05)
    return {"outputs": outputs, "accuracy": trained, "ahead": trained - exact, "residual": 0.01}


def test_planted_powers_and_orders_are_told():
    *powers, order = STUDY.answers(planted(STUDY, cell))
    assert {answer.outcome for answer in (*powers, order)} == {Outcome.HOLDS} and order.measured.value == 1
    *powers, order = STUDY.answers(planted(STUDY, lambda point: cell(point, 0.0, {(256, 0)})))
    assert {answer.outcome for answer in powers} == {Outcome.VIOLATED}
    assert order.outcome is Outcome.UNRESOLVED and order.measured.value == pytest.approx(1 - 3 / 60)
