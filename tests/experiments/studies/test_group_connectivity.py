"""Tests of the study of the connectivity of groups.

The exact numbers of one cell (one measurement of the study) are compared with means over sampled inputs. On invented
cells with known exponents, claims of these exponents hold, and claims of other exponents are violated.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions.group_connectivity import ETA, POINTS, STEPS, STUDY, ladder_of, measure
from experiments.studies.running.measuring import as_arrays
from ntkfl.initialisation import draw


def test_a_cell_is_the_definition_on_a_fine_grid_of_the_circle():
    measured = as_arrays(STUDY, measure({"clients": 3, "width": 256, "seed": 1}))
    ladder = ladder_of(3, 256, 1)
    weights = draw(256, 2, ladder.seed)
    start = weights.hidden * np.sqrt(2) / np.linalg.norm(weights.hidden, axis=1, keepdims=True)
    x, signs = ladder.problem.x, weights.signs / 16
    y = np.maximum(x @ start.T, 0) @ signs + ladder.problem.y
    models = []
    for own in ladder.problem.members:
        w = start.copy()
        for _ in range(STEPS):
            z = x[own] @ w.T
            w += ETA * ((z >= 0) * (y[own] - np.maximum(z, 0) @ signs)[:, None] * signs).T @ x[own]
        models.append(w)
    angles = 2 * np.pi * (np.arange(20000) + 0.5) / 20000
    circle, target = np.stack([np.cos(angles), np.sin(angles)], axis=1), ladder.target(angles)
    before = np.maximum(circle @ start.T, 0) @ signs
    outputs = [np.maximum(circle @ w.T, 0) @ signs - before for w in (np.mean(models, axis=0), *models)]
    losses = [((f - target) ** 2).mean() for f in outputs]
    assert measured["barrier"] == pytest.approx(losses[0] - np.mean(losses[1:]), rel=1e-4)
    gap = outputs[0] - np.mean(outputs[1:], axis=0)
    assert measured["gap"] == pytest.approx(np.sqrt((gap**2).mean()), rel=1e-3)
    # The limit belongs to infinite width, so a network of finite width only agrees roughly.
    assert measured["limit"] == pytest.approx(-np.var(outputs[1:], axis=0).mean(), rel=0.3)


def test_the_points_do_not_depend_on_the_number_of_clients():
    few, many = ladder_of(2, 256, 0), ladder_of(POINTS, 256, 0)
    assert np.array_equal(few.angles, many.angles) and np.array_equal(few.amplitudes, many.amplitudes)
    assert np.bincount(few.owner).tolist() == [POINTS // 2] * 2 and (np.diff(many.owner) == 1).all()


def cell(point, powers=(-0.5, -0.75, -1.0)):
    rng, m = np.random.default_rng([point["clients"], point["width"], point["seed"]]), float(point["width"])
    off, gap, excess = (m**power * (0.5 + rng.uniform()) for power in powers)
    return {"barrier": -0.2 + 0.1 * off, "gap": gap, "excess": excess, "limit": -0.2}


def test_planted_exponents_hold_and_wrong_ones_are_violated():
    answers = STUDY.answers(planted(STUDY, cell))
    assert len(answers) == 10 and {answer.outcome for answer in answers} == {Outcome.HOLDS}
    wrong = STUDY.answers(planted(STUDY, lambda point: cell(point, (0.0, -1.5, 0.0))))
    assert [answer.outcome for answer in wrong[:9]] == [Outcome.VIOLATED] * 9
    worse = STUDY.answers(planted(STUDY, lambda point: cell(point) | {"barrier": -0.05}))
    assert worse[-1].outcome is Outcome.VIOLATED


def test_a_barrier_of_any_sign_and_a_cell_that_overflows():
    few = STUDY.answers(planted(STUDY, lambda p: {"barrier": 0.0, "limit": 0.0}, seed=range(2), width=(128, 256)))
    assert few[-1].outcome is Outcome.HOLDS  # Barrier and limit are both 0 (with one client they always are).

    def some(point):
        return cell(point) | {"barrier": 0.3 if point["seed"] else -0.2}

    worse = STUDY.answers(planted(STUDY, some))[-1]
    assert worse.outcome is Outcome.VIOLATED and worse.measured is not None and worse.measured.value == np.inf
    cells = planted(STUDY, lambda p: cell(p) | ({"gap": np.inf} if p["width"] == 512 and p["seed"] == 1 else {}))
    assert [answer.outcome for answer in STUDY.answers(cells)].count(Outcome.UNRESOLVED) == 3


def test_missing_cells_are_left_out():
    cells = planted(STUDY, lambda p: None if p["width"] == 512 or p["seed"] == 5 else cell(p), clients=(2, 3))
    assert {answer.outcome for answer in STUDY.answers(cells)} == {Outcome.HOLDS}
    (chart,) = STUDY.charts(cells)
    assert np.isnan(chart.panels[1].series[0].y[2])
