"""Tests of arithmetic with Estimates: results enclose the exact results for points of the enclosures.

The exact results are computed in ball arithmetic with a thousand bits.
"""

import random

import flint
import numpy as np
import pytest
from flint import arb

from ntkfl.estimate import Estimate, Rigour

SHAPE = (2, 2)
BITS = 1000


def leaf(rng, spread):
    """Returns an Estimate of shape (2, 2) and an exact point of its enclosure.

    The entries have sizes up to 10^+-spread, and some are 0.
    """
    size = [rng.choice((0.0, -1, 1, -1, 1)) * 10 ** rng.uniform(-spread, spread) for _ in range(4)]
    value = np.array(size).reshape(SHAPE)
    relative = rng.choice((0.0, 1.0, 10 ** rng.uniform(-17, 0)))
    error = np.abs(value) * relative + rng.choice((0.0, 0.0, 5e-324, 10 ** rng.uniform(-spread, spread)))
    where = [rng.choice((-1, 1, 0, rng.uniform(-1, 1))) for _ in range(4)]
    point = [arb(v) + arb(t) * arb(e) for v, e, t in zip(value.ravel(), error.ravel(), where, strict=True)]
    return Estimate(value, error, "a leaf", Rigour.ENCLOSED), np.array(point, dtype=object).reshape(SHAPE)


def expression(rng, depth, spread):
    """Returns the value of a random expression of Estimates, (2, 2), and its exact value at the points of its
    leaves.
    """
    if depth == 0:
        return leaf(rng, spread)
    estimate, exact = expression(rng, depth - 1, spread)
    match rng.randrange(8):
        case 0:
            return abs(estimate), abs(exact)
        case 1:
            return estimate.squared(), exact * exact
        case 2:
            return abs(estimate).sqrt(), roots(abs(exact))
        case 3:
            other, point = leaf(rng, spread)
            axis = rng.choice((None, 0, 1))
            squares = (exact * exact).sum(axis=axis)
            return estimate.norm(axis) * other, roots(np.asarray(squares, dtype=object)) * point
    other, point = expression(rng, rng.randrange(depth), spread)
    match rng.randrange(4):
        case 0:
            return estimate + other, exact + point
        case 1:
            return estimate - other, exact - point
        case 2:
            return estimate * other, exact * point
        case _:
            return estimate @ other, exact @ point


roots = np.frompyfunc(arb.sqrt, 1, 1)


def missed(estimate, exact):
    """Says whether some exact entry surely lies outside the enclosure."""
    pairs = zip(exact.ravel(), estimate.value.ravel(), estimate.error.ravel(), strict=True)
    return any(np.isfinite(v) and np.isfinite(e) and abs(x - arb(float(v))) > arb(float(e)) for x, v, e in pairs)


@pytest.mark.parametrize("spread", [12, 307, *(pytest.param(spread, marks=pytest.mark.slow) for spread in (1, 150))])
def test_no_enclosure_of_2500_random_expressions_is_missed(spread):
    rng, known = random.Random(spread), 0
    flint.ctx.prec = BITS
    try:
        for _ in range(2500):
            try:
                estimate, exact = expression(rng, rng.randrange(1, 6), spread)
            except ValueError as error:  # Infinity minus infinity and 0 times infinity must be refused.
                assert "NaN" in str(error) and spread > 12
                continue
            known += bool(np.isfinite(estimate.error).all())
            assert not missed(estimate, exact)
    finally:
        flint.ctx.prec = 53
    assert known > (2400 if spread <= 12 else 1000)  # the number of cases that had an enclosure


def test_an_enclosure_that_is_too_small_would_be_noticed():
    caught, rng = 0, random.Random(0)
    flint.ctx.prec = BITS
    try:
        for _ in range(200):
            estimate, exact = expression(rng, 3, 1)
            caught += missed(Estimate(estimate.value, estimate.error * 1e-3), exact)
    finally:
        flint.ctx.prec = 53
    assert caught > 20


@pytest.mark.parametrize("errors", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_a_product_beyond_float64_has_an_infinite_error_and_one_of_zeros_none(errors):
    """A product beyond float64 has an infinite error, and a product of zeros has none.

    A row of a large number and a zero is multiplied by two columns. Each column has a large number and a zero. Either
    factor may be exact.
    """
    a, b = (
        Estimate(value, error * np.abs(value))
        for value, error in zip(([[1.5e154, 0]], 1.5e154 * np.eye(2)), errors, strict=True)
    )
    product = a @ b
    assert np.isinf(product.value[0, 0]) and np.isinf(product.error[0, 0])
    assert product.value[0, 1] == 0 == product.error[0, 1]


@pytest.mark.parametrize("spread", [1, 12, 307])
def test_extremes_enclose_those_of_every_point_and_the_ends_are_reached(spread):
    rng = random.Random(spread)
    for _ in range(500):
        estimate, point = leaf(rng, spread)
        for axis in (None, 0, 1):
            points = point.ravel() if axis is None else point
            for extreme, exact, end in ((estimate.max, arb.max, np.max), (estimate.min, arb.min, np.min)):
                enclosure = extreme(axis)
                assert not missed(enclosure, np.asarray(np.frompyfunc(exact, 2, 1).reduce(points, axis=axis or 0)))
                lo, hi = end(estimate.lo, axis=axis), end(estimate.hi, axis=axis)
                rounding = 1e-15 * np.maximum(abs(lo), abs(hi)) + 1e-322
                assert (lo - enclosure.lo <= rounding).all() and (enclosure.hi - hi <= rounding).all()


def test_the_entry_of_the_largest_value_need_not_decide_the_extremes():
    # The intervals are [-2, 4], [1.5, 2.5] and [0, 0].
    wide = Estimate([1.0, 2.0, 0.0], [3.0, 0.5, 0.0], "counts", Rigour.ENCLOSED)
    for extreme, lo, hi in ((wide.max(), 1.5, 4.0), (wide.min(), -2.0, 0.0)):
        assert (float(extreme.lo), float(extreme.hi)) == pytest.approx((lo, hi), abs=1e-14)
        assert (extreme.method, extreme.rigour) == ("counts", Rigour.ENCLOSED)
    exact = Estimate.exact([3.0, -1.0])
    assert [(float(e.value), float(e.error), e.rigour) for e in (exact.max(), exact.min())] == [
        (3.0, 0.0, Rigour.EXACT),
        (-1.0, 0.0, Rigour.EXACT),
    ]
    with pytest.raises(ValueError, match="zero-size array"):
        Estimate.exact(np.zeros(0)).max()


@pytest.mark.parametrize("relative", [1e-13, 1e-6, 1e-2])
def test_no_wider_than_twice_what_balls_give(relative):
    rng = np.random.default_rng(0)
    a, b = (Estimate(v, relative * np.abs(v), "x", Rigour.ENCLOSED) for v in rng.uniform(0.5, 2, (2, 4, 4)))
    ball = np.frompyfunc(lambda v, e: arb(float(v), float(e)), 2, 1)
    x, y = (ball(operand.value, operand.error) for operand in (a, b))
    pairs = [(a + b, x + y), (a - b, x - y), (a * b, x * y), (a @ b, x @ y), (a.squared(), x * x), (a.sqrt(), roots(x))]
    for estimate, balls in pairs:
        radii = np.array([float(ball.rad()) for ball in balls.ravel()]).reshape(estimate.value.shape)
        assert (estimate.error <= 2 * radii).all()


def test_what_is_exact_stays_so_where_nothing_is_rounded():
    one, nothing = Estimate.exact(np.ones(2)), Estimate.exact(np.zeros(2))
    for estimate in (
        nothing + nothing,
        nothing * one,
        nothing @ one,
        nothing.sqrt(),
        nothing.norm(),
        abs(-one),
        nothing - 0,
    ):
        assert not estimate.error.any()
    assert (abs(-one)).rigour is Rigour.EXACT
    known = Estimate(np.array([0.1, 0.2, 0.3]), np.array([0.0, 1e-40, 1e-3]))
    masked = known * np.array([1.0, -1.0, 0.0])
    np.testing.assert_array_equal(masked.value, [0.1, -0.2, 0.0])
    np.testing.assert_array_equal(masked.error, [0.0, 1e-40, 0.0])


def test_what_is_computed_is_known_no_better_than_what_it_is_made_of():
    measured, ball = Estimate(1.0, 0.1, "two summation orders"), Estimate(1.0, 0.1, "ball", Rigour.ENCLOSED)
    sampled = Estimate(1.0, 0.1, "an interval", Rigour.SAMPLED)
    assert (ball + 1).rigour is (1 - ball).rigour is (ball * ball).rigour is Rigour.ENCLOSED
    assert (ball * measured).rigour is Rigour.MEASURED and max(Rigour) is Rigour.SAMPLED
    assert (measured - sampled).rigour is Rigour.SAMPLED and (ball + measured).method == "ball; two summation orders"
    assert (Estimate.exact(2.0) * 3).method == "rounding bound"
    assert (np.ones(2) - ball).value.shape == (2,) and (np.eye(2) @ Estimate.exact(np.ones(2))).value.shape == (2,)


def test_a_root_of_what_is_surely_negative_is_refused():
    with pytest.raises(ValueError, match="a square root of at most -1"):
        Estimate(-2.0, 1.0 - 1e-9).sqrt()
    assert Estimate(-2.0, 3.0).sqrt().hi >= 1


def test_logarithms_enclose_and_have_no_lower_end_at_zero():
    rng = np.random.default_rng(0)
    value = 10 ** rng.uniform(-300, 300, 2000)
    error = value * rng.choice([0, 1e-16, 1e-3, 0.999], 2000)
    logarithm = Estimate(value, error).log()
    for v, e, lo, hi in zip(value, error, logarithm.lo, logarithm.hi, strict=True):
        low, high = (arb(float(v)) - arb(float(e))).log(), (arb(float(v)) + arb(float(e))).log()
        assert not arb(float(lo)) > low and not arb(float(hi)) < high
    assert Estimate(1.0, 2.0).log().lo == -np.inf and Estimate(1.0, 2.0).log().hi >= np.log(3)
    with pytest.raises(ValueError, match="the logarithm of at most -1"):
        Estimate(-2.0, 1.0 - 1e-9).log()
