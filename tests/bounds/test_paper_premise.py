"""Tests of Theorem B.3 where its premise is met and where it is broken.

The tests concern the terms C_1 to C_4 of a round, the number of rounds to a given accuracy, and huge labels.
"""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

from bounds import Form, Options, Outcome, get
from bounds.fl_ntk.clients_and_rounds import ClientLadder
from bounds.fl_ntk.contraction import PROVED_EXPONENT, opposed_run, tiny_network
from bounds.fl_ntk.families.paper_steps import radius, step_run
from bounds.fl_ntk.premises import STATED_OUTPUT
from bounds.fl_ntk.round_terms import UNIT
from bounds.fl_ntk.t4_1 import any_ladder, more_clients, more_samples, towards_zero
from bounds.fl_ntk.theorem_requirements import requirements
from bounds.symbols import delta, m, n
from ntkfl import data
from ntkfl.problem import Problem, Setup
from verification.compare import judge


@given(seed=st.integers(0, 2**16), of_the_lemma=st.booleans())
@settings(deadline=None, max_examples=3)
def test_c_1_to_c_4_are_the_whole_change_of_the_squared_residual(seed, of_the_lemma):
    case = step_run(of_the_lemma, 512, seed)
    parts = get("fl-ntk/L6.2").left(Form.STATED, case)
    squares, t = case.observed("residual_norm").value ** 2, case.snapshot_round
    total, error = sum(float(p.value) for p in parts), sum(float(p.error) for p in parts)
    assert abs(total - (squares[t + 1] - squares[t])) <= error + 1e-13
    assert error < 1e-3 * abs(total)


def test_some_runs_have_neurons_within_the_radius():
    cases = [step_run(False, 2**14, seed) for seed in range(4)]
    counts = [(np.abs(c.problem.x @ c.weights.hidden.T) < radius(c)).sum() for c in cases]
    assert max(counts) > 0
    parts = get("fl-ntk/L6.2").left(Form.STATED, cases[int(np.argmax(counts))])
    assert abs(float(parts[1].value)) > float(parts[1].error)


def test_the_repaired_constants_of_the_lemma_add_up_to_what_the_proof_gives():
    total = sum(get("fl-ntk/L6.2").forms[Form.NEW].parts)
    assert sp.simplify(total / UNIT) == -PROVED_EXPONENT


def test_no_constant_mends_rounds_that_grow_with_the_samples_of_a_client():
    statement, case = get("fl-ntk/T4.1"), more_samples()
    for ladder in (case, case.fresh()):
        assert judge(statement, Form.STATED, ladder).outcome is Outcome.VIOLATED
        assert judge(statement, Form.REPAIRED, ladder).outcome is Outcome.HOLDS
        # The expected number of rounds follows from H_inf = I/2.
        for size, target in zip(ladder.sizes, ladder.targets, strict=True):
            s = target.run.setup
            shrunk = 2 * s.local_steps * np.log1p(-s.eta_local / 2)
            assert abs(target.rounds.value + np.log(size / (2 * target.eps)) / shrunk) <= 1


@pytest.mark.parametrize(("build", "place"), [(towards_zero, 0), (more_clients, 1)])
def test_rounds_of_the_kernel_regime_are_those_of_its_map(build, place):
    target = build(data.sphere(8, 8, seed=1, labels="linear"), 1).targets[place]
    problem, round_map = target.run.problem, target.run.regime.round_map
    residual, rounds = problem.y, 0
    while residual @ residual > 2 * problem.n_clients * target.eps:
        residual, rounds = round_map @ residual, rounds + 1
    assert abs(rounds - float(target.rounds.value)) <= float(target.rounds.error)


def test_the_users_data_make_ladders_too():
    statement = get("fl-ntk/T4.1")
    families = statement.families_of(Form.REPAIRED, Options(data="digits", n=8))
    assert [f.name.split(", ")[1] for f in families] == ["towards zero", "more clients"]
    for family in families:
        assert judge(statement, Form.REPAIRED, family.case(0)).outcome is Outcome.HOLDS
    assert len(statement.families_of(Form.REPAIRED, Options(data="digits", n=6))) == 1


@given(case=any_ladder())
@settings(deadline=None, max_examples=5)
def test_the_repaired_rounds_are_enough_on_any_ladder(case):
    statement = get("fl-ntk/T4.1")
    if all(h.met(case) for h in statement.required(Form.REPAIRED)):
        (left,), (right,) = (
            statement.left(Form.REPAIRED, case),
            statement.forms[Form.REPAIRED].evaluate(statement.constants(case)),
        )
        assert (left.hi <= right.lo + 2).all()


@given(seed=st.integers(0, 2**16), angle=st.floats(2.3, 2.7))
@settings(deadline=None, max_examples=4)
def test_huge_labels_break_the_first_round_and_small_ones_do_not(seed, angle):
    statement = get("fl-ntk/B.3-unbounded-labels")
    huge, small = opposed_run(seed, None, angle=angle), opposed_run(seed, 1.0, angle=angle)
    assert judge(statement, Form.STATED, huge).outcome is Outcome.VIOLATED
    assert judge(statement, Form.REPAIRED, small).outcome is Outcome.HOLDS
    assert [h.name for h in statement.required(Form.REPAIRED) if not h.met(huge)] == ["bounded-labels"]


def test_the_counterexample_meets_the_premise_but_for_its_labels():
    for seed in range(3):
        case = opposed_run(seed, None)
        lowest, highest = (float(e.value) for e in (case.smallest_eigenvalue, case.largest_eigenvalue))
        assert case.setup.eta_local * 1000 * highest * 4 < lowest**2
        assert case.setup.width > 2**4 * np.log(2 / 0.1) / lowest**4


def test_large_steps_are_outside_the_premise_in_both_forms():
    statement = get("fl-ntk/B.3-unbounded-labels")
    for chosen in (Options(rounds=2, eta_local=3.0), Options(rounds=2, eta_local=1e-5, eta_global=2000.0)):
        for form in statement.forms:
            (family,) = statement.families_of(form, chosen)
            unmet = [h.name for h in statement.required(form) if not h.met(family.case(0))]
            assert unmet == ["steps-of-the-proof"]


def test_what_the_user_chose_is_not_mixed_with_cases_that_ignore_it():
    statement = get("fl-ntk/B.3-unbounded-labels")
    assert len(statement.families_of(Form.REPAIRED, Options(trials=3, seed=4))) == 2
    (family,) = statement.families_of(Form.REPAIRED, Options(data="sphere", n=2, width=3000, rounds=2, local_steps=3))
    case = family.case(1)
    assert (case.problem.n, case.setup.width, case.setup.rounds, case.setup.local_steps) == (2, 3000, 2, 3)
    assert {h.name for h in statement.required(Form.REPAIRED) if not h.met(case)} <= {"wide-enough"}


def test_networks_in_other_units_show_the_same_round():
    """Labels 1 at a tiny sigma act like huge labels at sigma = 1, because outputs scale with the weights."""
    huge, tiny = opposed_run(0, None), tiny_network()
    ratios = [np.divide(*case.observed("residual_norm").value[1::-1]) for case in (huge, tiny)]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


def test_rounds_do_not_depend_on_how_a_ladder_is_read():
    ladder = ClientLadder(8, Setup(eta_local=0.05, local_steps=1), (3,))
    one, many = ladder.rounds_to(1e-3, lambda clients: 1.0), ladder.rounds_to(1e-3, lambda clients: clients)
    assert ladder.n_runs == one.size == 4
    # A round multiplies the residual by 1 - (eta_g/N) H P. With one local step P is eta_l times the identity, however
    # the samples are dealt out. So at eta_g = N the rounds do not depend on N.
    assert np.ptp(many) == 0
    assert (np.diff(one[:, 0]) > 0).all()
    assert ladder.fresh().seeds == (10_003,)


def test_requirements_on_orthonormal_points():
    """On orthonormal points H_inf = I/2, so every requirement has a known value."""
    required = requirements(Problem(np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]), np.array([0, 0, 1, 1])))
    assert required.smallest_eigenvalue == pytest.approx(0.5)
    assert required.condition_number == pytest.approx(1)
    assert required.width == pytest.approx(6.4e7 * 64 * 6 * 16)
    assert required.local_time == pytest.approx(0.5 / 16000)
    assert required.stable_step == pytest.approx(4)
    assert required.rounds == pytest.approx(2 * 2 / (0.5 * required.local_time) * np.log(1e6))
    output = float(STATED_OUTPUT.subs({m: required.width_by_lemma, n: 4, delta: sp.Rational(1, 10)}))
    assert required.width_by_lemma == pytest.approx(6.4e7 * 64 * 4 * (1 + output) ** 2 * 16, rel=1e-6)


def test_a_larger_server_step_leaves_the_rounds_and_shrinks_the_local_step():
    problem = data.sphere(6, 6, seed=1)
    one, four = requirements(problem), requirements(problem, server_step=4.0)
    assert four.local_time == pytest.approx(one.local_time / 4)
    assert four.rounds == pytest.approx(one.rounds)


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (Problem(2 * np.eye(2), np.ones(2)), {}, r"unit norm; they are off by up to 1"),
        (Problem(np.eye(2), np.eye(2)), {}, r"y has shape \(2, 2\)"),
        (Problem(np.ones((2, 1)), np.ones(2)), {}, r"lambda_min\(H_inf\) is .*; the theorem needs it positive"),
        (Problem(np.eye(2), np.ones(2)), {"share": 1.0}, r"share is 1; it must lie between 0 and 1"),
        (Problem(np.eye(2), np.ones(2)), {"failure": 0.0}, r"failure is 0; it must lie between 0 and 1"),
        (
            Problem(np.eye(2), np.ones(2)),
            {"server_step": -1.0},
            r"server_step is -1; it must be a positive finite number",
        ),
    ],
)
def test_requirements_refuse_what_the_theorem_does_not_cover(problem, options, message):
    with pytest.raises(ValueError, match=message):
        requirements(problem, **options)
