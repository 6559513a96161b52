"""Tests of ball arithmetic, whose numbers (balls) are intervals that contain the exact values.

Balls contain exact rational results and eigenvalues in 60 digits. The bound on the norm of a nonnegative matrix is
tested too.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest
from flint import arb, arb_mat
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ntkfl.balls import (
    PRECISION,
    ball,
    ball_matrix,
    enclosure,
    nonnegative_norm,
    norm_inf,
    precision,
    symmetric_eigenvalues,
)

moderate = st.floats(-1e6, 1e6)
bits = st.sampled_from([30, 53, PRECISION, 300])
square = st.integers(1, 5).flatmap(lambda n: hnp.arrays(float, (n, n), elements=st.floats(-10, 10)))


def fraction(exact: arb) -> Fraction:
    mantissa, exponent = (int(part) for part in exact.man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent


def encloses(x: arb, value: Fraction, known_to: Fraction = Fraction(0)) -> bool:
    """Says whether a rational number lies in a ball, or outside it by at most `known_to`.

    The comparison is exact.
    """
    return abs(fraction(x.mid()) - value) <= fraction(x.rad()) + known_to


# matrices have norms below 1e8; an eigenvalue that mpmath computes in 60 digits is allowed this error
REFERENCE = Fraction(1, 10**50)


def reference_eigenvalues(matrix: np.ndarray) -> list[Fraction]:
    """Returns the eigenvalues in 60 digits, in ascending order."""
    with mpmath.workdps(60):
        values = mpmath.eigsy(mpmath.matrix(matrix.tolist()), eigvals_only=True)
        signed = [(int(mpmath.sign(v)), *map(int, v.man_exp)) for v in values]  # `man_exp` has no sign.
    return sorted(sign * man * Fraction(2) ** exp for sign, man, exp in signed)


@given(value=st.floats(allow_nan=False, allow_infinity=False), prec=bits)
@settings(deadline=None, max_examples=60)
def test_a_float_is_a_ball_of_radius_zero(value, prec):
    with precision(prec):
        x = ball(value)
        assert x.rad() == 0
        assert fraction(x.mid()) == Fraction(value)


@given(value=moderate, error=st.floats(0, 1e3), prec=bits)
@settings(deadline=None, max_examples=60)
def test_a_ball_contains_both_ends(value, error, prec):
    with precision(prec):
        x = ball(value, error)
        assert encloses(x, Fraction(value) + Fraction(error))
        assert encloses(x, Fraction(value) - Fraction(error))


@given(a=square, scale=st.floats(0, 1e-3), prec=bits)
@settings(deadline=None, max_examples=40)
def test_matrix_products_contain_the_exact_rational_product(a, scale, prec):
    """The bounds hold for matrices anywhere in the balls; the corners of the box of entries are tried."""
    n = len(a)
    error = scale * np.abs(a)
    with precision(prec):
        product = ball_matrix(a, error) * ball_matrix(a.T)
        for sign in (-1, 0, 1):
            moved = [
                [Fraction(v) + sign * Fraction(e) for v, e in zip(*r, strict=True)] for r in zip(a, error, strict=True)
            ]
            for i in range(n):
                for j in range(n):
                    value = sum(moved[i][k] * Fraction(a[j, k]) for k in range(n))
                    assert encloses(product[i, j], value)


def test_a_vector_becomes_a_column_and_one_error_serves_all():
    column = ball_matrix(np.array([1.0, 2.0]), 0.5)
    assert (column.nrows(), column.ncols()) == (2, 1)
    assert encloses(column[1, 0], Fraction(5, 2))
    assert encloses(column[0, 0], Fraction(1, 2))


@given(p=st.integers(-(10**9), 10**9), q=st.integers(1, 10**9), prec=bits)
@example(p=1, q=3, prec=300)
@settings(deadline=None, max_examples=60)
def test_an_enclosure_in_floats_contains_the_ball(p, q, prec):
    with precision(prec):
        estimate = enclosure(arb(p) / arb(q))
    assert estimate.method == "ball"
    assert Fraction(float(estimate.lo)) <= Fraction(p, q) <= Fraction(float(estimate.hi))


@pytest.mark.parametrize("exponent", [-1100, -1074, -1022, 1000])
def test_an_enclosure_in_floats_contains_what_underflows(exponent):
    estimate = enclosure(arb(3) * arb(2) ** exponent)
    assert Fraction(float(estimate.lo)) <= 3 * Fraction(2) ** exponent <= Fraction(float(estimate.hi))


def test_an_enclosure_of_what_overflows_has_infinite_error():
    assert enclosure(arb(2) ** 2000).hi == np.inf


def test_enclosures_keep_the_shape():
    matrix = ball_matrix(np.arange(6.0).reshape(2, 3))
    assert enclosure(matrix).value.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert enclosure([arb(1), arb(2)]).value.tolist() == [1, 2]
    assert enclosure(arb(1)).value.shape == ()


@pytest.mark.parametrize("make", [lambda: arb(1) / arb(0), lambda: arb(-1).sqrt(), lambda: [arb(1), arb("inf")]])
def test_a_ball_that_is_not_finite_is_refused(make):
    with pytest.raises(ValueError, match=r"a ball is not finite \(.*\): a division by zero or a root"):
        enclosure(make())


@given(a=square, prec=bits)
@settings(deadline=None, max_examples=40)
def test_the_row_sum_norm_is_exact_or_above(a, prec):
    with precision(prec):
        norm = fraction(norm_inf(ball_matrix(a)))
    true = max(sum(abs(Fraction(v)) for v in row) for row in a)
    assert true <= norm <= true * (1 + Fraction(2) ** (3 - prec) * 8)


@given(a=square, prec=st.sampled_from([53, PRECISION]))
@settings(deadline=None, max_examples=30)
def test_eigenvalues_of_random_matrices_are_enclosed(a, prec):
    symmetric = a + a.T
    with precision(prec):
        balls = symmetric_eigenvalues(ball_matrix(symmetric))
    for x, value in zip(balls, reference_eigenvalues(symmetric), strict=True):
        assert encloses(x, value, REFERENCE)
        assert x.rad() <= 1e-12 * max(1.0, np.abs(symmetric).max())


@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-12, 1e-6])
@pytest.mark.parametrize("n", [2, 6, 20])
def test_eigenvalues_that_nearly_meet_are_enclosed(gap, n):
    """Eigenvalues that nearly coincide are enclosed.

    The matrix is Q diag(1, 1 + gap, 1 + 2 gap, ..., 0) Q^T, in which all eigenvalues but the last one nearly coincide.
    """
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    spectrum = 1 + gap * np.arange(n)
    spectrum[-1] = 0
    matrix = q * spectrum @ q.T
    matrix = (matrix + matrix.T) / 2
    with precision():
        balls = symmetric_eigenvalues(ball_matrix(matrix))
    for x, value in zip(balls, reference_eigenvalues(matrix), strict=True):
        assert encloses(x, value, REFERENCE)
        assert x.rad() <= 1e-13 * n


@given(
    a=square,
    radius=st.floats(1e-12, 1.0),
    corner=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=30)
def test_eigenvalues_of_any_matrix_in_the_ball_are_enclosed(a, radius, corner):
    """The eigenvalues of any matrix in the ball are enclosed.

    The radius of an enclosure is at most n^2 times the radius of the entries, up to rounding.

    Let Q be the matrix of eigenvectors, and E the errors of the entries. A column of Q has a 1-norm of at most sqrt n,
    and a row of Q^T E Q has n entries.
    """
    symmetric = a + a.T
    signs = np.random.default_rng(corner).choice([-1.0, 0.0, 1.0], size=a.shape)
    # The factor .999 leaves room for rounding.
    moved = symmetric + radius * 0.999 * (np.triu(signs) + np.triu(signs, 1).T)
    with precision():
        balls = symmetric_eigenvalues(ball_matrix(symmetric, np.full(a.shape, radius)))
    for x, value in zip(balls, reference_eigenvalues(moved), strict=True):
        assert encloses(x, value, REFERENCE)
        assert x.rad() <= len(a) ** 2 * radius * (1 + 1e-6) + 1e-12


def test_the_order_is_ascending():
    balls = symmetric_eigenvalues(ball_matrix(np.diag([3.0, -1.0, 2.0])))
    assert [round(float(x)) for x in balls] == [-1, 2, 3]


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_has_no_eigenvalues(entry):
    with pytest.raises(ValueError, match="the matrix has an entry that is not finite"):
        symmetric_eigenvalues(arb_mat([[arb(1), arb(entry)], [arb(entry), arb(1)]]))


def test_the_precision_is_restored_also_after_an_error():
    before = flint.ctx.prec
    with precision(200):
        with precision(77):
            assert flint.ctx.prec == 77
        assert flint.ctx.prec == 200
    with pytest.raises(ZeroDivisionError), precision(99):
        raise ZeroDivisionError
    assert flint.ctx.prec == before


def test_threads_that_ask_for_different_precisions_leave_none_behind_and_have_what_they_asked_for():
    before, met = flint.ctx.prec, threading.Barrier(2)

    def first():
        with precision(300):
            met.wait()  # Both threads are now inside their contexts.
            met.wait()

    def second():
        with precision(100):
            met.wait()
            during = flint.ctx.prec
            met.wait()
            other.result()  # The first thread has left its context.
            return during, flint.ctx.prec

    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(first)
        assert pool.submit(second).result() == (300, 100)
    assert flint.ctx.prec == before


def test_no_balls_are_enclosed_by_no_numbers():
    assert enclosure([]).value.shape == (0,)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(0, 1))
def test_nonnegative_norm_is_a_sharp_upper_bound(seed, n, density):
    """The bound on the norm is sharp; the draws include reducible matrices and the zero matrix."""
    rng = np.random.default_rng(seed)
    a = rng.exponential(size=(n, n)) * (rng.random((n, n)) < density) * 10.0 ** rng.integers(-8, 9)
    a = np.triu(a) + np.triu(a, 1).T
    with precision():
        bound = nonnegative_norm(ball_matrix(a))
        with mpmath.workdps(40):
            exact = max(mpmath.eigsy(mpmath.matrix(a.tolist()), eigvals_only=True))
            assert mpmath.mpf(float(bound)) >= exact * (1 - mpmath.mpf(2) ** -53)
        assert float(bound) <= float(exact) * (1 + 1e-5)


def test_nonnegative_norm_covers_the_radii_of_zeros():
    with precision():
        assert nonnegative_norm(ball_matrix(np.zeros((2, 2)), 0.25)) >= 0.5
        assert nonnegative_norm(arb_mat([[0, 0], [0, 0]])) == 0
