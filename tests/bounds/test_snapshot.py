"""Tests of a snapshot of one round and of the quantities in lemma C.7, which are compared with plain loops.

The observed values must enclose the same run in ball arithmetic, whose intervals provably contain the exact values.
H_inf is the Gram matrix at infinite width, J the gradients of the outputs, rho = eta_g eta_l K / N, and R the largest
movement of a neuron.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Outcome, get
from bounds.cases.kernel_case import KernelCase, kernel_cases
from bounds.cases.snapshot import Snapshot
from bounds.federated_run import FEW_NEURONS, FederatedRun, federated_run
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
from ntkfl import data
from ntkfl.algorithm1.reference import BALL, Undecided
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from verification.compare import judge

SETUP = Setup(width=60, eta_local=0.5, eta_global=1.2, local_steps=3, rounds=6, seed=4)


def run(scale=1.0, eta_local=0.5, eta_global=1.2, seed=4):
    rng = np.random.default_rng(seed)
    owner = np.array([0, 1, 2, 0, 1, 0])
    problem = Problem(rng.standard_normal((6, 4)), rng.uniform(-1, 1, 6), owner).unit()
    problem = Problem(scale * problem.x, problem.y, owner)
    setup = Setup(width=60, eta_local=eta_local, eta_global=eta_global, local_steps=3, rounds=6, seed=seed)
    return federated_run(problem, setup)


RUN = run()
INSIDE = Snapshot(RUN)


def test_weights_and_residuals_are_those_of_the_recorded_round():
    t, trajectory = RUN.snapshot_round, RUN.trajectory
    assert t == 3
    weights, residual = INSIDE.local
    assert weights.shape == (4, 3, 60, 4)
    assert np.array_equal(weights[0], np.broadcast_to(INSIDE.hidden, (3, 60, 4)))
    assert np.abs(residual - (RUN.problem.y - trajectory.local_outputs[t, :3])).max() < 1e-13
    outputs = np.maximum(RUN.problem.x @ INSIDE.next_hidden.T, 0) @ RUN.weights.signs / np.sqrt(60)
    assert np.abs(outputs - trajectory.outputs[t + 1]).max() < 1e-13
    assert np.array_equal(INSIDE.stacked_residual.value, residual.ravel())


def direct_gram(k, neurons=None):
    """Returns H(t,k) from its definition, neuron by neuron."""
    x, owner, m = RUN.problem.x, RUN.problem.owner, RUN.setup.width
    u, local = INSIDE.hidden, INSIDE.local[0][k]
    h = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            for r in range(m):
                if (neurons is None or neurons[i, r]) and u[r] @ x[i] >= 0 and local[owner[j], r] @ x[j] >= 0:
                    h[i, j] += x[i] @ x[j] / m
    return h


def test_grams_against_their_definition():
    for neurons in (None, INSIDE.safe, ~INSIDE.safe):
        grams = INSIDE.grams(neurons)
        expected = np.hstack([direct_gram(k, neurons) for k in range(3)])
        assert (np.abs(grams.value - expected) <= grams.error).all()
        assert grams.error.max() < 1e-13
    first = INSIDE.grams().value[:, :6]
    assert np.array_equal(first, first.T)  # At k = 0 all clients have the same weights.
    assert not np.array_equal(INSIDE.grams().value[:, 12:], INSIDE.grams().value[:, 12:].T)


def test_the_parts_of_a_gram_matrix_and_of_the_change_add_up():
    whole, safe, unsafe = (INSIDE.grams(neurons).value for neurons in (None, INSIDE.safe, ~INSIDE.safe))
    assert np.abs(whole - safe - unsafe).max() < 1e-15
    v_1, v_2, change = (INSIDE.change(neurons) for neurons in (INSIDE.safe, ~INSIDE.safe, None))
    assert np.abs(v_1.value + v_2.value - change.value).max() < 1e-15
    step = RUN.trajectory.outputs[4] - RUN.trajectory.outputs[3]
    assert np.abs(change.value - step).max() < 1e-13
    assert (np.abs(change.value - step) <= change.error + RUN.observed("outputs").error[4] * 2).all()
    assert np.linalg.norm(v_2.value) > 1e-4  # Neurons that may change their pattern do contribute.


def test_neurons_of_q_keep_their_pattern_and_the_radius_covers_the_movement():
    x, start = RUN.problem.x, RUN.weights.hidden
    for u in (INSIDE.hidden, INSIDE.next_hidden):
        assert np.linalg.norm(u - start, axis=1).max() <= INSIDE.radius
        same = (x @ u.T >= 0) == (x @ start.T >= 0)
        assert same[INSIDE.safe].all()
    assert 0 < INSIDE.safe.mean() < 1
    assert INSIDE.radius >= RUN.trajectory.movement[[3, 4]].max()


def test_within_a_large_radius_no_neuron_is_safe():
    inside = Snapshot(RUN)
    inside.__dict__["radius"] = 1e6  # This replaces the cached radius.
    assert not inside.safe.any()
    assert not inside.change(inside.safe).value.any()
    assert np.array_equal(inside.grams(~inside.safe).value, inside.grams().value)


def test_mean_slopes_are_patterns_where_nothing_flips_and_lie_between():
    before = RUN.problem.x @ INSIDE.hidden.T >= 0
    after = RUN.problem.x @ INSIDE.next_hidden.T >= 0
    assert (before != after).any()
    slopes, patterns = INSIDE.mean_slope_grams, INSIDE.grams()
    calm = (before == after).all(axis=1)
    assert np.abs((slopes.value - patterns.value)[calm]).max(initial=0) < 1e-14
    moved = np.abs(slopes.value - patterns.value)
    flips = (before != after).sum(axis=1)[:, None] / RUN.setup.width
    inner = np.tile(np.abs(RUN.problem.x @ RUN.problem.x.T), 3)
    assert (moved <= flips * inner + 1e-14).all()
    assert moved.max() > 1e-4


@pytest.mark.parametrize("eta_global", [1.2, 100.0, 1e6])
def test_errors_cover_the_same_round_in_extended_precision(eta_global):
    """The stated error covers the rounding of floats.

    For the comparison, u(t+1) is recomputed in more digits from the same u(t).
    """
    case = run(eta_local=0.5 / eta_global, eta_global=eta_global)
    inside, problem, setup = Snapshot(case), case.problem, case.setup
    x, y, a = (np.asarray(v, np.longdouble) for v in (problem.x, problem.y, case.weights.signs))
    root, u = np.sqrt(np.longdouble(setup.width)), np.asarray(inside.hidden, np.longdouble)
    total, residuals = 0 * u, np.empty((3, 6), np.longdouble)
    for members in problem.members:
        w = u
        for k in range(3):
            z = x[members] @ w.T
            residuals[k, members] = y[members] - np.maximum(z, 0) @ a / root
            pull = (residuals[k, members][:, None] * (z >= 0)) * a
            w = w + np.longdouble(setup.eta_local) / root * (pull.T @ x[members])
        total = total + w - u
    after = u + np.longdouble(eta_global) * total / 3
    change = (np.maximum(x @ after.T, 0) - np.maximum(x @ u.T, 0)) @ a / root
    assert (np.abs(change - inside.change().value) <= inside.change().error).all()
    assert (np.abs(residuals.ravel() - inside.stacked_residual.value) <= inside.stacked_residual.error).all()
    assert inside.change().error.max() < 1e-12 * max(10, eta_global)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**20),
    scale=st.sampled_from([1e-3, 1.0, 50.0]),
    eta_global=st.sampled_from([0.1, 1.0, 300.0]),
    identity=st.sampled_from(["fl-ntk/mean-slope", "fl-ntk/Eq3-4"]),
)
def test_the_identities_are_never_violated_whatever_the_units(seed, scale, eta_global, identity):
    case = run(scale, 0.1 / scale**2 / max(1, eta_global), eta_global, seed)
    statement = get(identity)
    outcome = judge(statement, statement.mutated_form, case).outcome
    assert outcome is not Outcome.VIOLATED
    # v_1 is the change of the outputs by certified neurons, whose activation no movement within R changes. With another
    # `scale` or `eta_global`, v_1 may consist of rounding errors only.
    if scale == eta_global == 1:
        assert outcome is Outcome.HOLDS


def test_the_network_is_the_one_of_the_seed():
    assert np.array_equal(RUN.weights.hidden, draw(60, 4, 4).hidden)


SEEDS = st.integers(0, 5)


def _case(seed):
    return FEW_POINTS.case(seed)


def _linear(case):
    """Returns I - rho H_inf in floats."""
    return np.eye(case.problem.n) - float(case.rho.value) * limit_kernel(case).matrix.value


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_gradients_are_those_of_the_outputs(seed):
    """The gradients reproduce the outputs, J^T vec(U) = f.

    This holds because f is linear in each weight where no pattern changes.
    """
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
    """The deterministic step of the repaired claim holds: |J - J(0)|_F^2 <= sum_i #{r: |w_r.x_i| <= R}/m."""
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
    for scale in (1.0, 0.5):  # Powers are cached for the data, and another step size needs other powers.
        case = replace(first, setup=replace(first.setup, eta_local=scale * first.setup.eta_local))
        powers = printed_powers(case)
        plain = [np.linalg.matrix_power(_linear(case), int(t)) @ labels for t in case.rounds]
        np.testing.assert_allclose(powers.value, plain, rtol=0, atol=1e-12)
        assert powers.error.max() < 1e-11


@settings(deadline=None, max_examples=2)
@given(SEEDS)
def test_the_error_term_is_the_sum_of_the_remainders(seed):
    """The error term is e(t) = A^t y(0) + sum_{s<t} A^s xi(t-1-s), where A = I - rho H_inf."""
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
    """The printed bound on B_3, the third part of the weights' movement, fails at intermediate numbers of rounds T
    only.

    For large T, B_3 vanishes. The reason is that the labels y enter through two products: y times the T-th power of a
    round's map, and y times (I - rho H)^T. For large T both products are almost 0.
    """
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


OBSERVED = ("outputs", "residual_norm", "movement")


@settings(deadline=None, max_examples=30)
@given(width=st.integers(1, FEW_NEURONS + 3), seed=st.integers(0, 2**16), rounds=st.integers(1, 4))
def test_what_is_observed_encloses_the_ball_run(width, seed, rounds):
    problem = data.sphere(4, 3, seed=seed, clients=2)
    setup = Setup(width=width, eta_local=0.1, local_steps=2, rounds=rounds, seed=seed)
    run = FederatedRun(problem, setup, draw(width, problem.d, seed))
    try:
        sure = {name: run.with_arithmetic(BALL).observed(name) for name in OBSERVED}
    except Undecided:
        return
    for name in OBSERVED:
        observed = run.observed(name)
        assert (np.abs(observed.value - sure[name].value) <= observed.error + sure[name].error).all(), name
        assert observed.error.max() <= 1e-11 * (1 + np.abs(observed.value).max()), "it says more than nothing"


@pytest.mark.parametrize(("width", "method"), [(FEW_NEURONS - 1, "extended"), (FEW_NEURONS, "two summation orders")])
def test_the_method_says_what_the_error_comes_from(width, method):
    problem = data.sphere(4, 3, seed=1, clients=2)
    run = FederatedRun(problem, Setup(width=width, rounds=2), draw(width, problem.d, 1))
    assert method in run.observed("outputs").method
