"""Tests of the correction of order m^(-1/2) to the infinite-width limit, against sums, differences and networks.

The layer of neurons near their kinks is tested too.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from ntkfl import data, gram
from ntkfl.algorithm1.simulation import simulate
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.finite_width.boundary_layer import (
    _distinct,
    drift_correction,
    gram_correction,
    kink_layers,
    map_derivative,
    pairs_near_kinks,
    pattern_change,
    response_derivative,
)
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights

SETUP = Setup(eta_local=0.4, local_steps=3, rounds=30)


def _symmetric(rng, size: int) -> np.ndarray:
    a = rng.standard_normal((size, size))
    return (a + a.T) / 2


@settings(deadline=None, max_examples=40)
@given(
    size=st.integers(1, 5),
    steps=st.integers(1, 7),
    eta=st.floats(0.01, 1.5),
    equal=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_response_derivative_is_the_dense_double_sum(size, steps, eta, equal, seed):
    rng = np.random.default_rng(seed)
    values = np.full(size, 0.7) if equal else rng.uniform(0, 1, size)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    block, change = (basis * values) @ basis.T, _symmetric(rng, size)
    factor, dense = np.eye(size) - eta * block, np.zeros((size, size))
    for k in range(steps):
        for left in range(k):
            powers = [np.linalg.matrix_power(factor, p) for p in (left, k - 1 - left)]
            dense -= eta**2 * powers[0] @ change @ powers[1]
    assert np.allclose(response_derivative(block, change, eta, steps), dense, atol=1e-12 * steps**2)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**16), clients=st.integers(1, 3), steps=st.integers(1, 5))
def test_map_derivative_is_that_of_the_round_map(seed, clients, steps):
    problem = data.sphere(5, 4, seed=seed, clients=clients)
    setup = replace(SETUP, local_steps=steps)
    h, change, small = gram.infinite(problem.x) + 0.1 * np.eye(5), _symmetric(np.random.default_rng(seed), 5), 1e-5
    ahead, behind = (kernel_regime(problem, setup, h + s * small * change).round_map for s in (1, -1))
    assert np.allclose(map_derivative(problem, setup, h, change), (ahead - behind) / (2 * small), atol=1e-8)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**16), clients=st.integers(1, 3))
def test_gram_correction_is_the_derivative_of_the_outputs(seed, clients):
    problem = data.sphere(5, 4, seed=seed, clients=clients, labels="uniform")
    h, change = gram.infinite(problem.x) + 0.1 * np.eye(5), _symmetric(np.random.default_rng(seed), 5)
    rounds, small = np.arange(SETUP.rounds + 1), 1e-5
    ahead, behind = (kernel_regime(problem, SETUP, h + s * small * change).outputs(rounds) for s in (1, -1))
    assert np.allclose(gram_correction(problem, SETUP, change, h), (ahead - behind) / (2 * small), atol=1e-7)


def test_gram_correction_is_the_closed_sum_with_its_sign():
    """The correction is the closed sum - sum_s M^(t-1-s) dM M^s r, with r = y - y(0).

    dM is the change of the round map M.
    """
    problem = data.sphere(5, 4, seed=1, clients=2, labels="uniform")
    change = _symmetric(np.random.default_rng(0), 5)
    m, moved = kernel_regime(problem, SETUP).round_map, map_derivative(problem, SETUP, gram.infinite(problem.x), change)
    power = np.linalg.matrix_power
    t = 7
    closed = -sum(power(m, t - 1 - s) @ moved @ power(m, s) @ problem.y for s in range(t))
    assert np.allclose(gram_correction(problem, SETUP, change)[t], closed, atol=1e-13)


def test_the_linearised_network_leaves_a_remainder_of_second_order():
    """The linearised network leaves a remainder of second order.

    The linearised network is trained on its parameters. Its distance from the limit falls as m^(-1/2). The remainder
    that the correction leaves falls as 1/m.
    """
    problem, rounds = data.sphere(6, 4, seed=0, clients=3, labels="uniform"), np.arange(31)
    limit = kernel_regime(problem, SETUP).outputs(rounds)
    for width in (256, 4096):
        apart, left = [], []
        for seed in range(12):
            weights = draw(width, 4, seed)
            start = np.maximum(problem.x @ weights.hidden.T, 0) @ weights.signs / np.sqrt(width)
            labelled, setup = replace(problem, y=start + problem.y), replace(SETUP, width=width)
            outputs = simulate(labelled, setup, weights, linearised=True, movements=False).outputs - start
            change = gram.finite(problem.x, weights.hidden) - gram.infinite(problem.x)
            apart.append(np.abs(outputs - limit).max())
            left.append(np.abs(outputs - limit - gram_correction(problem, SETUP, change)).max())
        assert np.median(apart) * np.sqrt(width) > 0.1
        assert np.median(left) * width < 2


STEPS = Setup(eta_local=0.3, local_steps=2, rounds=12)


@pytest.mark.parametrize(("length", "sigma", "steps"), [(1.0, 1.0, 1), (1.0, 0.5, 3), (1.6, 2.0, 2)])
def test_one_sample_has_a_closed_form(length, sigma, steps):
    """For one sample the flips have a closed form.

    The neurons that the sample pushes away stop at its kink. The neurons that it pulls are active and stay active.
    """
    problem = Problem(np.array([[length, 0.0]]), np.array([0.7]), name="one point")
    setup = Setup(eta_local=0.2, local_steps=steps, rounds=15, sigma=sigma)
    change = pattern_change(problem, setup)
    outputs = kernel_regime(problem, setup).outputs(np.arange(16))[:, 0]
    # A neuron's pre-activation z moves by |x|^2 c_t = 2 (y(t) - y(0)). For half of the neurons' signs, z moves towards
    # the kink.
    exact = np.abs(outputs) / (np.sqrt(2 * np.pi) * sigma * length)
    assert np.abs(change.flips.value - exact).max() <= change.flips.error.max() + 0.02 * exact[-1]
    assert np.allclose(change.drift.value[:, 0, 0], -(length**2) * change.flips.value, rtol=1e-12)


@pytest.mark.parametrize("samples", [1, 7, 8, 9, 63, 64, 65])
def test_patterns_are_counted_as_rows_are(samples):
    """Counts of equal patterns are numpy's counts of equal rows.

    There are few patterns, each of which occurs many times. The patterns differ in the first sample, in the last one,
    or in all.
    """
    rng = np.random.default_rng(samples)
    base = rng.random((5, samples)) < 0.5
    base[1:3] = base[0]
    base[1, 0] ^= True
    base[2, -1] ^= True
    patterns = base[rng.integers(5, size=300)]
    for own, rows in zip(_distinct(patterns), np.unique(patterns, axis=0, return_counts=True), strict=True):
        np.testing.assert_array_equal(own, rows)


def _quantile_network(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a network on one feature whose weights are the quantiles of N(0, 1), each with both signs.

    H(0) = 1/2 exactly.
    """
    w = stats.norm.ppf((np.arange(width // 2) + 0.5) / (width // 2))
    return np.concatenate([w, w])[:, None], np.repeat([1.0, -1.0], width // 2)


def test_a_network_of_quantiles_follows_the_predicted_outputs_and_flips():
    """A network of quantiles follows the predicted outputs and flips.

    The difference from the prediction falls like 1/m.
    """
    problem = Problem(np.array([[1.0]]), np.array([0.9]), name="one point")
    layer, drift = pattern_change(problem, STEPS, starts=512), drift_correction(problem, STEPS, starts=512)
    limit = kernel_regime(problem, STEPS).outputs(np.arange(13))
    for width in (2**12, 2**16):
        run = simulate(problem, replace(STEPS, width=width), Weights(*_quantile_network(width)))
        left = run.outputs - limit - drift.value / np.sqrt(width)
        assert np.abs(left).max() <= 2 / width + drift.error.max() / np.sqrt(width)
        assert np.abs(run.outputs - limit).max() > 10 * np.abs(left).max()
        assert np.abs(run.flips * np.sqrt(width) - layer.flips.value).max() <= 2 / np.sqrt(width) + 1e-2


def test_samples_at_right_angles_in_one_client_do_not_feel_each_other():
    together = Problem(np.eye(2), np.array([0.8, -0.5]), name="two points")
    change = pattern_change(together, STEPS)
    for i, y in enumerate(together.y):
        alone = pattern_change(Problem(np.eye(2)[i : i + 1], np.array([y])), STEPS)
        own = change.drift[:, i, i]
        assert np.all(np.abs(own.value - alone.drift.value[:, 0, 0]) <= own.error + alone.drift.error[:, 0, 0] + 0.01)
    assert not change.drift.value[:, 0, 1].any()


def test_labels_of_the_other_sign_change_no_pattern_statistic():
    problem = data.sphere(5, 3, seed=2, clients=2, labels="uniform")
    one, other = (pattern_change(replace(problem, y=s * problem.y), STEPS, draws=256) for s in (1, -1))
    assert np.all(np.abs(one.flips.value - other.flips.value) <= one.flips.error + other.flips.error + 1e-12)
    assert np.all(np.abs(one.drift.value - other.drift.value) <= 2 * (one.drift.error + other.drift.error) + 1e-12)


def test_flips_grow_in_proportion_to_a_residual_that_is_scaled():
    problem = data.sphere(4, 3, seed=3, clients=2, labels="uniform")
    one, double = (pattern_change(replace(problem, y=s * problem.y), STEPS, draws=64) for s in (1.0, 2.0))
    assert np.allclose(double.flips.value, 2 * one.flips.value, rtol=1e-12)
    assert np.allclose(double.drift.value, 2 * one.drift.value, rtol=1e-9, atol=1e-12)


def test_a_start_that_reaches_further_changes_no_average():
    problem = data.sphere(4, 3, seed=4, clients=2, labels="uniform")
    near, far = (pattern_change(problem, STEPS, margin=margin, starts=64).flips for margin in (0.0, 0.5))
    assert np.all(np.abs(near.value - far.value) <= near.error + far.error + 1e-12)


def test_before_training_the_density_is_the_gaussian_one():
    problem = Problem(np.array([[1.0, 0.0], [0.6, 1.2]]), np.array([0.5, -1.0]), name="two points")
    setup = replace(STEPS, sigma=1.5)
    pairs = pairs_near_kinks(problem, setup, [0, 0], [0.01, 0.2], starts=256)
    exact = 2 * np.array([0.01, 0.2]) * (1 / np.linalg.norm(problem.x, axis=1)).sum() / (np.sqrt(2 * np.pi) * 1.5)
    assert np.all(np.abs(pairs.value - exact) <= pairs.error + 0.02 * exact)


@pytest.mark.parametrize(("angle", "labels", "held"), [(60, (1, -1), 0.6), (120, (1, 0.8), 0.4), (120, (1, -1), 0.0)])
def test_neurons_are_held_at_a_kink_where_the_other_sample_pushes_back(angle, labels, held):
    """Neurons are held at the kink of a sample i if the other sample, j, moves them back.

    Sample i moves these neurons towards the inactive side, and sample j moves them towards the active side. The
    condition is a r_i < 0 < a G_ij r_j and |G_ij r_j| < G_ii |r_i|. While it holds, the number of held neurons
    stays proportional to |r|.
    """
    a = np.deg2rad(angle)
    problem = Problem(np.array([[1.0, 0.0], [np.cos(a), np.sin(a)]]), np.array(labels, float), name="two points")
    setup, rounds = replace(STEPS, rounds=60), [0, 30, 60]
    residual = np.linalg.norm(problem.y - kernel_regime(problem, setup).outputs(rounds), axis=1)
    assert residual[2] < 1e-2 * residual[1] < 1e-4 * residual[0]
    pairs = pairs_near_kinks(problem, setup, rounds, residual)
    assert np.all(np.abs(pairs.value[1:] - held) <= 0.06)
    assert abs(pairs.value[0] - 4 * residual[0] / np.sqrt(2 * np.pi)) <= pairs.error[0] + 0.02


def test_what_cannot_be_walked_is_refused():
    problem = data.sphere(4, 3, seed=0, clients=2)
    with pytest.raises(ValueError, match=r"draws, starts and margin are 0, 32 and 0.0; they must be at least 1, 1 and"):
        kink_layers(problem, STEPS, draws=0)
    with pytest.raises(ValueError, match=r"y has shape \(4, 2\); the network has one output"):
        kink_layers(replace(problem, y=np.ones((4, 2))), STEPS)
    with pytest.raises(ValueError, match=r"rounds contains 13; the run has rounds 0..12"):
        pairs_near_kinks(problem, STEPS, [13], [0.1])
    with pytest.raises(ValueError, match=r"both must be \(q,\), radii > 0"):
        pairs_near_kinks(problem, STEPS, [1, 2], [0.1, 0.0])
