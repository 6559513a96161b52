"""The correction of order m^(-1/2): derivatives against finite differences, dense sums and linearised networks."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings, strategies as st

from ntkfl import data, gram
from ntkfl.algorithm1.simulation import simulate
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.finite_width.width_correction import gram_correction, map_derivative, response_derivative
from ntkfl.initialisation import draw
from ntkfl.problem import Setup

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
    """The correction is - sum_s M^(t-1-s) dM M^s r with r = y - y(0); dM is the change of the round map M."""
    problem = data.sphere(5, 4, seed=1, clients=2, labels="uniform")
    change = _symmetric(np.random.default_rng(0), 5)
    m, moved = kernel_regime(problem, SETUP).round_map, map_derivative(problem, SETUP, gram.infinite(problem.x), change)
    power = np.linalg.matrix_power
    t = 7
    closed = -sum(power(m, t - 1 - s) @ moved @ power(m, s) @ problem.y for s in range(t))
    assert np.allclose(gram_correction(problem, SETUP, change)[t], closed, atol=1e-13)


def test_the_linearised_network_leaves_a_remainder_of_second_order():
    """The network is trained in its parameters: its distance from the limit falls as m^(-1/2), the remainder as 1/m."""
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
