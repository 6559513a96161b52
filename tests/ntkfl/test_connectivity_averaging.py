"""Tests of model averaging: the exact split of the error, ensembles, discrepancies, and the heterogeneity Gamma of
clients with quadratic losses.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity.discrepancy import linear_cka, mean_discrepancy
from ntkfl.connectivity.ensembles import averaging_gap, ensemble_outputs, locality
from ntkfl.connectivity.five_factors import error_factors
from ntkfl.connectivity.network import TwoLayer, combination
from ntkfl.connectivity.quadratic_clients import QuadraticClient, global_minimiser, heterogeneity

SEEDS = st.integers(0, 10**6)
QUICK = settings(deadline=None, max_examples=30)


def draws(seed, shape=(5, 3, 8)):
    rng = np.random.default_rng(seed)
    count, clients, samples = shape
    weights = rng.dirichlet(np.ones(clients))
    owner = rng.integers(-1, clients, size=samples)
    # A part that all clients share makes outputs covary.
    outputs = rng.normal(size=shape) + rng.normal(size=(count, 1, samples))
    return outputs, rng.normal(size=(count, samples)), rng.normal(size=samples), owner, weights


@QUICK
@given(SEEDS)
def test_the_factors_and_the_remainder_add_up_to_the_error_of_both_averages(seed):
    factors = error_factors(*draws(seed))
    ensemble = factors.bias + factors.variance + factors.covariance
    assert np.isclose(ensemble, factors.ensemble_error, rtol=1e-12)
    assert np.isclose(ensemble + factors.remainder, factors.averaged_error, rtol=1e-12)


@QUICK
@given(SEEDS)
def test_each_factor_is_the_sum_that_defines_it(seed):
    outputs, averaged, y, owner, p = draws(seed)
    factors = error_factors(outputs, averaged, y, owner, p)
    _, clients, samples = outputs.shape
    train = other = variance = covariance = 0.0
    for j in range(samples):
        parts = [p[k] * (y[j] - outputs[:, k, j].mean()) for k in range(clients)]
        train += sum(part for k, part in enumerate(parts) if owner[j] == k) ** 2 / samples
        other += sum(part for k, part in enumerate(parts) if owner[j] != k) ** 2 / samples
        for k in range(clients):
            for q in range(clients):
                both = np.mean(outputs[:, k, j] * outputs[:, q, j])
                term = p[k] * p[q] * (both - outputs[:, k, j].mean() * outputs[:, q, j].mean()) / samples
                variance, covariance = (variance + term, covariance) if k == q else (variance, covariance + term)
    assert np.allclose(
        [factors.train_bias, factors.heterogeneity_bias, factors.variance, factors.covariance],
        [train, other, variance, covariance],
        rtol=1e-10,
    )


def test_one_draw_has_no_variance_and_equal_clients_no_remainder():
    outputs, _, y, owner, weights = draws(0, (1, 3, 8))
    factors = error_factors(outputs, np.einsum("k,mkn->mn", weights, outputs), y, owner, weights)
    assert factors.variance == factors.covariance == 0.0 and abs(factors.remainder) < 1e-15


def test_the_remainder_vanishes_with_the_square_of_the_locality_of_smooth_parts():
    """The remainder f_WENS - f_FMA falls as the square of the locality if no unit has a kink.

    The locality is the largest distance of a network's parameters from the averaged parameters. Near (1, 1), f = v u x
    is quadratic in (u, v), and the remainder is exactly Cov_k(u, v) x. Here f_WENS is the weighted mean of the
    networks' outputs, and f_FMA is the output of the averaged network.
    """
    gaps = []
    for size in (0.1, 0.01):
        nets = [TwoLayer([[1 + size * a]], [1 + size * b]) for a, b in ((1, 1), (-1, -1))]
        assert np.isclose(locality(nets), size * np.sqrt(2))
        gaps.append(averaging_gap(nets, np.ones((1, 1)))[0])
    assert np.allclose(gaps, [0.01, 0.0001], rtol=1e-9)
    tiny = [TwoLayer(np.full((2, 3), value), np.zeros((1, 2))) for value in (1e-200, -1e-200)]
    assert np.isclose(locality(tiny), 1e-200 * np.sqrt(6), atol=0)


@QUICK
@given(SEEDS, st.integers(1, 4))
def test_ensembles_and_averages(seed, count):
    rng = np.random.default_rng(seed)
    nets = [TwoLayer(rng.normal(size=(3, 2)), rng.normal(size=(2, 3))) for _ in range(count)]
    x, p = rng.normal(size=(4, 2)), rng.dirichlet(np.ones(count))
    mean = sum(q * net.outputs(x) for q, net in zip(p, nets, strict=True))
    assert np.allclose(ensemble_outputs(nets, x, p), mean, rtol=1e-12)
    assert np.allclose(averaging_gap(nets, x, p), mean - combination(nets, p).outputs(x), atol=1e-13)
    assert np.allclose(averaging_gap([nets[0]] * 3, x), 0, atol=1e-13) and locality([nets[0]] * 3) < 1e-14
    centre = combination(nets, p).vector()
    assert all(np.linalg.norm(net.vector() - centre) <= locality(nets, p) * (1 + 1e-14) for net in nets)


def kernels(seed, a=4, b=6, features=3):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(a, features)), rng.normal(size=(b, features))
    return first @ first.T, second @ second.T, first @ second.T, first, second


@QUICK
@given(SEEDS)
def test_the_discrepancy_of_a_linear_kernel_is_that_of_the_means(seed):
    own, other, cross, first, second = kernels(seed)
    biased = mean_discrepancy(own, other, cross, unbiased=False)
    assert np.isclose(biased, np.sum((first.mean(axis=0) - second.mean(axis=0)) ** 2))
    features = [np.einsum("ni,nj->nij", part, part).reshape(len(part), -1) for part in (first, second)]
    squared = mean_discrepancy(own, other, cross, power=2, unbiased=False)
    assert np.isclose(squared, np.sum((features[0].mean(axis=0) - features[1].mean(axis=0)) ** 2))


@QUICK
@given(SEEDS, st.sampled_from([1, 2]))
def test_the_unbiased_statistic_is_the_double_sum_without_the_diagonal(seed, power):
    own, other, cross, _, _ = kernels(seed)

    def pairs(matrix):
        values = [matrix[i, j] ** power for i in range(len(matrix)) for j in range(len(matrix)) if i != j]
        return sum(values) / len(values)

    statistic = mean_discrepancy(own, other, cross, power, unbiased=True)
    assert np.isclose(statistic, pairs(own) + pairs(other) - 2 * np.mean(cross**power))


def test_the_unbiased_statistic_has_mean_zero_on_one_law_and_the_biased_has_not():
    values = {unbiased: [] for unbiased in (True, False)}
    for seed in range(400):
        own, other, cross, *_ = kernels(seed)
        for unbiased, statistics in values.items():
            statistics.append(mean_discrepancy(own, other, cross, unbiased=unbiased))
    error = np.std(values[True]) / 20
    assert abs(np.mean(values[True])) < 4 * error
    assert np.isclose(np.mean(values[False]), 3 * (1 / 4 + 1 / 6), rtol=0.15)


@QUICK
@given(SEEDS, st.floats(0.1, 10))
def test_alignment_is_invariant_to_rotations_scale_and_shift(seed, scale):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 4))
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    alignment = linear_cka(x, y)
    assert 0 <= alignment <= 1 and np.isclose(linear_cka(x, x), 1) and np.isclose(alignment, linear_cka(y, x))
    assert np.isclose(linear_cka(scale * x @ rotation + 5, y), alignment)


@QUICK
@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_gamma_encloses_the_distance_to_the_minimiser_of_the_mean_loss(seed, size, count):
    rng = np.random.default_rng(seed)
    clients = []
    for _ in range(count):
        root = rng.normal(size=(size, size + 2))
        hessian = root @ root.T + 0.1 * np.eye(size)
        clients.append(QuadraticClient((hessian + hessian.T) / 2, rng.normal(size=size), rng.uniform(0.5, 2)))
    centre = global_minimiser(clients)
    slope = sum(c.weight * c.hessian @ (centre.value - c.minimiser) for c in clients)
    assert np.linalg.norm(slope) < 1e-11
    gamma = heterogeneity(clients)
    distances = [np.linalg.norm(c.minimiser - centre.value) for c in clients]
    assert gamma.lo <= max(distances) <= gamma.hi and gamma.error < 1e-11 * max(1, gamma.value)


@QUICK
@given(SEEDS, st.integers(-1000, 900), st.integers(-900, 900), st.integers(-900, 900))
def test_gamma_scales_with_its_units_where_squares_underflow_or_overflow(seed, length, curvature, share):
    rng = np.random.default_rng(seed)
    parts = [(np.diag(rng.uniform(0.5, 2, 2)), rng.normal(size=2), rng.uniform(0.5, 2)) for _ in range(3)]
    plain = [QuadraticClient(*part) for part in parts]
    scaled = [
        QuadraticClient(np.ldexp(h, curvature), np.ldexp(w, length), float(np.ldexp(p, share))) for h, w, p in parts
    ]
    for gamma in (heterogeneity, lambda clients: global_minimiser(clients)[0]):
        one, other = gamma(plain), gamma(scaled)
        assert np.ldexp(one.value, length) == pytest.approx(float(other.value), rel=1e-12)
        assert 0 < other.error <= 2 * np.ldexp(one.error, length) + 1e-323


@pytest.mark.parametrize(
    "parts",  # The entries are (hessian, minimiser, weight) of clients with one parameter.
    [
        [(1e300, 0.0, 1.0), (1e-30, 1e100, 1.0)],
        [(1.0, 0.0, 1e300), (1.0, 1.0, 1e-30)],
        [(1e300, 0.0, 1.0), (1e-300, 1e300, 1.0)],
    ],
)
def test_a_client_that_hardly_counts_is_within_the_error_of_the_mean(parts):
    clients = [QuadraticClient(np.array([[h]]), np.array([w]), p) for h, w, p in parts]
    exact = [tuple(map(Fraction, part)) for part in parts]
    minimiser = sum(p * h * w for h, w, p in exact) / sum(p * h for h, _, p in exact)
    mean = global_minimiser(clients)
    assert abs(Fraction(float(mean.value[0])) - minimiser) <= Fraction(float(mean.error[0]))


def test_gamma_of_equal_curvatures_is_the_distance_to_the_mean():
    clients = [QuadraticClient(np.eye(2), point) for point in ([0.0, 0.0], [2.0, 0.0], [1.0, 3.0])]
    gamma = heterogeneity(clients)
    assert gamma.lo <= 2.0 <= gamma.hi
    one = heterogeneity(clients[:1])
    assert one.lo <= 0.0 <= one.hi


OUTPUTS = np.ones((2, 2, 3))
BAD = {
    "one point": (
        lambda: mean_discrepancy(np.ones((1, 1)), np.ones((2, 2)), np.ones((1, 2))),
        r"kernel matrix of shape \(1, 1\); it must be square, of 2 points or more",
    ),
    "kernels that do not fit": (
        lambda: mean_discrepancy(np.ones((2, 2)), np.ones((2, 2)), np.ones((3, 2))),
        r"shapes \(2, 2\), \(2, 2\) and \(3, 2\)",
    ),
    "a power of zero": (
        lambda: mean_discrepancy(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), 0),
        "power is 0; it must be 1 or more",
    ),
    "one output": (lambda: linear_cka(np.ones((1, 2)), np.ones((1, 2))), r"must be \(n, p\), \(n, q\), n >= 2"),
    "constant outputs": (lambda: linear_cka(np.ones((3, 2)), np.eye(3)), "the same on all samples: the alignment is 0"),
    "a flat quadratic": (
        lambda: QuadraticClient(np.zeros((2, 2)), np.zeros(2)),
        "smallest eigenvalue is 0; it must be positive: otherwise the minimisers are a whole set",
    ),
    "a Hessian that is not symmetric": (
        lambda: QuadraticClient(np.array([[1.0, 0.5], [0.0, 1.0]]), np.zeros(2)),
        "not symmetric: it differs by 0.5",
    ),
    "a Hessian of another size": (
        lambda: QuadraticClient(np.eye(3), np.zeros(2)),
        r"has shape \(3, 3\), the minimiser",
    ),
    "a weight of zero": (lambda: QuadraticClient(np.eye(2), np.zeros(2), 0.0), "weight is 0.0; it must be positive"),
    "no client": (lambda: heterogeneity([]), "no client; at least one"),
    "clients of two sizes": (
        lambda: heterogeneity([QuadraticClient(np.eye(k), np.zeros(k)) for k in (1, 2)]),
        r"the clients have \[1, 2\] parameters",
    ),
    "weights that do not sum to 1": (
        lambda: error_factors(OUTPUTS, np.ones((2, 3)), np.ones(3), np.zeros(3, int), np.ones(2)),
        "the weights sum to 2; they must sum to 1",
    ),
    "outputs that are not finite": (
        lambda: error_factors(OUTPUTS * np.inf, np.ones((2, 3)), np.ones(3), np.zeros(3, int), np.ones(2) / 2),
        r"outputs\[.*\] is -?(inf|nan); every entry must be finite",
    ),
    "an owner that is none": (
        lambda: error_factors(OUTPUTS, np.ones((2, 3)), np.ones(3), np.array([0, 1, 2]), np.ones(2) / 2),
        "owner 2 is no client; it must be 0..1, or -1",
    ),
    "outputs of two dimensions": (
        lambda: error_factors(OUTPUTS[0], np.ones((2, 3)), np.ones(3), np.zeros(3, int), np.ones(2) / 2),
        r"the outputs have shape \(2, 3\); they must be \(draws, clients, samples\)",
    ),
    "averages that do not fit": (
        lambda: error_factors(OUTPUTS, np.ones((2, 4)), np.ones(3), np.zeros(3, int), np.ones(2) / 2),
        r"averaged has shape \(2, 4\); with outputs of shape \(2, 2, 3\) it must be \(2, 3\)",
    ),
    "an ensemble's weights": (
        lambda: ensemble_outputs([TwoLayer([[1.0]], [1.0])], np.ones((1, 1)), [0.5, 0.5]),
        r"there are 1 networks and weights of shape \(2,\)",
    ),
    "an average that is none": (
        lambda: averaging_gap([TwoLayer([[1.0]], [1.0])], np.ones((1, 1)), [0.5]),
        "the weights sum to 0.5; they must sum to 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_the_value_found(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_kernel_that_is_nan_is_refused():
    good, bad = np.eye(2), np.array([[1.0, np.nan], [0.0, 1.0]])
    for matrices in ((bad, good, good), (good, bad, good), (good, good, bad)):
        with pytest.raises(ValueError, match=r"\[0, 1\] is nan; every entry must be finite"):
            mean_discrepancy(*matrices)
    with pytest.raises(ValueError, match=r"\[.*\] is .*; every entry must be finite"):
        linear_cka(good, bad)
