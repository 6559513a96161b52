"""The parts of lemma C.7 against plain recomputation: J, e(t), B_1 + B_2 + B_3, and the limit of B_3."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds.cases.kernel_case import KernelCase, kernel_cases
from bounds.fl_ntk.cases.weight_path import all_jacobians, farthest, jacobian, jacobian_changes, weight_path
from bounds.fl_ntk.families.few_points import FEW_POINTS, GRADUAL, at_most_half, quick
from bounds.fl_ntk.movement_parts import changed_gradient_part, norm, remaining_norm_at_limit, remaining_part
from bounds.fl_ntk.terms.limit_kernel import (
    error_norms,
    limit_kernel,
    printed_map,
    printed_powers,
    remainder_ratio,
    remainders,
)
from ntkfl.problem import Problem, Setup

SEEDS = st.integers(0, 5)


def _case(seed):
    return FEW_POINTS.case(seed)


def _linear(case):
    """I - rho H_inf in floats."""
    return np.eye(case.problem.n) - float(case.rho.value) * limit_kernel(case).matrix.value


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_gradients_are_those_of_the_outputs(seed):
    """f is linear in each weight where no pattern changes: J^T vec(U) = f."""
    case = _case(seed)
    path = weight_path(case)
    outputs = jacobian(path, path.rounds[0].active[0]).T @ path.rounds[0].start.ravel()
    np.testing.assert_allclose(outputs.astype(float), case.observed("outputs").value[0], rtol=0, atol=1e-13)


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_pattern_counts_give_the_norm_of_the_change_of_the_gradients(seed):
    case = _case(seed)
    path = weight_path(case)
    start = jacobian(path, path.rounds[0].active[0])
    plain = [np.linalg.norm((j - start).astype(float)) for round_ in path.rounds for j in all_jacobians(path, round_)]
    np.testing.assert_allclose(jacobian_changes(case).value, plain, atol=1e-12)
    assert max(plain) > 0


@settings(deadline=None, max_examples=1)
@given(SEEDS)
def test_the_middle_round_in_floats_is_the_one_in_balls(seed):
    case = _case(seed)
    steps, middle = case.setup.local_steps, case.snapshot_round
    floats = jacobian_changes(replace(case, arithmetic=None))
    inside = jacobian_changes(case)[middle * steps : (middle + 1) * steps]
    assert (np.abs(floats.value - inside.value) <= floats.error + inside.error + 1e-15).all()


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_changed_patterns_are_those_of_neurons_that_began_near_their_kinks(seed):
    """The deterministic step of the repaired claim: |J - J(0)|_F^2 <= sum_i #{r: |w_r.x_i| <= R}/m."""
    case = _case(seed)
    near = np.abs(case.problem.x @ case.weights.hidden.T) <= float(farthest(case).hi) * (1 + 1e-12)
    assert (jacobian_changes(case).value ** 2).max() <= near.sum() / case.setup.width + 1e-12


def test_nothing_moves_farther_than_the_radius():
    case = _case(2)
    path, u = weight_path(case), case.weights.hidden
    moves = [
        np.linalg.norm((w - u).astype(float), axis=-1).max()
        for round_ in path.rounds
        for w in (round_.end, round_.local)
    ]
    assert max(moves) == pytest.approx(float(farthest(case).value), rel=1e-12)


@settings(deadline=None, max_examples=2)
@given(SEEDS, st.floats(-3, 3))
def test_powers_of_the_printed_map(seed, factor):
    drawn = _case(seed)
    labels = factor * np.arange(1.0, drawn.problem.n + 1)
    first = replace(drawn, problem=replace(drawn.problem, y=labels))
    for scale in (1.0, 0.5):  # powers are cached for the data; another step needs other powers
        case = replace(first, setup=replace(first.setup, eta_local=scale * first.setup.eta_local))
        powers = printed_powers(case)
        plain = [np.linalg.matrix_power(_linear(case), int(t)) @ labels for t in case.rounds]
        np.testing.assert_allclose(powers.value, plain, rtol=0, atol=1e-12)
        assert powers.error.max() < 1e-11


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_the_error_term_is_the_sum_of_the_remainders(seed):
    """e(t) = A^t y(0) + sum_{s<t} A^s xi(t-1-s), A = I - rho H_inf."""
    case = _case(seed)
    linear, xi = _linear(case), remainders(case, printed_map(case)).value
    e = case.observed("outputs").value[0]
    expected = [np.linalg.norm(e)]
    for term in xi:
        e = linear @ e + term
        expected.append(np.linalg.norm(e))
    np.testing.assert_allclose(error_norms(case).value, expected, rtol=0, atol=1e-12)
    ratios = np.linalg.norm(xi, axis=1) / case.observed("residual_norm").value[:-1]
    assert float(remainder_ratio(case).value) == pytest.approx(ratios.max(), rel=1e-9)


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_the_three_parts_add_up_to_the_movement(seed):
    case = _case(seed)
    path = weight_path(case)
    moved = (path.rounds[-1].end - path.rounds[0].start).astype(float)
    left = sum(np.linalg.matrix_power(_linear(case), t) @ case.problem.y for t in range(case.setup.rounds))
    start = jacobian(path, path.rounds[0].active[0]).astype(float)
    first = float(case.rho.value) * (start @ left).reshape(moved.shape)
    balls = remaining_part(case)
    second, third = changed_gradient_part(case).astype(float), balls.astype(float)
    np.testing.assert_allclose(first + second + third, moved, rtol=0, atol=1e-12)
    assert float(norm(balls, case.bits).value) == pytest.approx(np.linalg.norm(third), rel=1e-12)
    assert np.linalg.norm(second) > 0


@settings(deadline=None, max_examples=15)
@given(kernel_cases(), st.integers(1, 6))
def test_with_one_local_step_nothing_remains_at_the_limit(case, rounds):
    case = replace(case, setup=replace(case.setup, local_steps=1))
    remaining = remaining_norm_at_limit(case, rounds)
    assert float(remaining.hi) < 1e-30


def test_with_more_local_steps_something_remains_for_a_while():
    """B_3 vanishes for large T, since both maps then forget y: the printed bound fails at intermediate T only."""
    x = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    case = KernelCase(Problem(x, np.array([1.0, 0.5])), Setup(eta_local=0.4, local_steps=3))
    one, late = (float(remaining_norm_at_limit(case, rounds).value) for rounds in (1, 60))
    assert one > 0.01
    assert late < 1e-6


@pytest.mark.parametrize("family", [quick(64), at_most_half(64), GRADUAL], ids=lambda f: f.name)
def test_one_point_runs_keep_the_product_of_steps(family):
    """Runs of odd seeds take two local steps of half the size, and every seed draws another network."""
    runs = [family.case(seed) for seed in range(2)]
    assert [run.setup.local_steps for run in runs] == [1, 2]
    assert runs[0].rho.value == runs[1].rho.value
    assert not np.array_equal(runs[0].weights.hidden, runs[1].weights.hidden)
    assert float(limit_kernel(runs[0]).smallest.value) == pytest.approx(0.5)
