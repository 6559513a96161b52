"""Certificate frontier: a cell's width certifies and a tenth less does not; planted laws are recovered."""

from dataclasses import replace

import numpy as np
import pytest
from planted import planted

from bounds.fl_ntk.certificate import a_priori_certificate
from bounds.statement import Outcome
from experiments.studies.certificate_frontier import STUDY, measure, problem_of
from experiments.studies.measuring import as_arrays
from ntkfl import gram
from ntkfl.initialisation import draw
from ntkfl.problem import Setup


def test_a_cell_is_the_edge_of_what_certifies():
    found = as_arrays(STUDY, measure({"n": 4, "d": 32, "angle": 90.0, "seed": 0}))
    problem = problem_of(4, 32, 90.0, 0)
    values = np.linalg.eigvalsh(gram.infinite(problem.x))
    assert found["eigenvalue"] == pytest.approx(values[0])
    setup = Setup(eta_local=values[0] / (10 * values[-1] ** 2), local_steps=2)
    certified = [
        a_priori_certificate(problem, replace(setup, width=width), draw(width, 32, 0)).certified
        for width in (int(found["width"]), int(found["width"] / 1.1))
    ]
    assert certified == [True, False]


@pytest.mark.parametrize("degrees", [40.0, 90.0])
def test_the_first_two_points_are_at_the_angle_with_other_labels(degrees):
    problem = problem_of(6, 8, degrees, 3)
    assert problem.x[0] @ problem.x[1] == pytest.approx(np.cos(np.deg2rad(degrees)), abs=1e-12)
    assert problem.y[0] == -problem.y[1] and problem.unit_deviation < 1e-12


def cell(point, power=1.0, factor=10.0):
    """A width of factor times complexity^power, to a tenth."""
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
    assert [answer.outcome for answer in STUDY.summarise(planted(STUDY, cell))] == [Outcome.HOLDS] * 4


def test_another_power_and_widths_above_the_bounds_are_violated():
    answers = STUDY.summarise(planted(STUDY, lambda point: cell(point, power=0.5)))
    assert answers[1].outcome is Outcome.VIOLATED
    answers = STUDY.summarise(planted(STUDY, lambda point: cell(point, factor=400.0)))
    assert [answer.outcome for answer in answers][::2] == [Outcome.VIOLATED] * 2


def test_cells_that_certify_nowhere_are_counted_and_left_out():
    def never(point):
        return cell(point) | ({"width": np.nan} if point["n"] == 12 else {})

    answers = STUDY.summarise(planted(STUDY, never))
    assert {answer.outcome for answer in answers} == {Outcome.HOLDS}
    assert answers[0].note.endswith("18 of 72 cells certify at no width up to 524288")
    (chart,) = STUDY.charts(planted(STUDY, never))
    assert len(chart.panels[0].series[-1].x) == 0
