"""Tests of Gram matrices, safe neurons and eigenvalues for numbers of any size.

Enclosures hold even if squares vanish or overflow.
"""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import example, given, settings, strategies as st

from ntkfl.balls import ball_matrix, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate
from ntkfl.gram import (
    doubtful,
    finite,
    finite_estimate,
    infinite_estimate,
    safe_neurons,
    smallest_eigenvalue,
    spectrum,
)
from ntkfl.rounding import products_scaled_back, row_norms

SIZES = st.integers(-1066, 1000)  # exponents of two, from a few bits above the least float64 to 1e301


@st.composite
def rows(draw, count):
    """Draws rows of small integers, each times its own power of two; some are parallel, opposite or orthogonal."""
    numbers = draw(st.lists(st.tuples(*3 * [st.integers(-9, 9)]).filter(any), min_size=count, max_size=count))
    exponents = draw(st.lists(SIZES, min_size=count, max_size=count) | SIZES.map(lambda e: [e] * count))
    return np.ldexp(np.array(numbers, float), np.array(exponents)[:, None])


def exact_dot(a, b):
    return sum((Fraction(p) * Fraction(q) for p, q in zip(a, b, strict=True)), Fraction(0))


def to_arb(fraction):
    return arb(fraction.numerator) / arb(fraction.denominator)


def exact_infinite(a, b):
    """Returns x.z (pi - angle) / (2 pi) in ball arithmetic."""
    dot, cosine = to_arb(exact_dot(a, b)), exact_dot(a, b) ** 2 / (exact_dot(a, a) * exact_dot(b, b))
    root = to_arb(cosine).sqrt() if cosine < 1 else arb(1)
    return dot * (arb.pi() - (root if dot >= 0 else -root).acos()) / (2 * arb.pi())


def inside(estimate, exact):
    return (
        arb(float(estimate.value)) - arb(float(estimate.error))
        <= exact
        <= arb(float(estimate.value)) + arb(float(estimate.error))
    )


@settings(deadline=None, max_examples=80)
@given(rows(3), rows(2))
@example(np.full((3, 1), 2.0**-1074) * [1, 2, 3], np.full((2, 1), 1.0) * [1, 2, -3])
@example(np.ldexp(np.eye(3), -540), np.ldexp(np.ones((2, 3)), -540))
@example(np.ldexp(np.eye(3), -700), np.ldexp(np.ones((2, 3)), 900))
def test_the_limit_is_enclosed_or_refused_at_any_size(x, z):
    with precision(300):
        for second in (None, z):
            other = x if second is None else second
            try:
                kernel = infinite_estimate(x, second)
            except ValueError as refusal:
                assert "have a product beyond float64; rescale" in str(refusal)
                assert max(abs(exact_dot(a, b)) for a in x for b in other) > 1e300 or np.abs(x).max() > 1e150
                continue
            for i, a in enumerate(x):
                for j, b in enumerate(other):
                    exact = exact_infinite(a, b)
                    assert exact.rad() < abs(exact) * 1e-40 + arb(2) ** -1200
                    assert inside(kernel[i, j], exact)


@settings(deadline=None, max_examples=80)
@given(rows(3), rows(4))
@example(np.ldexp(np.eye(3), -540), np.ldexp(np.ones((4, 3)), -540))
def test_finite_gram_matrices_are_enclosed_at_any_size(x, u):
    try:
        kernel = finite_estimate(x, u)
    except ValueError as refusal:
        assert "have a product beyond float64; rescale" in str(refusal)
        return
    assert np.array_equal(kernel.value, finite(x, u))
    for i, a in enumerate(x):
        for j, b in enumerate(x):
            both = sum(exact_dot(a, w) >= 0 and exact_dot(b, w) >= 0 for w in u)
            off = abs(Fraction(float(kernel.value[i, j])) - exact_dot(a, b) * both / len(u))
            assert off <= Fraction(float(kernel.error[i, j]))


@settings(deadline=None, max_examples=80)
@given(rows(3), rows(4), st.integers(1, 9), SIZES)
@example(np.ldexp(np.eye(3), -600), np.ones((4, 3)), 1, 3)
@example(np.ldexp(np.eye(3), -600), np.ldexp(np.ones((4, 3)), -600), 1, -590)
@example(np.ones((3, 3)), np.ldexp(np.ones((4, 3)), 900), 1, -1074)
def test_a_neuron_called_safe_is_safe_at_any_size(x, u, digit, exponent):
    radius = float(np.ldexp(digit, exponent))
    safe, count = safe_neurons(x, u, radius), doubtful(x, u, radius)
    for i, a in enumerate(x):
        reached = [exact_dot(a, w) ** 2 <= Fraction(radius) ** 2 * exact_dot(a, a) for w in u]
        assert not (
            safe[i]
            & [
                hit and exact_dot(a, w) ** 2 != Fraction(radius) ** 2 * exact_dot(a, a)
                for hit, w in zip(reached, u, strict=True)
            ]
        ).any()
        assert count[i] >= sum(reached)


@settings(deadline=None, max_examples=40)
@given(rows(4))
def test_norms_of_rows_of_any_size(x):
    for row, norm in zip(x, row_norms(x), strict=True):
        off = abs(Fraction(float(norm)) ** 2 - exact_dot(row, row))
        assert off <= Fraction(1, 2**49) * exact_dot(row, row) + Fraction(float(norm)) * Fraction(1, 2**1072)


@pytest.mark.parametrize("route", ["balls", "dense", "Lanczos"])
@pytest.mark.parametrize("exponent", [-1060, -1013, -500, 500, 1015])
def test_the_smallest_eigenvalue_of_a_scaled_matrix_is_the_scaled_one(route, exponent, monkeypatch):
    monkeypatch.setattr(spectrum, "BALL_ARITHMETIC_UP_TO", 100 if route == "balls" else 0)
    monkeypatch.setattr(spectrum, "LANCZOS_FROM", 0 if route == "Lanczos" else 100)
    a = np.random.default_rng(3).integers(-3, 4, size=(12, 12)).astype(float)
    h = np.ldexp(a @ a.T + np.eye(12), exponent)
    error = np.ldexp(np.ones((12, 12)), exponent - 30)
    with precision(300):
        exact = symmetric_eigenvalues(ball_matrix(h))[0]
        for given_as in (h, Estimate(h, error)):
            eigenvalue = smallest_eigenvalue(given_as)
            assert inside(eigenvalue, exact.mid())
            assert eigenvalue.error <= np.ldexp(1e-11, exponent) + (given_as is not h) * 13 * error[0, 0] + 2.0**-1073


def test_an_eigenvalue_beyond_float64_is_refused():
    with pytest.raises(
        ValueError, match=r"the eigenvalue is -2 ± .* times 2\^1024, beyond float64; rescale the matrix"
    ):
        smallest_eigenvalue(np.full((4, 4), -(2.0**1023)))


def test_blocks_of_products_are_scaled_back_by_the_exponents_of_their_own_rows():
    rng = np.random.default_rng(0)
    (left, right), products = (rng.integers(-40, 40, size) for size in (300, 70)), rng.normal(size=(300, 70))
    expected = products * 2.0 ** left[:, None] * 2.0**right
    assert np.array_equal(products_scaled_back(products, left, right), expected)
    left[290], right[3] = 600, 600
    with pytest.raises(ValueError, match=r"up to 2\^600 and 2\^600 have a product beyond float64; rescale them"):
        products_scaled_back(np.full((300, 70), 0.5), left, right)
