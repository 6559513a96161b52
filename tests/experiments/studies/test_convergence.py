"""Tests of the study of convergence.

One cell (one measurement of the study) is compared with a plain loop. Cells are
invented with known dependences. From these cells the dependences are recovered, and claims of other dependences are
violated.
"""

from functools import partial

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions import convergence
from experiments.studies.questions.convergence import AS_MANY, SHARE, STUDY, WIDTH, measure, problem_of
from experiments.studies.running.measuring import as_arrays
from ntkfl import gram
from ntkfl.initialisation import draw

POINT = {"data": "sphere", "clients": 2, "local_steps": 2, "eta_local": 0.4, "eta_global": AS_MANY, "seed": 1}


def test_a_cell_is_what_a_plain_loop_finds():
    measured = as_arrays(STUDY, measure(POINT))
    problem, weights = problem_of("sphere", 2, 1), draw(WIDTH, 64, 1)
    signs, u, residual = weights.signs / np.sqrt(WIDTH), weights.hidden.copy(), []
    for _ in range(int(measured["rounds_run"]) + 1):
        residual.append(np.linalg.norm(problem.y - np.maximum(problem.x @ u.T, 0) @ signs))
        moves = np.zeros_like(u)
        for own in problem.members:
            local = u.copy()
            for _ in range(2):
                z = problem.x[own] @ local.T
                local += (
                    0.4 * ((z >= 0) * (problem.y[own] - np.maximum(z, 0) @ signs)[:, None] * signs).T @ problem.x[own]
                )
            moves += local - u
        u = u + moves  # The server's step size is the number of clients, so the moves are summed.
    assert residual[-1] <= SHARE * residual[0] < residual[-2]
    limit = gram.infinite(problem.x)
    response = np.zeros_like(limit)
    for own in problem.members:
        block = np.ix_(own, own)
        response[block] = 0.4 * (2 * np.eye(len(own)) - 0.4 * limit[block])
    assert measured["rate"] == pytest.approx(np.abs(np.linalg.eigvals(np.eye(16) - limit @ response)).max(), rel=1e-9)
    assert measured["small"] == pytest.approx(0.8 * np.linalg.norm(limit, 2))
    assert np.isnan(measured["rate_bound"])  # Statement X.3b only concerns server steps up to 1.
    assert measured["rounds_limit"] == pytest.approx(measured["rounds_run"], rel=0.1)


def test_steps_beyond_the_limit_leave_the_rounds_out():
    measured = measure(
        {"data": "sphere", "clients": 16, "local_steps": 8, "eta_local": 4.5, "eta_global": AS_MANY, "seed": 0}
    )
    assert (
        measured["rate"] > 1
        and np.isnan([measured["rounds_run"], measured["rounds_limit"], measured["over_bound"]]).all()
    )


def cell(point, power=1.0, over=0.9):
    """Returns an invented cell.

    Its rounds grow like N^power / (eta_l K) at eta_g = 1, and do not depend on N at eta_g = N.
    """
    rng = np.random.default_rng([point["clients"], point["local_steps"], int(1e4 * point["eta_local"]), point["seed"]])
    clients = 1.0 if point["eta_global"] == AS_MANY else float(point["clients"])
    rounds = 20 * clients**power / (point["eta_local"] * point["local_steps"]) * rng.lognormal(sigma=0.05)
    small = 0.7 * point["eta_local"] * point["local_steps"]
    names = {"rounds_limit": rounds, "rounds_run": 1.01 * rounds, "rounds_bound": 3 * rounds, "over_bound": over}
    return names | {"rate": 0.9, "rate_bound": 0.95, "small": small}


def test_planted_dependences_hold():
    answers = STUDY.answers(planted(STUDY, cell))
    assert {answer.outcome for answer in answers} == {Outcome.HOLDS}


@pytest.mark.parametrize(
    ("wrong", "claim"),
    [({"power": 0.5}, "rounds of the network ~ N^1"), ({"over": 1.001}, "|y - y(t)|^2 <="), ({"power": -1.0}, "~ N^1")],
)
def test_what_is_planted_wrong_is_violated(wrong, claim):
    answers = STUDY.answers(planted(STUDY, partial(cell, **wrong)))
    violated = [answer.claim for answer in answers if answer.outcome is Outcome.VIOLATED]
    assert any(claim in claimed for claimed in violated)
    assert not any("N^0" in claimed for claimed in violated)


def test_a_network_that_does_not_get_there_runs_to_its_bound_and_needs_more(monkeypatch):
    ran = []

    def stuck(problem, setup, weights, most):
        ran.append(most)
        return np.ones(most + 1)

    monkeypatch.setattr(convergence, "_residual", stuck)
    measured = measure(POINT)
    assert measured["rounds_run"] == np.inf and ran[0] >= measured["rounds_bound"] > 2 * measured["rounds_limit"]


@pytest.mark.parametrize("legs", [0, 1])
def test_a_network_that_overflows_does_not_drop_out(monkeypatch, legs):
    done, really = [], convergence.simulate

    def overflows(*arguments, **options):
        done.append(None)
        if len(done) > legs:
            raise FloatingPointError("the run overflowed at round 7")
        return really(*arguments, **options)

    monkeypatch.setattr(convergence, "simulate", overflows)
    monkeypatch.setattr(convergence, "SHARE", 1e-9)
    measured = measure(POINT)
    assert len(done) == legs + 1 and measured["rounds_run"] == measured["over_bound"] == np.inf


def test_networks_that_do_not_get_there_violate_and_leave_the_exponents_open():
    cells = planted(STUDY, lambda p: cell(p) | ({} if p["seed"] else {"rounds_run": np.inf}))
    answers = {answer.source + answer.claim: answer.outcome for answer in STUDY.answers(cells)}
    assert [outcome for name, outcome in answers.items() if "hundredth" in name] == [Outcome.VIOLATED]
    exponents = [outcome for name, outcome in answers.items() if "rounds of the network ~" in name]
    assert exponents == [Outcome.UNRESOLVED] * 3


def test_what_is_not_stable_is_counted():
    gone = dict.fromkeys(("rounds_limit", "rounds_run", "rounds_bound", "over_bound"), np.nan)
    cells = planted(STUDY, lambda p: cell(p) | ({} if p["seed"] or p["clients"] > 1 else gone))
    assert all("left out: 32 cells" in answer.note for answer in STUDY.answers(cells)[:2])


def test_missing_cells_and_other_values_of_the_axes():
    cells = planted(STUDY, lambda p: None if p["clients"] == 4 and p["seed"] else cell(p), local_steps=(1, 3))
    answers = STUDY.answers(cells)
    assert {answer.outcome for answer in answers} == {Outcome.HOLDS}
    chart, rates = STUDY.charts(cells)
    assert [series.of for series in chart.panels[0].series].count("network, eta_g = 1") == 2
    assert len(rates.panels[0].series) == 8
