"""One round from inside: H(t,k), Q_i, v_1 and v_2 against loops, and errors that cover a computation in more digits."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Outcome, get
from bounds.cases.snapshot import Snapshot
from bounds.federated_run import federated_run
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
    """H(t,k) by its definition, neuron by neuron."""
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
    assert np.array_equal(first, first.T)  # at k = 0 all clients have the same weights
    assert not np.array_equal(INSIDE.grams().value[:, 12:], INSIDE.grams().value[:, 12:].T)


def test_the_parts_of_a_gram_matrix_and_of_the_change_add_up():
    whole, safe, unsafe = (INSIDE.grams(neurons).value for neurons in (None, INSIDE.safe, ~INSIDE.safe))
    assert np.abs(whole - safe - unsafe).max() < 1e-15
    v_1, v_2, change = (INSIDE.change(neurons) for neurons in (INSIDE.safe, ~INSIDE.safe, None))
    assert np.abs(v_1.value + v_2.value - change.value).max() < 1e-15
    step = RUN.trajectory.outputs[4] - RUN.trajectory.outputs[3]
    assert np.abs(change.value - step).max() < 1e-13
    assert (np.abs(change.value - step) <= change.error + RUN.observed("outputs").error[4] * 2).all()
    assert np.linalg.norm(v_2.value) > 1e-4  # unsafe neurons do contribute


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
    inside.__dict__["radius"] = 1e6  # replaces the cached radius
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
    """u(t+1) is recomputed in more digits from the same u(t): the error must cover the floats' loss."""
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
    if scale == eta_global == 1:  # with other scales v_1 may be nothing but rounding
        assert outcome is Outcome.HOLDS


def test_the_network_is_the_one_of_the_seed():
    assert np.array_equal(RUN.weights.hidden, draw(60, 4, 4).hidden)
