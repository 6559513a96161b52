"""Tests of activation patterns and finite-width Gram matrices against loops over neurons in rational arithmetic.

The Gram matrices are also compared with those of drawn and of differentiated networks.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from ntkfl.gram import (
    activations,
    doubtful,
    finite,
    finite_estimate,
    finite_width,
    initial,
    jacobian_gram,
    local_gram,
    packing,
    patterns,
    safe_neurons,
    smallest_eigenvalue,
)
from ntkfl.initialisation import CHUNK, draw

seeds = st.integers(0, 2**32 - 1)


def rational_dot(a, b):
    return sum((Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a, b, strict=True)), Fraction(0))


def rational_pattern(x, u):
    return np.array([[rational_dot(a, b) >= 0 for b in u] for a in x])


def rational_gram(x, u):
    active, n = rational_pattern(x, u), range(len(x))
    return [[rational_dot(x[i], x[j]) * int((active[i] & active[j]).sum()) / len(u) for j in n] for i in n]


@st.composite
def networks(draw_, ties=True):
    """Draws rows and weights; small integers make many pre-activations exactly zero."""
    n, m, d = draw_(st.integers(1, 6)), draw_(st.integers(1, 9)), draw_(st.integers(1, 5))
    if ties and draw_(st.booleans()):
        entries = st.integers(-2, 2).map(float)
        x = draw_(arrays(float, (n, d), elements=entries))
        x[~x.any(axis=1), 0] = 1.0
        return x, draw_(arrays(float, (m, d), elements=entries))
    rng = np.random.default_rng(draw_(seeds))
    return rng.normal(size=(n, d)), rng.normal(size=(m, d))


@settings(deadline=None, max_examples=60)
@given(networks())
def test_patterns_and_gram_agree_with_rational_arithmetic(network):
    x, u = network
    assert np.array_equal(activations(x, u), rational_pattern(x, u))
    estimate, true = finite_estimate(x, u), rational_gram(x, u)
    assert np.array_equal(estimate.value, finite(x, u))
    for (i, j), bound in np.ndenumerate(estimate.error):
        assert abs(Fraction(float(estimate.value[i, j])) - true[i][j]) <= Fraction(float(bound))


def test_a_sign_that_float64_gets_wrong_is_right():
    x, u = np.array([[1e16, 1.0, 1e16]]), np.array([[1.0, -1.0, -1.0], [1.0, 0.0, -1.0], [1.0, 1.0, -1.0]])
    assert activations(x, u).tolist() == [[False, True, True]]
    assert activations(x * 1e-200, u * 1e250).tolist() == [[False, True, True]]
    assert doubtful(x, u).tolist() == [3]


@pytest.mark.parametrize("exponent", [-480, -520, -700, -1000])
def test_a_sign_is_right_where_the_product_that_decides_it_underflows(exponent):
    """The products of the large entries cancel, so that the product of the small ones decides."""
    small = 2.0**exponent
    x, u = np.array([[1.0, 1.0, small]]), np.array([[1.0, -1.0, small], [1.0, -1.0, -small], [1.0, -1.0, 0.0]])
    assert activations(x, u).tolist() == [[True, False, True]]


@pytest.mark.parametrize("exponent", [-74, -75, -100, -1000])
def test_a_sign_is_right_where_scaling_would_round_the_entry_that_decides_it(exponent):
    """The products of the large entries cancel, and the small entry is at least 2^1072 times smaller than they are."""
    small, large = 3 * 2.0**exponent, 2.0**1000
    x, u = np.array([[large, large, small]]), np.array([[1.0, -1.0, -1.0], [1.0, -1.0, 1.0], [1.0, -1.0, 0.0]])
    assert activations(x, u).tolist() == activations(u, x).T.tolist() == [[False, True, True]]
    assert packing.active_words(x, u).tolist() == [[6]]
    x, u = np.tile(x, 600), np.tile(u, 600)  # With so many features all products are computed in float64.
    assert activations(x, u).tolist() == [[False, True, True]]


@pytest.mark.parametrize("exponent", [-1060, -600, -350, 0, 350, 600, 1000])
def test_rows_of_any_length_have_the_patterns_of_their_directions(exponent):
    """Rows of any length have the patterns of their directions.

    The squared norms of some rows overflow or vanish, and those of their neighbours do not. A zero row is active.
    """
    rng = np.random.default_rng(5)
    x, u = rng.normal(size=(4, 3)), np.ldexp(rng.integers(-9, 10, size=(40, 3)).astype(float), -3)
    u[7] = 0
    scaled = u.copy()
    scaled[::2] *= 2.0**exponent  # The product is exact, because these numbers have few bits.
    assert np.array_equal(activations(x, scaled), activations(x, u))
    assert activations(x, u)[:, 7].all()
    assert np.array_equal(activations(x, u), np.sign(x @ u.T) >= 0)


@settings(deadline=None, max_examples=25)
@given(seed=seeds, n=st.integers(1, 5), p=st.integers(1, 5), m=st.integers(1, 40))
def test_two_networks_and_two_data_sets_against_a_loop(seed, n, p, m):
    rng = np.random.default_rng(seed)
    x, z, u, w = (rng.normal(size=(k, 3)) for k in (n, p, m, m))
    expected = sum(np.outer(x @ u[r] >= 0, z @ w[r] >= 0).astype(float) for r in range(m)) / m * (x @ z.T)
    assert np.allclose(finite(x, u, w, z), expected, rtol=0, atol=1e-14)
    assert np.array_equal(finite(x, u, z=z), finite(x, u, u, z))
    assert np.allclose(finite(x, u, w), finite(x, w, u).T, rtol=0, atol=1e-14)
    h = finite(x, u)
    assert np.array_equal(h, h.T)
    assert smallest_eigenvalue(finite_estimate(x, u)).hi >= 0
    order, neurons = rng.permutation(n), rng.permutation(m)
    assert np.allclose(finite(x[order], u[neurons]), h[np.ix_(order, order)], rtol=0, atol=1e-14)
    scales = 2.0 ** rng.integers(-20, 20, m)
    assert np.array_equal(finite(x, u * scales[:, None]), h)


def test_different_weights_give_an_asymmetric_gram():
    rng = np.random.default_rng(0)
    x, u, w = rng.normal(size=(5, 3)), rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    assert np.abs(finite(x, u, w) - finite(x, u, w).T).max() > 0.01


@pytest.mark.parametrize("width", [1, 7, CHUNK, CHUNK + 1, 9 * CHUNK + 5])
@pytest.mark.parametrize("block", [1, 3, 16])
def test_initial_gram_is_that_of_the_drawn_network_bit_for_bit(width, block):
    x = np.random.default_rng(1).normal(size=(6, 4))
    expected = finite(x, draw(width, 4, seed=77).hidden)
    assert np.array_equal(initial(x, width, seed=77, block=block), expected)
    assert np.array_equal(initial(x, width, seed=77, sigma=0.5, block=block), expected)


def test_blocks_of_neurons_do_not_change_a_bit(monkeypatch):
    rng = np.random.default_rng(4)
    x, u = rng.normal(size=(5, 3)), rng.normal(size=(300, 3))
    whole = finite(x, u), activations(x, u), safe_neurons(x, u, 0.1), doubtful(x, u, 0.1)
    monkeypatch.setattr(patterns, "_ENTRIES", 35)  # seven neurons at a time
    monkeypatch.setattr(finite_width, "_PATTERNS", 320)  # Patterns are counted 64 at a time.
    for before, after in zip(
        whole, (finite(x, u), activations(x, u), safe_neurons(x, u, 0.1), doubtful(x, u, 0.1)), strict=True
    ):
        assert np.array_equal(before, after)


@jax.jit
@jax.jacrev
def jacobian(u, x, signs):
    return jnp.maximum(x @ u.T, 0) @ signs / np.sqrt(len(u))


@settings(deadline=None, max_examples=15)
@given(seed=seeds, m=st.sampled_from([1, 2, 7]))
def test_jacobian_gram_is_that_of_the_differentiated_network(seed, m):
    rng = np.random.default_rng(seed)
    x, u, w, signs = (
        rng.normal(size=(4, 3)),
        rng.normal(size=(m, 3)),
        rng.normal(size=(m, 3)),
        rng.choice([-1.0, 1.0], m),
    )
    at_u, at_w = (np.asarray(jacobian(v, x, signs)).reshape(4, -1) for v in (u, w))
    assert np.allclose(jacobian_gram(x, u), at_u @ at_u.T, rtol=0, atol=1e-13)
    assert np.allclose(jacobian_gram(x, u, w), at_u @ at_w.T, rtol=0, atol=1e-13)


@settings(deadline=None, max_examples=25)
@given(seed=seeds, n_clients=st.integers(1, 3), m=st.integers(1, 30))
def test_local_gram_against_a_loop_and_its_parts(seed, n_clients, m):
    rng = np.random.default_rng(seed)
    n = 6
    x, u, w = rng.normal(size=(n, 4)), rng.normal(size=(m, 4)), rng.normal(size=(n_clients, m, 4))
    owner = rng.permutation(np.arange(n) % n_clients)
    chosen = rng.random((n, m)) < 0.5
    expected = np.zeros((n, n))
    for i, j, r in np.ndindex(n, n, m):
        expected[i, j] += chosen[i, r] * (u[r] @ x[i] >= 0) * (w[owner[j], r] @ x[j] >= 0) * (x[i] @ x[j]) / m
    part = local_gram(x, owner, u, w, chosen)
    assert np.allclose(part, expected, rtol=0, atol=1e-13)
    whole = local_gram(x, owner, u, w)
    assert np.allclose(part + local_gram(x, owner, u, w, ~chosen), whole, rtol=0, atol=1e-13)
    assert np.array_equal(local_gram(x, owner, u, np.stack([u] * n_clients)), finite(x, u))
    assert np.array_equal(local_gram(x, np.zeros(n, int), u, w[:1]), finite(x, u, w[0]))


@settings(deadline=None, max_examples=25)
@given(seed=seeds, radius=st.floats(1e-3, 2))
def test_safe_neurons_cannot_flip_and_the_others_can(seed, radius):
    rng = np.random.default_rng(seed)
    x, u = rng.normal(size=(4, 3)) * 10 ** rng.uniform(-3, 3, (4, 1)), rng.normal(size=(20, 3))
    safe, active = safe_neurons(x, u, radius), activations(x, u)
    for i, row in enumerate(x):
        towards = np.where(active[i], -1, 1)[:, None] * radius * row / np.linalg.norm(row)
        within, beyond = (
            activations(x[[i]], u + towards * (1 - 1e-9))[0],
            activations(x[[i]], u + towards * (1 + 1e-9))[0],
        )
        assert (within == active[i])[safe[i]].all()
        assert (beyond != active[i])[~safe[i]].all()


def test_safe_neurons_grow_fewer_with_the_radius_and_all_are_safe_from_nothing():
    rng = np.random.default_rng(6)
    x, u = rng.normal(size=(5, 3)), rng.normal(size=(200, 3))
    assert safe_neurons(x, u, 0.0).all()
    assert (safe_neurons(x, u, 0.1) >= safe_neurons(x, u, 0.3)).all()
    assert not safe_neurons(x, u, 10.0).any()


def test_doubtful_counts_and_the_enclosure_they_give():
    rng = np.random.default_rng(7)
    x, u, error = rng.normal(size=(5, 3)), rng.normal(size=(400, 3)), 0.02
    assert (doubtful(x, u) == 0).all()
    near = (np.abs(x @ u.T) <= error * np.linalg.norm(x, axis=1)[:, None]).sum(axis=1)
    assert np.array_equal(doubtful(x, u, error), near)
    assert near.min() > 0
    assert np.array_equal(doubtful(x, u, np.full(400, error)), near)
    estimate = finite_estimate(x, u, error)
    # All neurons move towards this sample's kink by nearly `error`, which is the worst case for the sample.
    for row in x:
        moved = u - np.sign(u @ row)[:, None] * error * (1 - 1e-9) * row / np.linalg.norm(row)
        assert (np.abs(finite(x, moved) - estimate.value) <= estimate.error).all()
        assert not np.array_equal(finite(x, moved), estimate.value)


X, U = np.eye(2), np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: finite(X, np.ones((3, 4))), r"hidden weights have shape \(3, 4\); they must be \(m, 2\)"),
        (lambda: finite(X, np.ones((0, 2))), r"hidden weights have shape \(0, 2\)"),
        (lambda: finite(X, np.array([[1, 1], [np.inf, 1]])), r"u\[1, 0\] is inf; every entry must be finite"),
        (lambda: finite(X, U, np.ones((4, 2))), r"w has shape \(4, 2\), u has \(3, 2\): they must be weights of one"),
        (lambda: finite(np.zeros((1, 2)), U), "row 0 of x is zero"),
        (lambda: initial(X, 0, seed=0), "width is 0; it must be a positive integer"),
        (lambda: safe_neurons(X, U, -1.0), "radius is -1.0; it must be 0 or more"),
        (lambda: safe_neurons(X, U, float("nan")), "radius is nan; it must be 0 or more"),
        (lambda: doubtful(X, U, -0.5), "error is -0.5; the radius within which weights are known must be 0 or more"),
        (lambda: local_gram(X, [0, 1, 0], U, U[None]), r"owner has shape \(3,\); it must name one client"),
        (lambda: local_gram(X, [0, 1], U, U[None]), r"w has shape \(1, 3, 2\).* a network for each of clients 0..1"),
        (
            lambda: local_gram(X, [0, 0], U, U[None], np.ones((2, 2), bool)),
            r"neurons is bool of shape \(2, 2\).*\(2, 3\)",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
