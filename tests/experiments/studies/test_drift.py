"""Tests of the study of client drift.

A client's move is compared with finite differences of the paper's objective. A cell is one measurement of the study,
and is compared with a formula for its limit. On cells that are invented to agree with the study's claims, the claims
hold. On cells that are invented to contradict a claim, the claim is violated.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions.drift import ETA, STUDY, client_move, measure, off_limit, problem
from experiments.studies.running.measuring import as_arrays
from experiments.studies.series import root_mean_square
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup


def test_a_client_descends_its_loss_plus_beta_times_the_connectivity_loss():
    """A client descends its loss plus beta times the connectivity loss.

    The move of two steps agrees with the numerical gradient of the objective.
    """
    own, weights = problem().members[0], draw(4, 8, 0)
    client = Problem(problem().x[own], problem().y[own])
    signs = weights.signs / 2
    labels = np.maximum(client.x @ weights.hidden.T, 0) @ signs + client.y

    def loss(w):
        return 0.5 * ((np.maximum(client.x @ w.T, 0) @ signs - labels) ** 2).sum()

    def objective(w):
        steps = (np.arange(40) + 0.5) / 40
        return loss(w) + 2.0 * np.mean([loss(alpha * w + (1 - alpha) * weights.hidden) for alpha in steps])

    w = weights.hidden.copy()
    for _ in range(2):
        slope = np.zeros_like(w)
        for place in np.ndindex(w.shape):
            unit = np.zeros_like(w)
            unit[place] = 1e-5
            slope[place] = (objective(w + unit) - objective(w - unit)) / 2e-5
        w = w - 0.1 * slope
    setup = Setup(width=4, eta_local=0.1, local_steps=2)
    assert client_move(client, setup, weights, 2.0) == pytest.approx(np.linalg.norm(w - weights.hidden), rel=2e-3)


def test_a_cell_is_the_ratio_of_plain_modes_in_the_limit():
    measured = as_arrays(STUDY, measure({"beta": 3.0, "local_steps": 4, "width": 256, "seed": 0}))
    from ntkfl import gram

    for c, own in enumerate(problem().members):
        q, basis = np.linalg.eigh(gram.infinite(problem().x[own]))
        modes = basis.T @ problem().y[own]
        moves = [
            np.sqrt((((1 - (1 - ETA * stretch * q) ** 4) * modes) ** 2 / q).sum()) * factor
            for stretch, factor in ((2.0, 1.25), (1.0, 1.0))
        ]
        assert measured["limit"][c] == pytest.approx(moves[0] / moves[1], rel=1e-9)
    assert measured["network"] == pytest.approx(measured["limit"], rel=0.2)


def cell(point, excess=0.0, power=-0.5, one=0.0):
    beta, rng = (
        point["beta"],
        np.random.default_rng([int(10 * point["beta"]), point["local_steps"], point["width"], point["seed"]]),
    )
    if point["local_steps"] == 1:
        return {"limit": np.full(3, 1 + beta / 2), "network": np.full(3, 1 + beta / 2 + one)}
    limit = np.full(3, 1 + beta / 4 + excess * beta)
    return {"limit": limit, "network": limit * (1 + point["width"] ** power * rng.standard_normal(3))}


def test_planted_ratios_hold_and_wrong_ones_are_violated():
    fine = {Outcome.HOLDS, Outcome.TOUCHES}
    assert {answer.outcome for answer in STUDY.answers(planted(STUDY, cell))} <= fine
    for place, seeds, wrong in (
        (0, 3, {"excess": 0.3}),
        (1, 3, {"excess": -0.3}),
        (2, 3, {"one": 1e-6}),
        (3, 20, {"power": -1.0}),
    ):
        answers = STUDY.answers(planted(STUDY, lambda point, wrong=wrong: cell(point, **wrong), seed=range(seeds)))
        assert answers[place].outcome is Outcome.VIOLATED


def test_what_shares_a_network_is_one_sample():
    """Cells that share a network, and differ only in client, beta or K, count as one sample.

    The bars of the chart are computed from one distance for each network.
    """
    rng = np.random.default_rng(5)
    shared = {(width, seed): rng.standard_normal() for width in STUDY.axes[2].values for seed in range(20)}

    def some(point):
        limit = np.full(3, 1 + point["beta"] / 4)
        return {"limit": limit, "network": limit * (1 + 0.1 * shared[point["width"], point["seed"]])}

    cells = planted(STUDY, some)
    distances = 0.1 * np.abs([[shared[width, seed] for seed in range(20)] for width in STUDY.axes[2].values])
    assert off_limit(cells).to_numpy() == pytest.approx(distances)
    (chart,) = STUDY.charts(cells)
    bars = chart.panels[1].series[0]
    value, low, high = root_mean_square(list(distances))
    assert bars.y == pytest.approx(value)
    assert bars.lower == pytest.approx(low) and bars.upper == pytest.approx(high)


def test_missing_cells_and_other_axes():
    cells = planted(STUDY, lambda p: None if p["width"] == 512 or p["seed"] == 3 else cell(p), local_steps=(4, 8))
    answers = STUDY.answers(cells)
    assert len(answers) == 3 and {answer.outcome for answer in answers} == {Outcome.HOLDS}
    (chart,) = STUDY.charts(cells)
    assert np.isnan(chart.panels[1].series[0].y[2])
