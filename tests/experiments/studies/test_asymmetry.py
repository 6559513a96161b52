"""Tests of the study of asymmetry.

One cell (one measurement of the study) is compared with a plain loop in the first round. From invented cells with known
powers these powers are recovered, and claims of other powers are violated.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions.asymmetry import DIFFERENCE, STEPS, STUDY, measure, problem
from experiments.studies.running.measuring import as_arrays
from ntkfl.initialisation import draw


def test_a_cell_is_what_a_plain_loop_finds():
    point = {"width": 128, "eta_local": 0.4, "round": 0, "seed": 2}
    measured = as_arrays(STUDY, measure(point))[DIFFERENCE].reshape(STEPS, 6, 6)
    entropy = (2, 128, int(np.float64(0.4).view(np.uint64)), 0)
    weights = draw(128, 4, int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1))
    x, signs = problem().x, weights.signs / np.sqrt(128)
    y = np.maximum(x @ weights.hidden.T, 0) @ signs + problem().y
    active = x @ weights.hidden.T >= 0
    local = np.repeat(weights.hidden[None], 3, axis=0)
    for k in range(STEPS):
        theirs = np.empty_like(active)
        for c, own in enumerate(problem().members):
            z = x[own] @ local[c].T
            theirs[own] = z >= 0
            local[c] += 0.4 * ((z >= 0) * (y[own] - np.maximum(z, 0) @ signs)[:, None] * signs).T @ x[own]
        gram = x @ x.T * (active.astype(float) @ theirs.T) / 128
        assert measured[k] == pytest.approx(gram - gram.T, abs=1e-15)
    assert not measured[0].any() and measured[-1].any()


def cell(point, mean=-0.5, spread=-0.75, first=0.0):
    """Returns an invented cell.

    The cell's mean is proportional to m^mean, and its fluctuations are proportional to m^spread and to the root of
    eta_l k. Mean and fluctuations are 0 at k = 0.
    """
    entropy = (point["width"], int(1e4 * point["eta_local"]), point["round"], point["seed"])
    rng, m = np.random.default_rng(entropy), float(point["width"])
    work = point["eta_local"] * np.arange(STEPS)[:, None]
    differences = 30 * work * m**mean + np.sqrt(work) * rng.standard_normal((STEPS, 36)) * m**spread
    differences[0] += first
    return {DIFFERENCE: differences}


def test_planted_powers_hold():
    answers = STUDY.answers(planted(STUDY, cell))
    assert [answer.outcome for answer in answers] == [Outcome.HOLDS] * 6


@pytest.mark.parametrize(
    ("wrong", "claim"),
    [({"mean": -1.0}, "mean of"), ({"spread": -0.25}, "fluctuation of H(t,k)"), ({"first": 1e-9}, "H(t,0) =")],
)
def test_what_is_planted_wrong_is_violated(wrong, claim):
    answers = STUDY.answers(planted(STUDY, lambda point: cell(point, **wrong)))
    assert any(answer.outcome is Outcome.VIOLATED and answer.claim.startswith(claim) for answer in answers)


def test_missing_cells_are_left_out():
    cells = planted(STUDY, lambda p: None if p["width"] == 256 or p["seed"] == 5 else cell(p))
    assert {answer.outcome for answer in STUDY.answers(cells)} == {Outcome.HOLDS}
    (chart,) = STUDY.charts(cells)
    assert np.isnan(chart.panels[1].series[0].y[1])  # the point at width 256


def test_without_the_first_round_nothing_is_said_of_it():
    for rounds, outcome in (((4,), Outcome.UNTESTED), ((4, 0), Outcome.HOLDS)):
        answers = STUDY.answers(planted(STUDY, cell, round=rounds))
        assert "H(0,1)" in answers[-1].claim and answers[-1].outcome is outcome
