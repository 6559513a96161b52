"""Tests of the study of transitivity of trained networks.

One cell (one measurement of the study) is compared with the definitions on a grid, and training is compared with
autograd. The known correlations of invented cells are recovered.
"""

import numpy as np
import pytest
import torch
from planted import planted

from bounds import Outcome
from experiments.studies.questions.trained_transitivity import GROUPS, N_SAMPLES, RATE, STUDY, drawn, measure, trained
from experiments.studies.random_seed import own_seed
from experiments.studies.running.measuring import as_arrays
from ntkfl import data
from ntkfl.estimate import Estimate

POINT = {"width": 8, "beta": 1.0, "steps": 60, "seed": 3}


def networks():
    problem = data.digits(n=N_SAMPLES, seed=3)
    starts = [drawn(8, problem.d, own_seed(3, 8, number, bits=32)) for number in range(3)]
    anchor = trained(problem, starts[0], 60)
    return problem, anchor, [trained(problem, start, 60, 1.0, anchor) for start in starts[1:]]


def losses(problem, first, second, points=401):
    values = []
    for alpha in np.linspace(0, 1, points):
        weights = alpha * first.vector() + (1 - alpha) * second.vector()
        values.append(np.abs(first.at(weights).outputs(problem.x) - problem.y).mean())
    return np.linspace(0, 1, points), np.array(values)


def test_a_cell_is_the_definition_on_a_grid():
    measured = as_arrays(STUDY, measure(POINT))
    problem, anchor, (first, second) = networks()
    way = max(losses(problem, network, anchor)[1].max() for network in (first, second))
    assert way * (1 - 1e-9) <= measured["epsilon"] <= way * 1.001
    alpha, between = losses(problem, first, second)
    wall = (between - alpha * between[-1] - (1 - alpha) * between[0]).max()
    assert wall - 1e-12 <= measured["barrier"] <= wall + 1e-3 * measured["gap"]
    assert measured["loss"] == pytest.approx(max(between[0], between[-1]), abs=1e-12)
    assert measured["barrier"] <= measured["gap"] * (1 + 1e-9) <= measured["data_bound"] <= measured["theorem"]


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_a_step_of_training_is_the_gradient_that_autograd_finds(beta):
    """A step of training is the gradient that autograd computes for the same objective.

    The objective is half the mean square plus beta times its integral on the segment to the anchor, by Gauss's rule of
    three points.
    """
    problem = data.digits(n=N_SAMPLES, seed=1)
    start, anchor = drawn(6, problem.d, 4), drawn(6, problem.d, 5)
    u, v = (torch.tensor(part, requires_grad=True) for part in (start.hidden, start.readout))
    x, y = torch.tensor(problem.x), torch.tensor(problem.y)

    def loss(hidden, readout):
        return ((torch.relu(x @ hidden.T) @ readout - y) ** 2).mean() / 2

    total, (nodes, weights) = loss(u, v), np.polynomial.legendre.leggauss(3)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        way = [
            float(node) * own + float(1 - node) * torch.tensor(other)
            for own, other in ((u, anchor.hidden), (v, anchor.readout))
        ]
        total = total + beta * float(weight) * loss(*way)
    total.backward()
    after = trained(problem, start, 1, beta, anchor)
    np.testing.assert_allclose(after.hidden, start.hidden - RATE * u.grad.numpy(), atol=1e-14)
    np.testing.assert_allclose(after.readout, start.readout - RATE * v.grad.numpy(), atol=1e-14)


def cell(point, of_epsilon=1.0, noise=0.0):
    rng = np.random.default_rng([point["width"], int(10 * point["beta"]), point["steps"], point["seed"]])
    epsilon = rng.uniform(0.1, 1)
    wall = 0.5 + 0.3 * of_epsilon * epsilon + noise * rng.standard_normal()
    return {"epsilon": epsilon, "barrier": wall, "gap": 2.0, "loss": 0.1, "data_bound": 3.0, "theorem": 100.0}


def outcomes(**planting):
    return [answer.outcome for answer in STUDY.answers(planted(STUDY, lambda point: cell(point, **planting)))][
        : len(GROUPS)
    ]


def test_planted_correlations_are_found_and_their_opposite_is_violated():
    assert outcomes() == [Outcome.HOLDS] * 4
    assert outcomes(of_epsilon=-1.0) == [Outcome.VIOLATED] * 4
    assert Outcome.HOLDS not in outcomes(of_epsilon=0.0, noise=1.0)
    answers = STUDY.answers(planted(STUDY, lambda point: cell(point, noise=0.05)))
    assert all(0.5 < answer.measured.value < 1 for answer in answers[:4]) and answers[0].outcome is Outcome.HOLDS


def test_an_effect_of_beta_alone_is_not_one_of_epsilon_at_equal_beta():
    """If beta alone changes epsilon and the barrier, only groups in which beta varies show a correlation."""

    def of_beta(point):
        rng = np.random.default_rng([point["width"], int(10 * point["beta"]), point["steps"], point["seed"]])
        first, second = 0.01 * rng.standard_normal(2)
        return cell(point) | {"epsilon": 1 / (1 + point["beta"]) + first, "barrier": 1 / (1 + point["beta"]) + second}

    outcomes = dict(zip(GROUPS, [a.outcome for a in STUDY.answers(planted(STUDY, of_beta))][:4], strict=True))
    assert outcomes["over beta, all else equal"] is Outcome.HOLDS is outcomes["all pairs of one seed"]
    assert outcomes["over seeds, all else equal"] is not Outcome.HOLDS
    assert outcomes["over the length of training, all else equal"] is not Outcome.HOLDS


def test_bounds_are_held_against_the_gap():
    answers = STUDY.answers(
        planted(STUDY, lambda point: cell(point) | {"gap": Estimate(3.5, 1e-12), "barrier": Estimate(4.0, 1e-12)})
    )
    assert [answer.outcome for answer in answers[4:]] == [Outcome.VIOLATED, Outcome.VIOLATED, Outcome.HOLDS]


def test_a_comparison_outside_the_theorem_contradicts_no_theorem_and_has_no_failure_probability():
    """A comparison to which the theorem does not apply contradicts no theorem.

    Cells that share images and anchors are dependent, so the theorem's probability does not bound how many of them
    fail.
    """
    far = STUDY.answers(
        planted(STUDY, lambda point: cell(point) | {"gap": Estimate(200.0 if point["seed"] == 0 else 2.0, 1e-12)})
    )[-1]
    assert far.outcome is Outcome.VIOLATED and "violated in 36 of 216 cells" in far.note
    assert far.source.startswith("no theorem") and "would not be one of Theorem 3.5" in far.note
    assert "probability" not in far.note
