"""Tests of `Rows`, vectors with error bounds: a result contains the results of all vectors within the bounds."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ntkfl.smooth_networks.passes
from ntkfl.estimate import Estimate
from ntkfl.smooth_networks.layers import SMOOTH
from ntkfl.smooth_networks.passes import Rows, block_sums

TANH = SMOOTH["tanh"]


def drawn(rng, n, m):
    """Returns random vectors with errors of random lengths; the bound of each entry is the whole length."""
    off = rng.uniform(0.01, 0.3, n)
    return Rows(Estimate(rng.standard_normal((n, m)), np.repeat(off[:, None], m, axis=1)), off)


def within(rows, directions):
    """Returns vectors whose errors have the full length and these directions."""
    return rows.value + rows.off[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)


def contains(rows, exact):
    off = np.abs(exact - rows.value)
    return (off <= rows.entries.error).all() and (np.linalg.norm(off, axis=1) <= rows.off).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 6))
def test_results_contain_those_of_vectors_that_are_off_in_the_worst_direction(seed, n, m):
    rng = np.random.default_rng(seed)
    a, b, matrix = drawn(rng, n, m), drawn(rng, n, m), rng.standard_normal((m, m))
    norm = 0.7 * np.linalg.norm(matrix, 2) * (1 + 1e-12)
    factors = Estimate(rng.uniform(-1, 1, (n, m)), rng.uniform(0, 0.1, (n, m)))
    through = a.through(matrix, 0.7, norm, lambda sums: sums * 0.7 + Estimate.exact(1.0))
    top = np.repeat(np.linalg.svd(matrix)[2][:1], n, axis=0)
    for direction in (rng.standard_normal((n, m)), np.sign(a.value), top, *np.eye(m)[:, None].repeat(n, axis=1)):
        u, v = within(a, direction), within(b, direction)
        assert contains(a.plus(b), u + v)
        assert contains(a.activated(TANH), np.tanh(u))
        assert contains(through, 0.7 * u @ matrix.T + 1)
        for sign in (-1, 1):
            exact = factors.value + sign * np.sign(direction * a.value) * factors.error
            assert contains(a.times(factors, np.abs(exact).max()), u * exact)
        products = a.products()
        for of in (u @ u.T, within(a, a.value) @ within(a, a.value).T):
            assert (np.abs(of - products.value) <= products.error).all()
    assert (np.linalg.norm(u, axis=1) <= a.lengths).all()
    nearest = within(a, a.value)
    # The bound on lengths is attained.
    np.testing.assert_allclose(np.linalg.norm(nearest, axis=1), a.lengths, rtol=1e-8)
    for i, row in enumerate(matrix):  # The bounds on sums are attained too, by entries and by lengths.
        off = 0.7 * (within(a, np.repeat(row[None], n, axis=0)) - a.value) @ row
        np.testing.assert_allclose(off, through.entries.error[:, i], rtol=1e-6)
    most = 0.7 * np.linalg.norm((within(a, top) - a.value) @ matrix.T, axis=1)
    np.testing.assert_allclose(most, through.off, rtol=1e-6)


def test_the_smaller_of_two_bounds_counts():
    sharp = Rows.of(Estimate(np.ones((1, 4)), np.full((1, 4), 1e-3)), np.array([1.0]))
    assert sharp.off == pytest.approx(2e-3)
    short = Rows.of(Estimate(np.ones((1, 4)), np.full((1, 4), 1e-3)), np.array([1e-4]))
    np.testing.assert_allclose(short.entries.error, 1e-4)
    assert Rows.of(Estimate.exact(np.ones((1, 4)))).off == 0


def test_sums_in_blocks_are_sums_of_products_of_blocks(monkeypatch):
    monkeypatch.setattr(ntkfl.smooth_networks.passes, "BLOCK", 3)
    rng = np.random.default_rng(0)
    a, matrix = rng.standard_normal((2, 5, 8)), rng.standard_normal((4, 8))
    blocks = [a[..., part] @ matrix[:, part].T for part in (slice(3), slice(3, 6), slice(6, 8))]
    np.testing.assert_array_equal(block_sums(a, matrix), (blocks[0] + blocks[1]) + blocks[2])
