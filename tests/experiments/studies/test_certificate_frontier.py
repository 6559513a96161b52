"""Tests of the study of the smallest width at which networks are certified.

At the width of one cell (one measurement of the study) the network is certified, and at a width smaller by a tenth it
is not. From cells that are invented to follow known laws, these laws are recovered.
"""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from bounds.fl_ntk.certificates.certificate import a_priori_certificate
from experiments.studies.questions.certificate_frontier import STUDY, measure, problem_of
from experiments.studies.running.measuring import as_arrays
from ntkfl import gram
from ntkfl.initialisation import draw
from ntkfl.problem import Setup


def test_a_cell_is_the_edge_of_what_certifies():
    measured = as_arrays(STUDY, measure({"n": 4, "d": 32, "angle": 90.0, "seed": 0}))
    problem = problem_of(4, 32, 90.0, 0)
    values = np.linalg.eigvalsh(gram.infinite(problem.x))
    assert measured["eigenvalue"] == pytest.approx(values[0])
    setup = Setup(eta_local=values[0] / (10 * values[-1] ** 2), local_steps=2)
    certified = [
        a_priori_certificate(problem, replace(setup, width=width), draw(width, 32, 0)).certified
        for width in (int(measured["width"]), int(measured["width"] / 1.1))
    ]
    assert certified == [True, False]


@pytest.mark.parametrize("degrees", [40.0, 90.0])
def test_the_first_two_points_are_at_the_angle_with_other_labels(degrees):
    problem = problem_of(6, 8, degrees, 3)
    assert problem.x[0] @ problem.x[1] == pytest.approx(np.cos(np.deg2rad(degrees)), abs=1e-12)
    assert problem.y[0] == -problem.y[1] and problem.unit_deviation < 1e-12


def cell(point, power=1.0, factor=10.0):
    """Returns an invented cell whose width is factor times complexity^power, up to a scatter of about a tenth."""
    rng = np.random.default_rng([point["n"], point["d"], int(point["angle"]), point["seed"]])
    lowest = point["angle"] / 250
    complexity = point["n"] ** 3 / lowest**4 * rng.uniform(0.5, 2)
    width = factor * complexity**power * rng.lognormal(sigma=0.05)
    stated, proof = 100 * complexity, 1e9 * complexity
    return {
        "width": width,
        "eigenvalue": lowest,
        "complexity": complexity,
        "width_stated": stated,
        "width_proof": proof,
    }


def test_planted_widths_hold():
    assert [answer.outcome for answer in STUDY.answers(planted(STUDY, cell))] == [Outcome.HOLDS] * 4


def test_another_power_and_widths_above_the_bounds_are_violated():
    answers = STUDY.answers(planted(STUDY, lambda point: cell(point, power=0.5)))
    assert answers[1].outcome is Outcome.VIOLATED
    answers = STUDY.answers(planted(STUDY, lambda point: cell(point, factor=400.0)))
    assert [answer.outcome for answer in answers][::2] == [Outcome.VIOLATED] * 2


def never(point, complexity):
    """Returns an invented cell that has no certified width if its complexity is at least `complexity`."""
    measured = cell(point)
    return measured | ({"width": np.nan} if measured["complexity"] >= complexity else {})


def test_cells_that_certify_nowhere_decide_where_the_bound_is_below_the_largest_width():
    """A cell without any certified width is a counterexample to a bound that lies below the largest width.

    Three such cells violate this bound. These cells leave open the bounds that lie above the largest width.
    """

    def low(point):
        measured, out = cell(point), point["n"] == 8 and point["angle"] == 90.0 and point["d"] == 8
        return measured | ({"width": np.nan, "complexity": 80.0 + point["seed"]} if out else {})

    closed, _, _, proof = STUDY.answers(planted(STUDY, low))
    assert closed.outcome is Outcome.VIOLATED and closed.note.endswith("violated in 3 of 72 cells")
    assert proof.outcome is Outcome.HOLDS  # Three of 72 cells leave this bound open.
    assert STUDY.answers(planted(STUDY, lambda point: never(point, 1e5)))[0].outcome is Outcome.UNRESOLVED


def test_the_power_is_of_the_complexities_below_the_first_that_certifies_nowhere():
    """The power is fitted to the complexities below the first one at which no width is certified.

    Above it only a few cells with lucky draws have a certified width, and they do not change the fitted power.
    """

    def lucky(point):
        measured = never(point, 2e5)
        return measured | (
            {"width": 1e-3 * cell(point)["width"]} if not point["seed"] and np.isnan(measured["width"]) else {}
        )

    for law in (lambda point: never(point, 2e5), lucky):
        answer = STUDY.answers(planted(STUDY, law))[1]
        assert answer.outcome is Outcome.HOLDS, answer


def test_cells_that_were_not_measured_are_not_said_to_certify_nowhere():
    answers = STUDY.answers(planted(STUDY, lambda point: None if point["n"] == 8 else cell(point)))
    assert {answer.outcome for answer in answers} == {Outcome.HOLDS}
    assert answers[0].note == "the closed form"


def test_a_chart_leaves_out_cells_that_certify_nowhere():
    cells = planted(STUDY, lambda point: cell(point) | ({"width": np.nan} if point["n"] == 8 else {}))
    assert "certifies 18 of 72 cells" in STUDY.answers(cells)[0].note
    (chart,) = STUDY.charts(cells)
    assert len(chart.panels[0].series[-1].x) == 0
