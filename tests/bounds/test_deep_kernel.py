"""Tests of the statement deep/kernel: its rows of data, its recursion, and its verdict on wrong kernels.

The recursion is compared with independent integrals.
"""

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad
from scipy.special import erf as error_function

from bounds import Form, Options, Outcome, get
from bounds.deep.kernel import DeepRows, Recursion, bias, first, inner, rows_families, second
from verification.compare import judge
from verification.planted_faults.catalogue import KERNELS
from verification.planted_faults.noticing import noticed

SLOPES = {
    "relu": (lambda u: np.maximum(u, 0), lambda u: 1.0 * (u > 0)),
    "erf": (error_function, lambda u: 2 / np.sqrt(np.pi) * np.exp(-u * u)),
    "gelu": (
        lambda u: u * (1 + error_function(u / np.sqrt(2))) / 2,
        lambda u: (1 + error_function(u / np.sqrt(2))) / 2 + u * np.exp(-u * u / 2) / np.sqrt(2 * np.pi),
    ),
}


def integral(function, a, b, c):
    """Returns E[function(u) function(v)] over a Gaussian pair (u, v).

    The integral is taken in polar coordinates, in which ReLU's kinks lie at known angles.
    """
    factor = np.linalg.cholesky([[a, c], [c, b]])
    directions = [np.arctan2(*(row * [1, -1])) for row in factor]  # the angles of the kinks, u = 0 and v = 0
    kinks = sorted((d + k * np.pi) % (2 * np.pi) for d in directions for k in range(2))
    radii, weights = np.polynomial.laguerre.laggauss(80)  # The nodes are values of r^2 / 2.
    radii = np.sqrt(2 * radii)

    def along(t):
        u, v = (radii * (row @ [np.cos(t), np.sin(t)]) for row in factor)
        return weights @ (function(u) * function(v)) / (2 * np.pi)

    ends = [0, *kinks, 2 * np.pi]
    return sum(quad(along, p, q, epsabs=1e-11)[0] for p, q in pairwise(ends) if q > p)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("activation", sorted(SLOPES))
def test_the_recursion_is_that_of_the_integrals(activation, depth):
    phi, slope = SLOPES[activation]
    a, b, c, square = 0.9, 0.6, 0.35, 0.25
    covariance, theta = np.array([[a, c], [c, b]]) + square, c + square
    for layer in range(2, depth + 1):
        (p, q), (_, r) = covariance
        gain = 2 if activation == "relu" and layer < depth else 1
        kernel = theta * integral(slope, p, r, q) + integral(phi, p, r, q)
        own = [integral(phi, v, v, v * (1 - 1e-13)) for v in (p, r)]
        covariance = gain * (np.diag(own) + integral(phi, p, r, q) * (1 - np.eye(2))) + square
        theta = gain * kernel + square
    known = {first: a, second: b, inner: c, bias: 0.5}
    assert float(Recursion(activation, depth).expression().subs(known)) == pytest.approx(kernel, rel=1e-6)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("activation", "depth"),
    [("relu", 3), pytest.param("relu", 4, marks=pytest.mark.slow), ("erf", 3), ("gelu", 3)],
)
def test_a_sample_with_itself_is_the_limit_of_two_equal_ones(activation, depth):
    size = sp.Rational(7, 10)
    known = {first: size, second: size, inner: size * (1 - sp.Rational(1, 10**30)), bias: sp.Rational(1, 2)}
    pair = Recursion(activation, depth).expression().subs(known).evalf(50)
    alone = Recursion(activation, depth, one=True).expression().subs(known).evalf(50)
    assert abs(float(pair - alone)) < 1e-12


@given(seed=st.integers(0, 10**6), n=st.integers(2, 5), d=st.integers(1, 800))
@settings(max_examples=30, deadline=None)
def test_inner_products_of_rounded_rows_have_no_error(seed, n, d):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * 10 ** rng.uniform(-3, 3, (n, 1))
    case = DeepRows.of(x, 0.5)
    assert (case.products.error == 0).all()
    assert np.abs(case.x - x).max() <= 2.0**-20 * np.abs(x).max()
    assert np.array_equal(DeepRows.of(case.x, 0.5).x, case.x)


@pytest.mark.parametrize("seed", range(4))
def test_it_holds_with_biases_and_without_and_not_of_parallel_rows(seed):
    statement = get("deep/kernel")
    for draw in rows_families(Options(trials=1)):
        assert judge(statement, Form.NEW, draw.case(seed)).outcome is Outcome.HOLDS
    (hypothesis,) = statement.hypotheses
    x = rows_families(Options())[0].case(seed).x
    assert hypothesis.met(DeepRows.of(x, 0.0))
    assert not hypothesis.met(DeepRows.of(np.concatenate([x, 2 * x[:1]]), 0.0))


def test_rows_are_the_users_where_there_are_some():
    (draw, other) = rows_families(Options(data="digits", trials=2))
    case = draw.case(1)
    assert case.source == "digits" and case.x.shape == (6, 64) and other.case(1).bias == 0.5
    assert not np.array_equal(case.x, draw.case(2).x)
    assert "digits, no biases" in draw.name


def test_faults_of_the_library_are_noticed():
    own = [mutant for mutant in KERNELS if mutant.function.startswith("ntkfl.gram.deep:")]
    assert len(own) == 2
    assert [fault.id for fault in noticed(own)] == ["deep/kernel"] * 2
