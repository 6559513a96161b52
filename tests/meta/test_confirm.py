"""Tests of the confirmation of violations: a violation is computed again before it counts.

False violations are not confirmed, and true violations are. The verdict says how a violation was computed again.
"""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from bounds import Case, Claim, Form, Hypothesis, Kind, Outcome, Source, Statement, federated_run as module
from bounds.case import TooCostly, case_of, described, prepared
from bounds.federated_run import FederatedRun, federated_run
from bounds.symbols import r0
from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import Problem, Setup
from verification.compare import judge
from verification.judging.confirm import confirm, refined
from verification.verdict import Standing

RNG = np.random.default_rng(0)
PROBLEM = Problem(RNG.standard_normal((3, 4)), RNG.uniform(-1, 1, 3), np.array([0, 1, 0])).unit()
RUN = federated_run(PROBLEM, Setup(width=16, eta_local=0.1, rounds=4, seed=1))
STATED, VIOLATED, HOLDS = Form.STATED, Outcome.VIOLATED, Outcome.HOLDS


def claim(formula, measure, hypotheses=(), constants=lambda case: {r0: case.initial_residual}):
    return Statement(
        id="test/C",
        title="a claim about the first residual",
        kind=Kind.UPPER,
        source=Source("tests", "C"),
        stated=Claim(formula),
        constants=constants,
        measure=measure,
        families=lambda options: (),
        says_left="the last residual",
        hypotheses=hypotheses,
    )


def last(case):
    return case.observed("residual_norm")[-1]


def understated(case):
    """Returns the last residual; in float64 the value is a millionth too large and claims to have no error."""
    if case.arithmetic is None:
        return Estimate.exact(last(case).value * (1 + 1e-6))
    return last(case)


RATIO = sp.Rational(float(RUN.trajectory.residual_norm[-1] / RUN.trajectory.residual_norm[0]) * (1 + 1e-7))


def test_the_case_contracts():
    assert 0.5 < RATIO < 1


def test_a_false_violation_is_not_confirmed_in_balls():
    false = claim(RATIO * r0, understated)
    comparison = judge(false, STATED, RUN)
    assert comparison.outcome is VIOLATED
    confirmation = confirm(false, STATED, RUN, comparison)
    assert not confirmation.stands
    assert str(confirmation.how).startswith("computed again in balls of ")


def test_a_true_violation_is_confirmed_in_balls():
    for factor in (sp.Rational(1, 2), RATIO * (1 - sp.Rational(1, 10**6))):
        true = claim(factor * r0, last)
        confirmation = confirm(true, STATED, RUN, judge(true, STATED, RUN))
        assert confirmation.standing is Standing.CONFIRMED
        assert str(confirmation.how) == "computed again in balls of 144 bits"


def test_balls_around_floats_are_not_called_balls():
    def from_weights(case):
        moved = case.trajectory.weights[case.setup.rounds] - case.weights.hidden
        return Estimate(np.linalg.norm(moved), 1e-9, "rounding bound")

    looks_inside = claim(r0 / 1000, from_weights)
    confirmation = confirm(looks_inside, STATED, RUN, judge(looks_inside, STATED, RUN))
    assert confirmation.standing is Standing.CONFIRMED
    assert str(confirmation.how).startswith(
        "computed again in balls of 144 bits; the sides come from: rounding bound; ball; "
    )


def test_a_hypothesis_that_fails_in_balls_withdraws_the_violation():
    only_in_floats = Hypothesis(
        "floats", "arithmetic is float64", lambda case: 0.0 if case.arithmetic is None else -1.0
    )
    false = claim(r0 / 2, last, (only_in_floats,))
    for limit in ("BALL_BUDGET", None):
        with pytest.MonkeyPatch.context() as patch:
            if limit:
                patch.setattr(module, limit, 0)
            confirmation = confirm(false, STATED, RUN, judge(false, STATED, RUN))
        assert not confirmation.stands
        assert (
            "does not meet floats" in str(confirmation.how)
            if limit
            else str(confirmation.how) == "balls of 576 bits do not decide it"
        )


@pytest.fixture
def too_large_for_balls(monkeypatch):
    monkeypatch.setattr(module, "BALL_BUDGET", 0)


@pytest.mark.usefixtures("too_large_for_balls")
def test_extended_precision_needs_a_wide_margin():
    wide, false = claim(r0 / 2, last), claim(RATIO * r0, understated)
    confirmation = confirm(wide, STATED, RUN, judge(wide, STATED, RUN))
    assert confirmation.standing is Standing.CONFIRMED
    assert str(confirmation.how).startswith("float64 and extended precision differ by ")
    assert not confirm(false, STATED, RUN, judge(false, STATED, RUN)).stands

    # This side violates the claim in both computations, but by less than the difference of the two computations.
    def slightly_off(case):
        shift = 2e-5 if case.arithmetic is None else 1e-5
        return Estimate.exact(last(case).value * (1 + shift))

    thin = claim(RATIO * r0, slightly_off)
    assert judge(thin, STATED, RUN).outcome is VIOLATED
    assert not confirm(thin, STATED, RUN, judge(thin, STATED, RUN)).stands


@pytest.mark.usefixtures("too_large_for_balls")
def test_a_run_too_large_to_repeat_confirms_nothing(monkeypatch):
    monkeypatch.setattr(module, "EXTENDED_BUDGET", 0)
    wide = claim(r0 / 2, last)
    confirmation = confirm(wide, STATED, RUN, judge(wide, STATED, RUN))
    assert not confirmation.stands
    assert "seen in float64 only: 1.5e+03 operations are too many" in str(confirmation.how)


def test_the_run_in_balls_is_a_run_of_its_own():
    exact = RUN.with_arithmetic(module.BALL, 200)
    assert isinstance(exact, FederatedRun)
    assert exact.observed("outputs").error.max() < 1e-15
    assert exact.observed("outputs").method == "ball"
    assert RUN.observed("outputs").method == "two summation orders"
    inside = np.abs(exact.observed("outputs").value - RUN.trajectory.outputs) <= RUN.observed("outputs").error
    assert inside.all()


def test_a_close_comparison_is_redone_in_balls():
    tight = RATIO / (1 + sp.Rational(1, 10**7)) * (1 + sp.Rational(1, 10**15))
    close = claim(tight * r0, lambda case: replace_error(last(case), 1e-12 if case.arithmetic is None else 0))
    comparison = judge(close, STATED, RUN)
    assert comparison.outcome is Outcome.TOUCHES
    better = refined(close, STATED, RUN, comparison)
    assert better.outcome in (HOLDS, VIOLATED)
    assert better.left.error < 1e-15
    far = claim(r0, last)
    comparison = judge(far, STATED, RUN)
    assert refined(far, STATED, RUN, comparison) is comparison


def replace_error(estimate, more):
    return replace(estimate, error=estimate.error + more)


def test_sides_that_are_balls_already_need_no_second_run():
    def ball_side(case):
        return Estimate(2.0, 1e-12, "ball", Rigour.ENCLOSED)

    true = claim(sp.Integer(1), ball_side, constants=lambda case: {})
    case = object()
    confirmation = confirm(true, STATED, case, judge(true, STATED, case))
    assert (confirmation.standing, str(confirmation.how)) == (Standing.CONFIRMED, "ball arithmetic encloses both sides")
    counted = claim(r0, ball_side, constants=lambda case: {r0: Estimate(1.0, 1e-3, "count")})
    confirmation = confirm(counted, STATED, case, judge(counted, STATED, case))
    assert confirmation.standing is Standing.SEEN
    assert (
        str(confirmation.how) == "no second computation exists; the sides come from: ball; ball, inputs known by count"
    )


class Networks(Case):
    """A case whose left side was measured over many networks; a second set of networks gives `others`."""

    def __init__(self, left, others):
        self.left, self.others = left, others

    def fresh(self):
        return Networks(self.others, None)


@pytest.mark.parametrize(
    ("others", "standing"),
    [
        (Estimate(2.0, 1e-12), Standing.CONFIRMED),
        (Estimate(0.5, 1e-12), Standing.FALLEN),
        # With the other networks the claim is undecided, so they do not violate it.
        (Estimate(1.1, 0.5), Standing.FALLEN),
    ],
)
def test_what_was_seen_over_networks_stands_if_other_networks_violate_it(others, standing):
    most_1 = claim(sp.Integer(1), lambda case: case.left, constants=lambda case: {})
    case = Networks(Estimate(2.0, 1e-12), others)
    confirmation = confirm(most_1, STATED, case, judge(most_1, STATED, case))
    assert confirmation.standing is standing
    assert str(confirmation.how) == f"other networks {'agree' if confirmation.stands else 'do not agree'}: {others}"


def test_two_claims_that_fail_on_one_case_are_redone_on_the_same_networks():
    drawn = []

    class Counted(Networks):
        def fresh(self):
            drawn.append(super().fresh())
            return drawn[-1]

    case = Counted(Estimate(2.0, 1e-12), Estimate(2.5, 1e-12))
    for most in (1, sp.Rational(3, 2)):
        failing = claim(sp.sympify(most), lambda case: case.left, constants=lambda case: {})
        assert confirm(failing, STATED, case, judge(failing, STATED, case)).standing is Standing.CONFIRMED
    assert len(drawn) == 1 and case.other_networks is drawn[0]


@pytest.mark.parametrize("rigour", list(Rigour))
def test_trust_goes_by_rigour_and_not_by_words(rigour):
    named = claim(sp.Integer(1), lambda case: Estimate(2.0, 1e-12, "ball", rigour), constants=lambda case: {})
    case = object()
    confirmation = confirm(named, STATED, case, judge(named, STATED, case))
    enclosed = rigour in (Rigour.EXACT, Rigour.ENCLOSED)
    assert confirmation.standing is (Standing.CONFIRMED if enclosed else Standing.SEEN)
    assert confirmation.stands


def test_a_case_is_known_better_until_it_cannot_be():
    finer = list(module_chain(RUN))
    assert [run.bits for run in finer] == [144, 576] and {run.rigour for run in finer} == {Rigour.ENCLOSED}
    assert [run.bits for run in module_chain(RUN.with_arithmetic(module.BALL, 256))] == [576]
    assert RUN.with_arithmetic(module.BALL, 576).sharper() is None


@pytest.mark.usefixtures("too_large_for_balls")
def test_a_run_too_large_for_balls_is_known_better_in_extended_precision_once(monkeypatch):
    (extended,) = module_chain(RUN)
    assert (extended.arithmetic, extended.rigour) == (module.EXTENDED, Rigour.MEASURED)
    monkeypatch.setattr(module, "EXTENDED_BUDGET", 0)
    with pytest.raises(TooCostly, match="operations are too many to repeat in extended precision; fewer neurons"):
        RUN.sharper()


def module_chain(case):
    """Yields the case's estimates, each more precise than the one before."""
    while (case := case.sharper()) is not None:
        yield case


def test_what_is_no_case_is_one_that_describes_itself_or_is_refused():
    class Plain:
        def describe(self):
            return {"a": 1}

    class Meant(Plain):
        n_runs = 56

    bare = case_of(Plain())
    assert (bare.n_runs, bare.ran_on, bare.sharper(), bare.fresh(), bare.describe()) == (1, None, None, None, {"a": 1})
    assert isinstance(bare.plain(), Plain)
    with pytest.raises(ValueError, match="a Plain has no network to draw anew"):
        bare.redrawn(0)
    with pytest.raises(TypeError, match=r"Meant has n_runs; derive it from bounds\.case\.Case"):
        case_of(Meant())
    with pytest.raises(NotImplementedError, match="Case describes nothing; write describe"):
        Case().describe()


def test_a_case_says_the_words_of_its_class_and_prepares_what_takes_long():
    class Ladder(Case):
        problem, setup, steps = PROBLEM, Setup(local_steps=3), 7
        describe = described("problem", "N", "K", steps="steps", T="setup.rounds")

        @prepared
        def runs(self):
            return "made"

    class Other(Ladder):
        pass

    case = Other()
    assert list(case.describe()) == ["problem", "N", "K", "steps", "T"]
    assert case.describe()["K"] == 3 and case.describe()["N"] == 2
    assert "runs" not in vars(case)
    case.prepare()
    assert vars(case)["runs"] == "made"
