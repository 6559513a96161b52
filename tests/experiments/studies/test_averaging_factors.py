"""Tests of the study of the factors that make an averaged model's error.

One cell (one measurement of the study) is compared with networks whose training is written out. On invented cells whose
parts add up, all claims hold; each wrong part violates its claim.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions import averaging_factors
from experiments.studies.questions.averaging_factors import FACTORS, GAP, PARTS, ROUNDS, SCALE, STUDY, measure
from ntkfl import data
from ntkfl.initialisation import draw


def test_a_cell_is_what_its_networks_do(monkeypatch):
    monkeypatch.setattr(averaging_factors, "WIDTH", 16)
    monkeypatch.setattr(averaging_factors, "DRAWS", 3)
    measured = measure({"partition": "shards:1", "local_steps": 2, "seed": 0})
    problem = data.digits(n=40, seed=0, clients=4, partition="shards:1")
    errors = np.zeros((2, 2))
    for seed in np.random.SeedSequence(0).generate_state(3):
        weights = draw(16, 64, int(seed))
        u, signs = weights.hidden, weights.signs / 4
        for number in range(2):
            models = []
            for own in problem.members:
                w = u.copy()
                for _ in range(2):
                    z = problem.x[own] @ w.T
                    w += (
                        0.1
                        * ((z >= 0) * (problem.y[own] - np.maximum(z, 0) @ signs)[:, None] * signs).T
                        @ problem.x[own]
                    )
                models.append(w)
            u = np.mean(models, axis=0)
            ensemble = np.mean([np.maximum(problem.x @ w.T, 0) @ signs for w in models], axis=0)
            averaged = np.maximum(problem.x @ u.T, 0) @ signs
            errors[number] += [((f - problem.y) ** 2).mean() / 3 for f in (ensemble, averaged)]
    assert measured["ensemble_error"][:2] == pytest.approx(errors[:, 0])
    assert measured["averaged_error"][:2] == pytest.approx(errors[:, 1])
    assert np.sum([measured[name] for name in PARTS], axis=0) == pytest.approx(measured["averaged_error"], abs=1e-13)


def cell(point, off=0.0, remainder=0.01, covariance=0.1, heterogeneity=0.5):
    ones = np.full(ROUNDS, 1.0)
    measured = {name: 0.1 * ones for name in FACTORS} | {"heterogeneity_bias": heterogeneity * ones}
    measured |= {"remainder": remainder * ones, "covariance": covariance * ones, GAP: 1e-4 * ones, SCALE: 4 * ones}
    measured["ensemble_error"] = (0.3 + heterogeneity + covariance) * ones
    measured["averaged_error"] = measured["ensemble_error"] + measured["remainder"] + off
    return measured


def test_planted_parts_hold_and_wrong_ones_are_violated():
    assert [answer.outcome for answer in STUDY.answers(planted(STUDY, cell))] == [Outcome.HOLDS] * 5
    wrong = ({"off": 1e-9}, {"remainder": 0.1}, {"covariance": -0.11}, {"covariance": 0.4}, {"heterogeneity": 0.05})
    for place, changed in enumerate(wrong):
        answers = STUDY.answers(planted(STUDY, lambda point, changed=changed: cell(point, **changed)))
        assert [answer.outcome is Outcome.VIOLATED for answer in answers] == [part == place for part in range(5)]


def test_the_covariance_is_of_pairs_and_an_identity_calls_itself_a_check(monkeypatch):
    outputs = np.random.default_rng(0).standard_normal((7, 3, 2)) + np.arange(3)[:, None]
    pairs = [(k, j) for k in range(3) for j in range(3) if k != j]
    of_pairs = [np.cov(outputs[:, k, n], outputs[:, j, n], bias=True)[0, 1] / 9 for k, j in pairs for n in range(2)]
    assert averaging_factors.covariance(outputs) == pytest.approx(np.sum(of_pairs) / 2)
    monkeypatch.setattr(averaging_factors, "covariance", lambda outputs: 5.0)
    assert set(measure({"partition": "iid", "local_steps": 1, "seed": 0})["covariance"]) == {5.0}
    assert all("checks the code" in answer.note for answer in STUDY.answers(planted(STUDY, cell))[:4])


def test_cells_that_overflow_are_open():
    cells = planted(STUDY, lambda p: cell(p) | ({SCALE: np.full(ROUNDS, np.inf)} if p["seed"] == 2 else {}))
    assert STUDY.answers(cells)[0].outcome is Outcome.UNRESOLVED


def test_missing_cells_are_left_out():
    cells = planted(STUDY, lambda p: None if p["seed"] == 2 or p["partition"] == "iid" else cell(p))
    assert [answer.outcome for answer in STUDY.answers(cells)] == [Outcome.HOLDS] * 4 + [Outcome.UNTESTED]
    (chart,) = STUDY.charts(cells)
    assert np.isnan(chart.panels[0].series[0].y).all() and chart.panels[1].series[0].y[0] == pytest.approx(0.1)
