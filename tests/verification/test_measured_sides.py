"""Tests of comparisons in which the error of one side is measured and not proved.

The tests ask whether such a comparison may confirm a violation on a run, if ball arithmetic encloses the run.
"""

from dataclasses import replace

import numpy as np
import pytest

from bounds import Form, Kind, Outcome, get
from bounds.federated_run import FederatedRun
from ntkfl.algorithm1.reference import BALL
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup, Weights
from verification.compare import compare, judge
from verification.facts import Standing
from verification.judging.confirm import confirm
from verification.search import attack


def _run(hidden, signs, label: float, **setup) -> FederatedRun:
    hidden = np.array(hidden, float)[:, None]
    problem = Problem(np.ones((1, 1)), np.array([label]))
    return FederatedRun(
        problem, Setup(width=len(hidden), **setup), Weights(hidden, np.array(signs, float)), linearised=True
    )


THREE = [1.0648682801, 0.5848579312, 1.6690556571]
# Runs whose rounding was once called a violation. Their residual is far below the outputs, or their steps amplify
# rounding.
RUNS = {
    "a residual of a hundredth": _run([1.0], [1], 1.01, eta_global=0.1, eta_local=1.0, local_steps=1, rounds=1),
    "a residual of a rounding": _run(
        THREE, [-1, 1, -1], -1.2407638442309559, eta_global=1.0, eta_local=5.0, local_steps=1, rounds=3
    ),
    "33 equal neurons": _run([1.0] * 33, [1] * 33, 5.84456265, eta_global=1.0, eta_local=1.0, local_steps=2, rounds=1),
    "unstable steps": _run(
        [0.84701788, -1.05921617, -0.07896366],
        [1, -1, -1],
        0.489026,
        eta_global=1.0,
        eta_local=11.8,
        local_steps=1,
        rounds=4,
    ),
}


@pytest.mark.filterwarnings("ignore::ntkfl.limit.infinite_width.UnstableSteps")
@pytest.mark.parametrize("identifier", ["fl-ntk/X.1", "fl-ntk/X.8"])
@pytest.mark.parametrize("name", RUNS)
def test_rounding_is_not_a_violation(identifier, name):
    statement, run = get(identifier), RUNS[name]
    comparison = judge(statement, Form.NEW, run.plain())
    if comparison.outcome is Outcome.VIOLATED:  # float64 sees a violation, because it has no error bound here.
        assert confirm(statement, Form.NEW, run.plain(), comparison).standing is Standing.FALLEN


@pytest.mark.filterwarnings("ignore::ntkfl.limit.infinite_width.UnstableSteps")
def test_the_run_that_is_looked_into_is_the_run_that_is_enclosed():
    enclosed = RUNS["unstable steps"].with_arithmetic(BALL, 200)
    x, last = enclosed.problem.x, enclosed.setup.rounds
    active = enclosed.weights.hidden @ x[0] > 0
    output = enclosed.weights.signs[active] @ (enclosed.trajectory.weights[last] @ x[0])[active] / np.sqrt(3)
    assert abs(output - enclosed.observed("outputs").value[last, 0]) < 4e-16
    assert np.array_equal(enclosed.trajectory.outputs, enclosed.observed("outputs").value)


@pytest.mark.parametrize("errors, standing", [(5, Standing.FALLEN), (1e7, Standing.CONFIRMED)])
def test_a_measured_side_confirms_by_a_wide_margin_only(errors, standing):
    statement, run = get("fl-ntk/X.1"), RUNS["a residual of a hundredth"]

    def off(case):
        left, measured = statement.left(Form.NEW, case)
        return left, Estimate(measured.value + errors * measured.error, measured.error, measured.method)

    wrong = replace(statement, measure=off)
    comparison = judge(wrong, Form.NEW, run.with_arithmetic(BALL, 200))
    assert comparison.outcome is Outcome.VIOLATED
    assert confirm(wrong, Form.NEW, run.plain(), comparison).standing is standing


@pytest.mark.parametrize("identifier", ["fedgucci/F3"])
def test_a_search_does_not_believe_samples_that_just_miss(identifier):
    done = attack(get(identifier), Form.STATED, examples=40, seconds=float("inf"), seed=7)
    assert done.counterexample is None
    assert any("intervals apart, where a search asks for" in str(how) for how in done.unconfirmed)


def test_sides_without_an_entry_are_not_compared():
    nothing = Estimate.exact(np.zeros(0))
    with pytest.raises(ValueError, match="there is nothing to compare"):
        compare(Kind.UPPER, nothing, nothing)


SLOW = [pytest.param(f"fl-ntk/{name}", marks=pytest.mark.slow) for name in ("averaging-maps", "state-maps")]


@pytest.mark.parametrize("identifier", ["fl-ntk/X.5", *SLOW])
def test_a_search_finds_nothing_against_what_is_proved(identifier, monkeypatch):
    """A search finds no counterexample to proved statements.

    Each of these statements was once wrongly called violated, because of a second round or because of labels far above
    the residual. From either cause, the wrong violation appeared within few rounds. Longer searches, of up to hundreds
    of rounds, would train for minutes.
    """
    monkeypatch.setattr("verification.search.ascent.MOST_ROUNDS", 16)
    assert attack(get(identifier), Form.NEW, examples=40, seconds=float("inf"), seed=7).counterexample is None
