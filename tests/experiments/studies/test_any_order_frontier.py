"""Tests of the study of the frontier of certificates that hold for any order of clients and steps.

The distance in one cell (one measurement of the study) is the largest one at which a network is certified.
`chain_reaction` is a distance that follows from a constant gamma of the proof. It agrees with the distance for which
gamma is computed from a drawn network. From cells that are invented to follow known laws, these laws are recovered.
"""

import numpy as np
import pytest
from planted import planted

from bounds import Outcome
from experiments.studies.questions.any_order_frontier import EVERY, STUDY, chain_reaction, measure, reach
from experiments.studies.running.measuring import as_arrays
from ntkfl import certify_any_order, data
from ntkfl.any_order.constraint_rows import NO_PAIRS, ConstraintRows
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Weights

POINT = {"n": 5, "width": 200, "clients": 2, "partition": "iid", "local_steps": 2, "seed": 1}


def test_a_cell_is_the_first_round_that_certifies():
    measured = as_arrays(STUDY, measure(POINT))
    assert 0 < measured["round"] <= 300 and measured["round"] % EVERY == 0 and measured["distance"] > 0
    assert np.isfinite(measured["a_priori"]) and measured["a_priori"] > 1 and measured["edge"] > 0
    assert 0 < measured["left"] <= measured["residual"]
    assert measured["chain"] == chain_reaction(data.digits(n=5, clients=2, seed=1).x, 200)


def test_the_reach_is_the_edge_of_what_certifies():
    """`reach` finds labels at some distance from the outputs for which a network is certified.

    The network is not certified for labels at 1.2 times this distance.
    """
    problem = data.digits(n=4, clients=2, seed=1)
    weights = draw(100, problem.d, 1)
    edge = reach(certify_any_order(problem, weights))
    outputs, residual = weights.outputs(problem.x), problem.y - weights.outputs(problem.x)
    factors = 1.2 ** -np.arange(100.0)
    certified = [certify_any_order(Problem(problem.x, outputs + s * residual), weights) for s in factors[:25]]
    distances = [float(certificate.distance.value) if certificate.certified else 0.0 for certificate in certified]
    place = int(np.argmin(np.abs(np.array(distances) - edge.nearest.distance.value)))
    assert distances[place] == pytest.approx(float(edge.nearest.distance.value), rel=1e-6)
    assert place == 0 or not certified[place - 1].certified
    assert sorted(edge.rows.neuron.tolist()) == sorted(certified[place].held[:, 0].tolist())


def test_labels_that_nothing_reaches_have_no_reach():
    weights = Weights(np.ones((3, 1)), np.ones(3))
    contradiction = Problem(np.ones((2, 1)), np.array([1.0, 2.0]))
    assert reach(certify_any_order(contradiction, weights)) is None
    off = Problem(np.eye(2), np.ones(2))
    assert reach(certify_any_order(off, Weights(-np.ones((3, 2)), np.ones(3)))) is None


def test_the_chain_reaction_has_the_projections_of_wide_networks():
    """`chain_reaction` agrees with (2 gamma)^(-1/2), in which gamma is computed from a drawn network.

    The certificate's kappa is the root mean square of |projection of x_i (x) e_r on rows(C)|.
    """
    problem, width = data.digits(n=6, seed=0), 1000
    neuron_pass = certify_any_order(problem, draw(width, problem.d, 0))._grown.rows.neuron_pass
    rows = ConstraintRows(neuron_pass, NO_PAIRS.neuron, NO_PAIRS.row)
    inner, kappa = np.abs(problem.x @ problem.x.T), np.zeros(6)
    for i in range(6):
        columns, error = rows.columns(np.arange(width), np.full(width, i))
        kappa[i] = np.sqrt((rows.projections(columns, error)[1] ** 2).mean())
    others = (inner**3).sum(axis=1) - 1
    gamma = 2 / np.pi * width * (kappa * others).sum() / 3
    assert chain_reaction(problem.x, width) == pytest.approx((2 * gamma) ** -0.5, rel=0.05)


def cell(point, power=-0.25, factor=1.0, late=2.0):
    rng = np.random.default_rng([point["n"], point["width"], point["seed"]])
    chain = point["width"] ** -0.25 / point["n"]
    return {
        "edge": factor * chain * point["width"] ** (power + 0.25) * rng.lognormal(sigma=0.1),
        "edge_held": 50.0,
        "chain": chain,
        "a_priori": 100.0,
        "round": 20.0 * point["local_steps"],
        "held": 3.0,
        "distance": 0.01,
        "residual": 0.01,
        "round_x": late * 20.0 * point["local_steps"],
        "left": 1e-3,
    }


def test_planted_laws_hold():
    answers = STUDY.answers(planted(STUDY, cell))
    assert [answer.outcome for answer in answers] == [Outcome.HOLDS] * 3
    assert answers[2].note.startswith(
        "of 160 cells 160 certify for any order by round 300, 160 by X.11 or X.12, 0 by the"
    )


def test_another_power_a_longer_reach_and_late_certificates_are_violated():
    power = STUDY.answers(planted(STUDY, lambda point: cell(point, power=0.5)))
    factor = STUDY.answers(planted(STUDY, lambda point: cell(point, factor=3.0)))
    late = STUDY.answers(planted(STUDY, lambda point: cell(point, late=0.5)))
    assert [answers[k].outcome for k, answers in enumerate((power, factor, late))] == [Outcome.VIOLATED] * 3


def test_rounds_that_never_come():
    """If X.11 and X.12 never certify a network, their first round counts as later than any other.

    A network that no certificate certifies, not even the any-order certificate, decides nothing.
    """
    never = {"round_x": np.nan}
    answer = STUDY.answers(planted(STUDY, lambda point: cell(point) | never))[2]
    assert answer.outcome is Outcome.HOLDS and "0 by X.11 or X.12" in answer.note
    both = STUDY.answers(planted(STUDY, lambda point: cell(point) | never | {"round": np.nan}))[2]
    assert both.outcome is Outcome.UNTESTED
    only = STUDY.answers(planted(STUDY, lambda point: cell(point) | {"round": np.nan}))[2]
    assert only.outcome is Outcome.VIOLATED
    assert "in cells that never certify, |y - f| was 0.001 or more at the end" in only.note
    (chart,) = STUDY.charts(planted(STUDY, lambda point: cell(point) | never))
    assert all(not series.x for series in chart.panels[0].series if series.role == "bound")


def test_a_theorem_that_misses_the_slow_half_is_not_drawn_as_the_earlier_one():
    def halves(point):
        slow = {"round": 200.0, "round_x": np.nan} if point["seed"] else {"round": 20.0, "round_x": 40.0}
        return cell(point) | slow

    (chart,) = STUDY.charts(planted(STUDY, halves))
    ours, theirs = ([s for s in chart.panels[0].series if s.role == role] for role in ("measured", "bound"))
    assert all(set(series.y) == {110.0} for series in ours) and not any(series.x for series in theirs)
