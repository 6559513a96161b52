"""Tests of the statements on model averaging.

The cases are compared with independent computations. The constants of the bounds and the refusals of bad input are
tested too.
"""

from itertools import pairwise, product

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings, strategies as st

from bounds import Form, Options, Outcome, get
from bounds.averaging.i3 import SCALE_LADDERS, SCALES, ScaleLadder, relu
from bounds.averaging.variance import (
    KERNEL_LADDERS,
    NOISY_QUADRATICS,
    ONCE,
    SQUARED,
    KernelLadder,
    NoisyQuadratic,
    SharedStarts,
    blocks,
    shared_start_families,
)
from bounds.cases.ensembles import MOST, Ensemble, ball_array, ensemble_families, estimated, inputs, squared
from ntkfl.connectivity.network import TwoLayer, combination
from ntkfl.problem import Problem
from verification.compare import judge
from verification.engine import verify

(UNEQUAL,) = ensemble_families(Options())
(STARTS,) = shared_start_families(Options())
SEEDS = st.integers(0, 10**6)
few = settings(deadline=None, max_examples=8)


def as_floats(balls):
    estimate = estimated(np.asarray(balls, dtype=object))
    assert (estimate.error <= 1e-13 * (1 + np.abs(estimate.value))).all()
    return estimate.value


# --- ensembles -------------------------------------------------------------------------------------------------------


@few
@given(SEEDS)
def test_outputs_are_those_of_the_networks_and_of_their_average(seed):
    case = UNEQUAL.case(seed)
    shares, x = case.sizes / case.problem.n, case.problem.x
    for m in range(case.draws):
        nets = [TwoLayer(u, v) for u, v in zip(case.hidden[m], case.readout[m], strict=True)]
        outputs = np.array([net.outputs(x) for net in nets])
        assert np.allclose(as_floats(case.outputs[m]), outputs, atol=1e-12)
        assert np.allclose(as_floats(case.wens_outputs[m]), shares @ outputs, atol=1e-12)
        assert np.allclose(as_floats(case.fma_outputs[m]), combination(nets, shares).outputs(x), atol=1e-12)


@few
@given(SEEDS)
def test_moments_are_those_of_numpy_and_vanish_between_clients_drawn_apart(seed):
    case = UNEQUAL.case(seed)
    outputs = as_floats(case.outputs)
    for i in range(case.problem.n):
        expected = np.cov(outputs[:, :, i].T, bias=True)
        assert np.allclose(as_floats(case.covariances[:, :, i]), expected, atol=1e-12)
    assert np.abs(as_floats(case.independent_covariances)).max() < 1e-30
    off = case.problem.y - as_floats(case.fma_outputs)
    assert np.isclose(case.mean_loss(case.fma_outputs).value, (off**2).mean(), rtol=1e-12)
    assert np.isclose(case.mean_variance(case.wens_outputs).value, as_floats(case.wens_outputs).var(axis=0).mean())


@few
@given(SEEDS, st.floats(0, 1))
def test_distances_to_the_average_and_to_the_kinks_are_bounds(seed, along):
    case = UNEQUAL.case(seed)
    shares = case.sizes / case.problem.n
    hidden = np.einsum("k,mkhl->mhl", shares, case.hidden)[:, None]
    readout = np.einsum("k,mkh->mh", shares, case.readout)[:, None]
    squares = ((case.hidden - hidden) ** 2).sum(axis=(2, 3)) + ((case.readout - readout) ** 2).sum(axis=2)
    assert np.sqrt(squares.max()) <= case.largest_distance <= 1.001 * np.sqrt(squares.max())
    (close,) = ensemble_families(Options(), amplitude=1e-3)
    near = close.case(seed)
    if near.kink_distance > 0:
        mean = np.einsum("k,mkhl->mhl", near.sizes / near.problem.n, near.hidden)[:, None]
        between = near.hidden + along * (mean - near.hidden)
        patterns = np.einsum("mkhl,nl->mkhn", between, near.problem.x) > 0
        assert (patterns == patterns[:, :1]).all()


def test_sizes_of_clients_are_equal_where_they_are_asked_to_be_and_the_users_data_are_cut():
    (equal,) = ensemble_families(Options(), equal=True)
    assert all(np.ptp(equal.case(seed).sizes) == 0 for seed in range(5))
    assert any(np.ptp(UNEQUAL.case(seed).sizes) > 0 for seed in range(5))
    for same in (False, True):
        problem = inputs(Options(data="digits", n=90, clients=7), 0, equal=same)
        assert problem.n <= MOST and problem.n_clients == 7
        assert np.ptp(np.bincount(problem.owner)) == 0 or not same


def test_statements_run_on_the_users_data():
    options = Options(data="digits", n=6, clients=2, trials=5)
    for name in ("I4", "I8", "I10"):
        for verdict in verify(one := get(f"averaging/{name}"), options, one.mutated_form):
            assert verdict.as_recorded, (name, verdict.notes)
            assert "digits" in verdict.worst.case["cases"]


ONE = Problem(np.ones((2, 1)), np.ones(2), np.array([0, 1]))


@pytest.mark.parametrize(
    ("hidden", "readout", "message"),
    [
        ((3, 1, 4, 1), (3, 1, 4), r"the hidden weights have shape \(3, 1, 4, 1\); 2 clients on 1 features need \(M, 2"),
        ((3, 2, 4), (3, 2), r"need \(M, 2, h, 1\)"),
        ((3, 2, 4, 1), (3, 2, 5), r"the readouts have shape \(3, 2, 5\); the hidden weights ask for \(3, 2, 4\)"),
    ],
)
def test_networks_that_do_not_fit_are_refused(hidden, readout, message):
    with pytest.raises(ValueError, match=message):
        Ensemble(ONE, np.ones(hidden), np.ones(readout))


def test_several_labels_are_refused():
    problem = Problem(np.ones((2, 1)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"y has shape \(2, 3\); an ensemble of scalar networks needs one label each"):
        Ensemble(problem, np.ones((1, 1, 1, 1)), np.ones((1, 1, 1)))


# --- identically distributed clients ---------------------------------------------------------------------------------


@few
@given(SEEDS)
def test_the_variance_of_an_average_is_that_of_all_draws(seed):
    case = STARTS.case(seed)
    f = as_floats(case.outputs)
    means = [
        np.mean([f[i, j] for j in chosen], axis=0)
        for i in range(len(f))
        for chosen in product(range(f.shape[1]), repeat=case.clients)
    ]
    assert np.isclose(case.averaged_variance.value, np.var(means, axis=0).mean(), rtol=1e-11)
    assert np.isclose(case.single_variance.value, f.reshape(-1, case.problem.n).var(axis=0).mean(), rtol=1e-11)
    assert case.averaged_variance.hi <= case.single_variance.hi


def test_shared_starts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"the weights have shapes .* they must be \(I, J, h, 1\) and \(I, J, h\)"):
        SharedStarts(ONE, np.ones((1, 2, 3, 1)), np.ones((1, 2, 4)), clients=2)
    with pytest.raises(ValueError, match="there are 0 clients; at least 1 is needed"):
        SharedStarts(ONE, np.ones((1, 2, 3, 1)), np.ones((1, 2, 3)), clients=0)


# --- kernels ---------------------------------------------------------------------------------------------------------


@few
@given(SEEDS)
def test_the_remainder_of_theorem_2_is_within_its_explicit_bound_on_every_rung(seed):
    case, statement = KERNEL_LADDERS.case(seed), get("averaging/I7")
    (left,) = statement.left(Form.REPAIRED, case)
    (right,) = statement.evaluate(statement.constants(case), Form.REPAIRED)
    assert (left.hi <= right.lo).all()


@few
@given(SEEDS)
def test_variances_are_posterior_variances_and_the_v_statistic_is_off_by_a_constant(seed):
    case = KERNEL_LADDERS.case(seed)
    k, n, kernel = case.own, case.n, case.kernels[-1]
    solved = np.linalg.solve(kernel[:k, :k], kernel[:k, k:])
    expected = np.diag(kernel[k:, k:]) - (kernel[:k, k:] * solved).sum(axis=0)
    assert np.allclose(as_floats(case.posterior_variances[-1]), expected, atol=1e-10)
    lam, off = kernel[0, 0], ~np.eye(n, dtype=bool)
    excess = lam / 2 + k * ((np.diag(kernel) ** 2).mean() - (kernel[off] ** 2).mean()) / (2 * n * lam)
    within = (kernel[:k, :k][~np.eye(k, dtype=bool)] ** 2).mean() / (2 * lam)
    unbiased, biased = (case.remainders(SQUARED, unbiased=which).value[-1] for which in (True, False))
    assert np.isclose(unbiased - biased, excess - within, atol=1e-9)


def test_with_the_kernel_itself_the_formula_changes_with_the_unit_of_the_outputs():
    case = blocks()
    for unbiased in (True, False):
        small, large = case.remainders(ONCE, unbiased=unbiased).value
        assert abs(large - 5 * small) > 0.1
        small, large = case.remainders(SQUARED, unbiased=unbiased).value
        assert large == pytest.approx(5 * small, abs=1e-14)
    assert np.abs(case.remainders(SQUARED, unbiased=True).value).max() < 1e-15


@pytest.mark.parametrize(
    ("kernels", "own", "message"),
    [
        (
            (np.eye(3), np.eye(2)),
            2,
            r"the kernels have shapes \[\(2, 2\), \(3, 3\)\]; they must be \(n, n\)",
        ),
        ((np.eye(3), np.triu(np.ones((3, 3)))), 2, "the kernel of rung 1 is not symmetric"),
        ((np.eye(3),), 1, "the client has 1 of 3 samples; an unbiased mean over pairs needs 2 or more"),
    ],
)
def test_matrices_that_are_no_kernels_are_refused(kernels, own, message):
    with pytest.raises(ValueError, match=message):
        KernelLadder(kernels, own)


# --- clients that come closer together -------------------------------------------------------------------------------


@few
@given(SEEDS)
def test_norms_over_the_circle_are_those_of_points_close_together(seed):
    case = SCALE_LADDERS.case(seed)
    hidden, readout, weights = case.networks(SCALES[0])
    kinks = np.arctan2(hidden[..., 0], -hidden[..., 1]).ravel()
    turn = np.unique(np.concatenate([kinks, kinks + np.pi, kinks - np.pi, np.linspace(-np.pi, np.pi, 2001)]))
    turn = np.concatenate([np.linspace(a, b, 20, endpoint=False) for a, b in pairwise(turn)])
    turn = np.append(turn[np.abs(turn) < np.pi], np.pi)
    x = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    outputs = [w * (np.maximum(x @ u.T, 0) @ v) for u, v, w in zip(hidden, readout, weights, strict=True)]
    gap, norms = np.abs(np.sum(outputs, axis=0)), case.relu_norms
    assert np.isclose(norms["mean"][0], np.trapezoid(gap, turn) / (2 * np.pi), rtol=1e-3)
    assert np.isclose(norms["root mean square"][0], np.sqrt(np.trapezoid(gap**2, turn) / (2 * np.pi)), rtol=1e-3)
    assert np.isclose(norms["largest value"][0], gap.max(), rtol=1e-3)


@few
@given(SEEDS)
def test_between_kinks_the_gap_of_relu_networks_is_bilinear_and_the_farthest_client_is_at_delta(seed):
    case = SCALE_LADDERS.case(seed)
    moved, readout = case.steps
    lengths = np.sqrt((moved**2).sum(axis=(1, 2)) + (readout**2).sum(axis=1))
    assert lengths.max() == pytest.approx(1)
    assert np.abs(np.einsum("k,khd->hd", case.shares, moved)).max() < 1e-15
    if case.kink_distance > 0:
        x = np.array([np.cos(case.angle), np.sin(case.angle)])
        bilinear = np.einsum("k,kh,h,kh", case.shares, readout, case.hidden @ x > 0, moved @ x)
        assert np.allclose(case.fixed_gap(relu), abs(bilinear) * SCALES**2, atol=1e-14)


def test_clients_that_move_alike_or_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="all clients move alike"):
        ScaleLadder(np.ones((1, 2)), np.ones(1), np.ones((2, 3)), np.array([1, 1]), 0.0)
    with pytest.raises(ValueError, match=r"the moves \(2, 4\); they must be \(h, 2\), \(h,\) and \(2, 3 h\)"):
        ScaleLadder(np.ones((1, 2)), np.ones(1), np.ones((2, 4)), np.array([1, 1]), 0.0)


# --- the moving average ----------------------------------------------------------------------------------------------


@few
@given(st.integers(1, 95), st.integers(1, 6))
def test_the_noise_a_moving_average_leaves_is_that_of_its_impulse_response(hundredths, window):
    models, variance = [0.0] * window, 0.0
    for step in range(1200):
        models = [hundredths / 100 * np.mean(models) + (step == 0), *models[:-1]]
        variance += np.mean(models) ** 2
    assert NoisyQuadratic(hundredths, window).averaged_variance.value == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(
    ("hundredths", "window", "message"),
    [
        (50, 0, "the window is 0; at least 1 model is averaged"),
        (100, 2, "rho is 1; a stationary variance needs 0 < rho < 1"),
    ],
)
def test_moving_averages_without_a_variance_are_refused(hundredths, window, message):
    with pytest.raises(ValueError, match=message):
        NoisyQuadratic(hundredths, window)


# --- generic cases ---------------------------------------------------------------------------------------------------

FAMILIES = {
    UNEQUAL: ("I1", "I2", "I4", "I5", "I6", "I8", "I9"),
    STARTS: ("I10",),
    NOISY_QUADRATICS: ("I11",),
    KERNEL_LADDERS: ("I7",),
    SCALE_LADDERS: ("I3", "I3-L1", "I3-L2", "I3-sup"),
}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_form_that_holds_is_violated_by_a_generic_case(family):
    admitted = set()

    @settings(deadline=None, max_examples=25)
    @given(family.strategy())
    def check(case):
        for name in FAMILIES[family]:
            statement = get(f"averaging/{name}")
            for form in (form for form, claim in statement.forms.items() if claim.recorded is Outcome.HOLDS):
                if all(h.met(case) for h in statement.required(form)):
                    admitted.add(name)
                    try:
                        assert judge(statement, form, case).outcome is not Outcome.VIOLATED, (name, form)
                    except ArithmeticError:
                        pass  # A gap that is exactly 0 has no slope.

    check()
    assert admitted >= set(FAMILIES[family]) - {"I9", "I8"}


def test_balls_of_any_nesting_keep_their_shape():
    assert ball_array(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    assert (estimated(ball_array([[1.5, 2.0]])).value == [[1.5, 2.0]]).all()


def test_squares_of_balls_around_zero_are_finite():
    around = estimated(squared(np.array([arb(0, 1e-3)], dtype=object)))
    assert around.lo <= 0 <= around.hi <= 1.01e-6
