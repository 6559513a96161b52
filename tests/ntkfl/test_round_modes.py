"""Tests of powers and geometric sums against exact rational arithmetic.

The search for the first round at which a norm is below a target is compared with brute force. H is the Gram matrix, and
P the block diagonal matrix of the clients' responses to K local steps.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from ntkfl.limit.infinite_width import first_round_within
from ntkfl.limit.round_modes import ClientModes, RoundModes, decay, geometric_sum

EPS = np.finfo(float).eps


@settings(deadline=None, max_examples=60)
@given(st.floats(-0.5, 2.5), st.integers(0, 40))
@example(2.0, 7)
@example(np.nextafter(2.0, 0), 8)
@example(1.0, 0)
@example(1.0, 1)
@example(1e-300, 5)
@example(-1e-17, 40)
def test_powers_and_sums_are_those_of_rational_arithmetic(x, terms):
    q = Fraction(x)
    power, total = (1 - q) ** terms, sum(((1 - q) ** s for s in range(terms)), Fraction(0))
    slack = 50 * EPS
    assert abs(Fraction(float(decay(x, terms))) - power) <= slack * (terms + 1) * abs(power) + Fraction(1, 10**300)
    # The error is relative to the sum of moduli, since an alternating sum may be far smaller than its terms.
    moduli = sum((abs(1 - q) ** s for s in range(terms)), Fraction(0))
    assert abs(Fraction(float(geometric_sum(x, 1.0, terms))) - total) <= slack * (terms + 1) * moduli


def test_sums_of_very_many_terms():
    # The limit is 1 / q.
    np.testing.assert_allclose(geometric_sum(np.array([1.0, 0.5, 1e-3]), 0.7, 10**15), [1, 2, 1e3], rtol=1e-14)
    assert geometric_sum(0.0, 0.7, 10**15) == pytest.approx(7e14, rel=1e-15)
    assert geometric_sum(1e-25, 0.7, 10**6) == pytest.approx(7e5, rel=1e-15)
    assert geometric_sum(1e-15, 1.0, 10**15) == pytest.approx((1 - np.exp(-1)) * 1e15, rel=1e-13)


def modes(h, owner, eta_local, steps, rho):
    clients = ClientModes.of(h, tuple(np.flatnonzero(owner == c) for c in range(owner.max() + 1)))
    response = geometric_sum(clients.values, eta_local, steps)
    p = clients.apply(response, np.eye(len(h)))
    return RoundModes.of(h, clients, eta_local, steps, rho), np.eye(len(h)) - rho * h @ p


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 7),
    steps=st.sampled_from([1, 2, 30, 1000]),
    fraction=st.floats(0.2, 0.99),
    eps=st.floats(1e-6, 0.95),
    rank=st.integers(2, 9),
)
def test_first_round_is_the_first_one_met_by_iteration(seed, n, steps, fraction, eps, rank):
    """The first round below a target is the first one that iteration finds.

    Features whose scales differ make H P strongly non-normal. If rank < n, H is singular.
    """
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, rank)) * 10.0 ** rng.uniform(-0.6, 0, size=(n, 1))
    h, owner = phi @ phi.T, np.append([0, 1], rng.integers(0, 2, n - 2))
    eta_local = fraction * 2 / np.linalg.norm(h, 2)
    of, m = modes(h, owner, eta_local, steps, 0.5)
    residual = h @ rng.normal(size=(n, 1))  # A residual in the range of H vanishes in the end.
    target = eps * np.linalg.norm(residual)
    first = first_round_within(of, residual, target)
    for _ in range(min(first, 20000)):
        assert np.linalg.norm(residual) > target * (1 - 1e-9)
        residual = m @ residual
    if first <= 20000:
        assert np.linalg.norm(residual) <= target * (1 + 1e-9)


def test_first_round_of_a_norm_that_dips_and_rises():
    """The first round is found if the norm falls and rises again.

    A residual with a part that never changes is below the target only for a while, or never.
    """
    h, owner = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0, 1])
    of, m = modes(h, owner, 0.01, 50, 0.05)
    initial = np.array([[1.0], [0.0]])  # This residual tends to (1/2, -1/2).
    path = [np.linalg.norm(np.linalg.matrix_power(m, t) @ initial) for t in range(400)]
    for target in (0.99, 0.8, 0.71):
        assert first_round_within(of, initial, target) == np.flatnonzero(np.array(path) <= target)[0]
    with pytest.raises(
        ValueError, match=r"does not fall to 0\.7 .*0\.70\d+ of it lies where the round changes nothing"
    ):
        first_round_within(of, initial, 0.7)


def test_first_round_when_the_norm_alternates():
    """The first round is found if the norm alternates.

    A mode with the factor d = -.999 cancels another mode in odd rounds only, so that the norms of two neighbouring
    rounds differ by a factor of four.
    """
    outward = np.array([[1.0, 0.9, 0.0], [0.0, np.sqrt(0.19), 0.0], [0.0, 0.0, 0.01]])
    x, sizes = np.array([0.001, 1.999, 0.001]), np.linalg.svd(outward, compute_uv=False)
    inverse = np.linalg.inv(outward)
    of = RoundModes(x, outward, outward, inverse, x, inverse, (sizes[-1], sizes[0]), 1.0)
    initial = outward @ np.ones((3, 1))
    norms = np.linalg.norm(of.residual(initial, np.arange(3000)), axis=(1, 2))
    assert norms[2] > 4 * norms[1]
    for target in np.linspace(0.05, 0.44, 60):
        assert first_round_within(of, initial, target) == np.flatnonzero(norms <= target)[0]


@pytest.mark.parametrize("x2", [1 + 2**0.5, 3.0, 2.2])
def test_indefinite_p_on_a_singular_gram(x2):
    """An indefinite P on a singular Gram matrix is treated correctly.

    There are two copies of a direction at scales 1 and x2, and K = 2. At x2 = 1 + sqrt 2 a Jordan block makes r grow
    linearly.
    """
    scale = np.sqrt([1.0, x2])
    h = np.outer(scale, scale)
    of, m = modes(h, np.array([0, 1]), 1.0, 2, 0.5)
    initial = np.array([[1.0, 0.3], [-2.0, 0.1]])
    expected = np.stack([np.linalg.matrix_power(m, t) @ initial for t in range(6)])
    np.testing.assert_allclose(of.residual(initial, np.arange(6)), expected, rtol=0, atol=1e-12 * abs(expected).max())
    change = np.einsum("ij,tjc->tic", h, of.coefficients_at(initial, np.arange(6)))
    np.testing.assert_allclose(initial - change, expected, rtol=0, atol=1e-12 * abs(expected).max())
