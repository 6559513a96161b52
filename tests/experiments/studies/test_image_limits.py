"""Tests of the study of networks' limits on images.

One cell (one measurement of the study) is compared with plain loops over the network's weights and over the limit's
coefficients. From invented cells with known answers these answers are recovered.
"""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from planted import planted

from bounds import Outcome
from experiments.studies.questions import image_limits
from experiments.studies.questions.image_limits import METHODS, ROUNDS, SETUP, STUDY, compared, measure
from experiments.studies.random_seed import own_seed
from ntkfl import data, gram
from ntkfl.training.methods import build
from ntkfl.training.model import Model
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.wide_training import network_federation

WIDTH, SEED = 32, 2
POINT = {"method": "fedavg", "images": 40, "step": 1.0, "width": WIDTH, "seed": SEED}


@pytest.fixture
def small(monkeypatch):
    """Puts forty images of digits in place of Fashion-MNIST, and returns their problem."""
    problem = data.digits(40, target="one-hot", clients=4, partition="dirichlet:0.3", test=30)
    monkeypatch.setattr(image_limits, "problem", lambda images: problem)
    image_limits.limit.cache_clear()
    yield problem
    image_limits.limit.cache_clear()


def measured_in(rounds, step=1.0, dtype="float64"):
    after = list(compared(POINT | {"step": step}, rounds, dtype=dtype))
    return {name: [of[name] for of in after] for name in image_limits.QUANTITIES}


@pytest.mark.parametrize("step", [1.0, 0.01])
def test_a_cell_is_what_a_plain_loop_finds(small, step):
    """A cell agrees with a loop that takes FedAvg's steps on hidden weights, on the linearisation, and on the limit.

    The steps on the limit change its coefficients.
    """
    rounds = (1, 2, 4)
    measured = measured_in(rounds, step)
    rng = np.random.default_rng(own_seed(SEED, WIDTH, STUDY.name))
    hidden, v = rng.standard_normal((WIDTH, small.d)), rng.choice([-1.0, 1.0], (WIDTH, 10)) / np.sqrt(WIDTH)
    x, y, h = small.x, small.y, gram.infinite(small.x)
    eta = step / max(np.linalg.eigvalsh(h[np.ix_(own, own)])[-1] for own in small.members)
    size, classes = np.linalg.norm(y), small.y_test.argmax(axis=1)

    def outputs(weights, rows):
        return np.maximum(rows @ weights.T, 0) @ v

    def linear(weights, rows):
        return ((rows @ hidden.T >= 0) * (rows @ weights.T)) @ v

    def round_of(w, f, active):
        move = np.zeros_like(w)
        for own in small.members:
            local = w.copy()
            for _ in range(SETUP.local_steps):
                left = y[own] - (f(local, x[own]) - f(hidden, x[own]))
                local = local + eta * (active(local, x[own]) * (left @ v.T)).T @ x[own]
            move += len(own) / len(x) * (local - w)
        return w + move

    def turned(c):
        turn = np.zeros_like(c)
        for own in small.members:
            mine = np.zeros((len(own), 10))
            for _ in range(SETUP.local_steps):
                mine += eta * (y[own] - h[own] @ c - h[np.ix_(own, own)] @ mine)
            turn[own] = len(own) / len(x) * mine
        return c + turn

    w, u, c, place = hidden.copy(), hidden.copy(), np.zeros(y.shape), 0
    for t in range(1, max(rounds) + 1):
        w = round_of(w, outputs, lambda weights, rows: rows @ weights.T >= 0)
        u = round_of(u, linear, lambda weights, rows: rows @ hidden.T >= 0)
        c = turned(c)
        if t not in rounds:
            continue
        own, straight, exact = outputs(w, x) - outputs(hidden, x), linear(u, x) - linear(hidden, x), h @ c
        right = {
            "accuracy": outputs(w, small.x_test) - outputs(hidden, small.x_test),
            "accuracy_linear": linear(u, small.x_test) - linear(hidden, small.x_test),
            "accuracy_limit": gram.infinite(small.x_test, x) @ c,
        }
        expected = {name: (tested.argmax(axis=1) == classes).mean() for name, tested in right.items()}
        far = {"outputs": own - exact, "linear": straight - exact, "bent": own - straight, "moved": exact}
        far |= {"residual": y - own, "residual_limit": y - exact}
        expected |= {name: np.linalg.norm(difference) / size for name, difference in far.items()}
        assert expected.keys() == measured.keys()
        for name, value in expected.items():
            assert measured[name][place] == pytest.approx(value, rel=1e-8), (name, t)
        place += 1


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_training_is_the_engine_s(small, method, linear):
    rounds, eta = (0, 1, 2, 4), 0.05
    hidden, readout = map(torch.tensor, image_limits.drawn_network(WIDTH, SEED, small))

    def features(params, x):
        before = x @ hidden.T
        z = before + x @ params["moved"].T
        return torch.where((before if linear else z) >= 0, z, 0)

    zero = {"moved": torch.zeros_like(hidden)}
    model = Model("plain", lambda seed: zero, features, lambda params, z: z @ readout)
    x, x_test = torch.tensor(small.x), torch.tensor(small.x_test)
    start, tested = (model.outputs(zero, rows).numpy() for rows in (x, x_test))
    given = replace(small, y=small.y + start)
    rule = build(method, HalfSquares("sum"), **METHODS[method])
    run = network_federation(given, replace(SETUP, eta_local=eta), model, method=rule)
    states = list(islice(run.states(), max(rounds) + 1))
    point = POINT | {"method": method}
    for t, (own, predicted) in zip(rounds, image_limits.trained(point, eta, rounds, linear), strict=True):
        params = states[t].model
        assert own == pytest.approx(model.outputs(params, x).numpy() - start, abs=1e-11)
        assert predicted == pytest.approx(model.outputs(params, x_test).numpy() - tested, abs=1e-11)
    assert np.abs(own).max() > 0.1


def test_little_steps_leave_the_first_kernel_s_distance_alone(small):
    """With smaller steps a network's distance from its linearisation vanishes relative to the limit's movement.

    What remains of the distance from the limit is due to the network's first kernel.
    """
    whole, little = (measured_in((1,), step) for step in (1.0, 0.001))
    bent, linear = ([of[name][0] / of["moved"][0] for of in (whole, little)] for name in ("bent", "linear"))
    assert bent[1] < bent[0] / 1000 and linear[1] > 0.5


@pytest.mark.parametrize("method", METHODS)
def test_single_precision_changes_a_row_by_its_rounding_alone(small, method, monkeypatch):
    monkeypatch.setitem(POINT, "method", method)
    double, single = (measured_in((1, 4), 0.05, dtype) for dtype in ("float64", "float32"))
    for name, values in double.items():
        assert single[name] == pytest.approx(values, abs=2e-6), name
    assert single["outputs"] != double["outputs"]


def test_the_study_measures_all_its_rounds(small):
    measured = measure(POINT)
    assert {len(values) for values in measured.values()} == {len(ROUNDS)}
    assert measured.keys() == {quantity.name for quantity in STUDY.quantities}


def cell(point, power=-0.5, swapped=()):
    """Returns an invented cell.

    The distance of its outputs from the limit is a power of the width. The cell's accuracies are .6, .7, .8 by method,
    in reversed order for the networks in `swapped`.
    """
    rng = np.random.default_rng([1, point["width"], point["seed"], *point["method"].encode()])
    exact = 0.6 + 0.1 * tuple(METHODS).index(point["method"])
    trained = 1.4 - exact if (point["width"], point["seed"]) in swapped else exact
    outputs = 0.6 * point["width"] ** power * rng.lognormal(sigma=0.05)
    values = {name: 0.1 for name in image_limits.QUANTITIES}
    values |= {"outputs": outputs, "accuracy": trained, "accuracy_limit": exact}
    return {name: [value] * len(ROUNDS) for name, value in values.items()}


def test_planted_powers_and_orders_are_told():
    *powers, order = STUDY.answers(planted(STUDY, cell))
    assert {answer.outcome for answer in (*powers, order)} == {Outcome.HOLDS} and order.measured.value == 1
    *powers, order = STUDY.answers(planted(STUDY, lambda point: cell(point, 0.0, {(256, 0)})))
    assert {answer.outcome for answer in powers} == {Outcome.VIOLATED}
    assert order.outcome is Outcome.UNRESOLVED and order.measured.value == pytest.approx(1 - 3 / 60)
    more = planted(STUDY, lambda point: cell(point, 0.0, {(256, 0)}), seed=tuple(range(40)))
    assert order.settled_by == () and STUDY.answers(more)[-1].outcome is Outcome.UNRESOLVED


def test_the_chart_has_distances_over_width_and_rounds():
    (chart,) = STUDY.charts(planted(STUDY, cell))
    titles = [panel.title for panel in chart.panels]
    assert titles == ["outputs", *METHODS, "test accuracy"]
    over_rounds = chart.panels[1].series
    assert [len(series.x) for series in over_rounds] == [len(ROUNDS)] * 3
    assert over_rounds[0].y == pytest.approx([0.6 / 64] * len(ROUNDS), rel=0.1)
    accuracies = {series.name: series.y[-1] for series in chart.panels[-1].series}
    assert {round(accuracies[f"scaffold, {of}"], 9) for of in ("network", "limit")} == {0.8}
