"""Tests of the generalisation bounds: losses, finite classes, classes of networks, and networks trained on a sample."""

from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Form, Options, Outcome, get
from bounds.fl_ntk import rademacher
from bounds.fl_ntk.cases.generalisation_case import (
    LINEAR,
    SIGNS,
    Loss,
    SphereDistribution,
    TrainedOnSample,
    UserData,
    losses,
    sample_families,
)
from bounds.fl_ntk.population_loss import SampleLadder
from bounds.fl_ntk.rademacher import FiniteClass, WeightBall
from bounds.ladders.slopes import NoSlope
from ntkfl import gram, kernel_regime
from ntkfl.estimate import Estimate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem
from verification.compare import judge

REAL = st.floats(-3, 3)


@given(losses(), REAL, REAL, REAL)
@settings(deadline=None, max_examples=200)
def test_a_loss_is_lipschitz_and_stays_in_its_range(loss, f, g, y):
    at_f, at_g = loss(f, y), loss(g, y)
    assert abs(at_f - at_g) <= loss.slope * abs(f - g) + 1e-14
    assert loss.lowest <= at_f <= loss.cap <= 1
    assert loss(y, y) == pytest.approx(loss.at_label, abs=1e-14)
    if loss.constant:
        assert at_f == loss.lowest


@given(losses(at_label=False), REAL)
@settings(deadline=None, max_examples=50)
def test_losses_drawn_to_vanish_at_the_label_are_0_there(loss, y):
    assert loss(y, y) == loss.at_label == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slope": -1.0}, r"slope of the loss is -1.0; it must be finite and not negative"),
        ({"shift": np.inf}, r"shift of the loss is inf; it must be finite$"),
    ],
)
def test_an_impossible_loss_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Loss(**wrong)


@given(st.integers(1, 6), st.integers(1, 7), st.floats(0, 1), st.integers(0, 100))
@settings(deadline=None, max_examples=25)
def test_a_finite_class_agrees_with_its_definition(functions, n, mistakes, seed):
    case = FiniteClass(functions, 30, mistakes, n, Loss(slope=0.5, cap=2.0), seed)
    values = [[case.outputs[f][i] for i in case.sample] for f in range(functions)]
    best = [
        max(sum(s * v for s, v in zip(signs, row, strict=True)) for row in values)
        for signs in product([-1, 1], repeat=n)
    ]
    assert abs(case.rademacher.value - np.mean(best) / n) <= case.rademacher.error + 1e-15
    gaps = []
    for f in range(functions):
        capped = [min(2.0, 0.5 * abs(a - b)) for a, b in zip(case.outputs[f], case.labels, strict=True)]
        gaps.append(np.mean(capped) - np.mean([capped[i] for i in case.sample]))
    assert case.largest_gap.lo <= max(gaps) <= case.largest_gap.hi


def test_the_interval_from_drawn_signs_has_the_value_of_all_signs(monkeypatch):
    for seed in range(8):
        case = FiniteClass(5, 50, 0.4, 9, Loss(), seed)
        exact = float(case.rademacher.value)
        monkeypatch.setattr(rademacher, "ENUMERATED", 0)
        drawn = FiniteClass(5, 50, 0.4, 9, Loss(), seed).rademacher
        monkeypatch.undo()
        assert "draws" in drawn.method
        assert drawn.lo <= exact <= drawn.hi


def networks_near(seed: int, n: int, radius: float, budget: float) -> WeightBall:
    x = np.random.default_rng(seed).normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return WeightBall(Problem(x, np.zeros(n)), draw(64, 3, seed), 1.0, radius, budget)


@given(st.integers(0, 50), st.integers(1, 4), st.floats(0.01, 1), st.floats(0.1, 4))
@settings(deadline=None, max_examples=20)
def test_no_member_of_a_class_of_networks_beats_the_upper_end(seed, n, radius, budget):
    case = networks_near(seed, n, radius, budget)
    (hidden, a), x, rng = case.weights, case.problem.x, np.random.default_rng(seed)
    best = []
    for signs in product([-1.0, 1.0], repeat=n):
        outputs = []
        for _ in range(30):
            move = rng.normal(size=hidden.shape) + 3 * a[:, None] * (np.array(signs) @ x)
            move *= np.minimum(1, radius / np.linalg.norm(move, axis=1, keepdims=True))
            move *= min(1, budget / np.linalg.norm(move))
            outputs.append(np.maximum((hidden + move) @ x.T, 0).T @ a @ signs / np.sqrt(len(a)))
        best.append(max(outputs))
    assert np.mean(best) / n <= case.rademacher.hi
    assert case.rademacher.lo >= 0


def test_the_bracket_closes_as_the_radius_falls():
    wide, narrow = (networks_near(0, 4, radius, 0.5 * 8 * radius).rademacher for radius in (0.1, 1e-5))
    assert narrow.error / narrow.value < 0.02 < wide.error / wide.value


def test_a_class_on_too_many_samples_is_refused():
    with pytest.raises(ValueError, match=r"n is 11; all 2\^n signs are gone through, so it must be at most 10"):
        networks_near(0, 11, 0.1, 1.0)


@given(st.integers(2, 40), st.integers(0, 50), st.sampled_from([LINEAR, SIGNS]))
@settings(deadline=None, max_examples=15)
def test_the_quadratic_form_in_floats_and_in_balls_agree(n, seed, source):
    floats, balls = (TrainedOnSample(source, n, Loss(), seed, in_balls=exact) for exact in (False, True))
    assert floats.complexity.lo <= balls.complexity.hi
    assert balls.complexity.lo <= floats.complexity.hi
    assert balls.complexity.method == "ball"
    y, h = floats.problem.y, gram.infinite(floats.problem.x)
    assert floats.complexity.hi >= (y @ y) ** 2 / (y @ h @ y)  # By the Cauchy-Schwarz inequality.


def test_training_is_long_enough_to_fit_the_sample():
    case = TrainedOnSample(SIGNS, 40, Loss(), 0)
    fitted = kernel_regime(case.problem, case.setup).outputs(case.setup.rounds)
    assert np.abs(fitted - case.problem.y).mean() < 1 / np.sqrt(40)  # This is the theorem's premise on L_S.


def test_the_population_loss_is_that_of_fresh_samples():
    case = TrainedOnSample(SIGNS, 60, Loss(), 1)
    x = np.random.default_rng(99).normal(size=(20_000, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.random.default_rng(98).choice([-1.0, 1.0], size=len(x))
    h = gram.infinite(x, case.problem.x)
    # These are the outputs in the limit of many rounds.
    outputs = h @ np.linalg.solve(gram.infinite(case.problem.x), case.problem.y)
    assert case.population_loss.lo <= np.minimum(1, np.abs(outputs - y)).mean() <= case.population_loss.hi


def test_a_constant_loss_is_known_exactly():
    case = TrainedOnSample(LINEAR, 5, Loss(slope=0.0, floor=0.25), 0)
    assert (case.population_loss.value, case.population_loss.error) == (0.25, 0)


def test_where_the_bound_is_below_the_trivial_one():
    statement = get("fl-ntk/C.11")
    linear, signs, _ = sample_families(Options())
    for family, below in ((linear, True), (signs, False)):
        case = family.case(6)  # The sample size is n = 176.
        (right,) = statement.forms[Form.REPAIRED].evaluate(statement.constants(case))
        assert (right.hi < 1) if below else (right.lo > 1)


def test_held_out_rows_are_not_trained_on(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 2))
    np.savez(tmp_path / "rows.npz", x=x, y=np.arange(12.0))
    problem = UserData(str(tmp_path / "rows.npz")).sample(100, 2000, seed=3, clients=4)
    assert len(problem.y) == 8
    assert sorted([*problem.y, *problem.y_test]) == list(range(12))
    np.savez(tmp_path / "one.npz", x=x[:1], y=np.ones(1))
    with pytest.raises(ValueError, match=r"one.npz has 1 row; a population loss needs at least 2"):
        UserData(str(tmp_path / "one.npz")).sample(100, 2000, seed=3, clients=4)


def test_named_data_have_held_out_rows_too():
    problem = UserData("digits").sample(20, 50, seed=0, clients=4)
    assert problem.x_test.shape == (50, 64)
    assert problem.n_clients == 4
    assert UserData("sphere").sample(6, 7, seed=0, clients=4).x_test.shape == (7, 8)
    # All 178 rows are used, and at least a third of them is held out.
    wines = UserData("wine").sample(150, 2000, seed=0, clients=4)
    assert (wines.n, len(wines.x_test)) == (118, 60) and not (set(map(tuple, wines.x)) & set(map(tuple, wines.x_test)))


def test_samples_of_other_seeds_are_other_samples_and_a_case_says_which():
    case = TrainedOnSample(SphereDistribution(d=3), 5, Loss(), 0)
    assert not np.array_equal(case.problem.x, case.redrawn(1).problem.x)
    assert np.array_equal(case.problem.x, case.redrawn(0).problem.x)
    assert case.describe()["n"] == 5


@pytest.mark.parametrize("loss", [Loss(floor=0.5), Loss(shift=0.5), Loss(slope=0.0, floor=0.1)])
def test_the_informal_theorem_fails_for_losses_that_do_not_vanish_at_the_label(loss):
    """The ratio of the two sides grows for such losses, and does not grow for a loss that vanishes at the label.

    The means over held-out samples are taken as exact. With the sampling errors of these means the theorem is called
    violated only if such a loss is constant; for the other such losses the outcome is unresolved.
    """
    statement = get("fl-ntk/T4.3")

    def outcome(of_loss, exact=True):
        ladder = SampleLadder(LINEAR, of_loss, 0)
        (left,), constants = statement.measured(Form.STATED, ladder)
        left = Estimate.exact(left.value) if exact else left
        return judge(statement, Form.STATED, ladder, known=((left,), constants)).outcome

    assert outcome(loss) is Outcome.VIOLATED and outcome(Loss()) is Outcome.HOLDS
    assert outcome(loss, exact=False) is (Outcome.VIOLATED if loss.constant else Outcome.UNRESOLVED)


@pytest.mark.parametrize("label", ["C.4", "C.5", "C.11", "T4.3"])
def test_every_family_has_a_strategy_whose_cases_can_be_judged(label):
    statement = get(f"fl-ntk/{label}")
    (form, *_) = statement.forms
    family = statement.families_of(form, Options())[0]

    @given(family.strategy())
    @settings(deadline=None, max_examples=8, database=None)
    def holds_or_not(case):
        met = [h.met(case) for h in statement.required(form)]
        if all(met):
            # If a loss is 0, no power of n fits the loss, and there is no slope to compare.
            with suppress(NoSlope):
                comparison = judge(statement, form, case)
                assert np.isfinite([comparison.left.value, comparison.right.value]).all()

    holds_or_not()
