"""Tests of `Estimate`: it encloses its exact value, and its constructor refuses values that are no enclosure."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from flint import arb
from hypothesis import example, given, settings, strategies as st

from ntkfl.estimate import Estimate, Rigour

finite = st.floats(allow_nan=False, allow_infinity=False)
errors = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


def exact(x) -> Fraction | float:
    """Returns a float as an exact Fraction; infinities are unchanged, and compare correctly with Fractions."""
    return Fraction(float(x)) if np.isfinite(x) else float(x)


@given(value=finite, error=errors)
@example(value=1.0, error=2.0**-60)
@example(value=-1.7e308, error=1.7e308)
@example(value=5e-324, error=5e-324)
@settings(deadline=None, max_examples=300)
def test_ends_enclose_value_plus_minus_error(value, error):
    estimate = Estimate(value, error)
    assert exact(estimate.lo) <= Fraction(value) - Fraction(error)
    assert exact(estimate.hi) >= Fraction(value) + Fraction(error)


@given(value=finite, error=errors)
@settings(deadline=None, max_examples=200)
def test_ends_are_within_two_units_of_the_last_place(value, error):
    estimate = Estimate(value, error)
    for end, true in (
        (estimate.lo, Fraction(value) - Fraction(error)),
        (estimate.hi, Fraction(value) + Fraction(error)),
    ):
        if np.isfinite(end) and abs(end) < np.finfo(float).max:
            assert abs(exact(end) - true) <= 2 * Fraction(float(np.spacing(abs(end))))


@given(value=finite)
def test_without_error_the_ends_are_the_value(value):
    estimate = Estimate.exact(value)
    assert estimate.lo == estimate.hi == value
    assert estimate.method == "exact"


@given(ends=st.tuples(finite, finite).map(sorted))
@example(ends=[5e-324, 5e-324])
@example(ends=[-1.7e308, 1.7e308])
@example(ends=[1.0, 1.0 + 2.0**-52])
@settings(deadline=None, max_examples=300)
def test_between_encloses_both_ends_and_little_more(ends):
    lo, hi = ends
    estimate = Estimate.between(lo, hi, "ball")
    assert exact(estimate.lo) <= Fraction(lo)
    assert Fraction(hi) <= exact(estimate.hi)
    if lo == hi:
        assert (estimate.value, estimate.error) == (lo, 0)
    elif np.isfinite(estimate.error):
        slack = 4 * (Fraction(2) ** -52 * Fraction(max(-lo, hi)) + Fraction(2) ** -1074)
        assert Fraction(float(estimate.error)) <= (Fraction(hi) - Fraction(lo)) / 2 + slack


@pytest.mark.parametrize(("lo", "hi"), [(-np.inf, 5.0), (5.0, np.inf), (-np.inf, np.inf)])
def test_between_infinite_ends_is_an_enclosure_of_infinite_width(lo, hi):
    estimate = Estimate.between(lo, hi, "ball")
    assert (estimate.lo, estimate.hi) == (-np.inf, np.inf)


def test_an_infinite_value_of_infinite_error_encloses_everything():
    estimate = Estimate(np.inf, np.inf)
    assert (estimate.lo, estimate.hi) == (-np.inf, np.inf)


def test_one_error_serves_all_values_and_indexing_keeps_it():
    estimate = Estimate([1.0, 2.0, 3.0], 0.5, "rounding bound")
    part = estimate[1:]
    assert part.value.tolist() == [2.0, 3.0]
    assert part.error.tolist() == [0.5, 0.5]
    assert part.method == "rounding bound"


def test_it_is_a_value_nobody_can_change():
    mine = np.array([1.0, 2.0])
    estimate = Estimate(mine, 0.1)
    mine[0] = 7.0
    assert estimate.value.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        estimate.value[0] = 3.0
    with pytest.raises(AttributeError):
        estimate.value = np.zeros(2)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.nan, 0.0, r"value is NaN \(ball\)"),
        ([1.0, np.nan], 0.0, r"value is NaN \(ball\)"),
        (1.0, -1e-300, r"error is -1e-300 \(ball\): it must be 0 or more"),
        (1.0, np.nan, r"error is nan \(ball\): it must be 0 or more"),
        ([1.0, 2.0], [0.1, 0.1, 0.1], r"error has shape \(3,\), its value \(2,\): they must agree"),
        (1.0, [0.1], r"error has shape \(1,\), its value \(\): they must agree"),
    ],
)
def test_what_is_no_enclosure_is_refused(value, error, message):
    with pytest.raises(ValueError, match=message):
        Estimate(value, error, "ball")


@pytest.mark.parametrize(("lo", "hi"), [(2.0, 1.0), (np.nan, 1.0), (0.0, np.nan), ([0.0, 2.0], [1.0, 1.0])])
def test_ends_in_the_wrong_order_are_refused(lo, hi):
    with pytest.raises(ValueError, match=r"an enclosure from .* to .* \(ball\): its ends must be in order"):
        Estimate.between(lo, hi, "ball")


def test_it_prints_its_error():
    assert str(Estimate(0.25, 1e-9)) == "0.25 ± 1.0e-09"
    assert str(Estimate.exact(3)) == "3"
    assert str(Estimate(np.zeros((2, 3)), 1e-9)) == "array of shape (2, 3) ± 1.0e-09"


@pytest.mark.parametrize("value", [0.0, 1.0, -3e-310, 1.7e308, np.inf, -np.inf])
@pytest.mark.parametrize("error", [0.0, 5e-324, 1e-3, 1.7e308, np.inf])
def test_the_ends_of_a_number_are_those_of_an_array_of_one(value, error):
    one, array = Estimate(value, error), Estimate([value], [error])
    assert (one.lo, one.hi) == (array.lo[0], array.hi[0])
    assert one.lo.shape == one.hi.shape == () and not one.lo.flags.writeable


@pytest.mark.parametrize("value", [2**53 + 1, [1, -(2**53) - 1], np.array([2**63 - 1]), 10**30, 10**400])
def test_an_integer_that_would_be_rounded_is_not_exact(value):
    with pytest.raises(ValueError, match="is no float64: give it rounded, or as an Estimate with its error"):
        Estimate.exact(value)


THIRDS = Fraction(1, 3), [0.5, Fraction(1, 3)], Decimal("0.1"), sp.Rational(1, 3), arb(1) / 3, np.longdouble(1) / 3


@pytest.mark.parametrize("value", THIRDS, ids=str)
def test_a_number_that_float64_rounds_is_not_exact(value):
    """A number that float64 would round is not accepted as an exact number.

    In earlier code such numbers were rounded and taken as exact. Two sides of a comparison then counted as different
    if they differed by less than the rounding.
    """
    with pytest.raises(ValueError, match="is no float64: give it rounded, or as an Estimate with its error"):
        Estimate.exact(value)
    with pytest.raises(ValueError, match="is no float64"):
        Estimate.exact(1.0) + value


@pytest.mark.parametrize(
    "value", [Fraction(3, 8), Decimal("0.375"), sp.Rational(3, 8), arb("0.375"), np.longdouble(0.375)]
)
def test_other_kinds_of_numbers_that_are_floats_are_exact(value):
    assert Estimate.exact(value).value == 0.375 and Estimate.exact(value).error == 0


def test_an_integer_is_not_rounded_unnoticed_beside_an_error():
    with pytest.raises(ValueError, match="an integer of 54 bits that no float64 equals"):
        Estimate(2**53 + 1, 0.0)


@pytest.mark.parametrize("value", [2**53, -(2**60), [3, 2**62], 2**1000, np.arange(4), True])
def test_an_integer_that_is_a_float_is_exact(value):
    assert np.array_equal(Estimate.exact(value).value, np.array(value, float))


def test_what_is_stacked_is_known_no_better_than_its_parts():
    parts = Estimate([1.0, 2.0], [0.1, 0.2], "ball", Rigour.ENCLOSED), Estimate([3.0, 4.0], 0.5, "guess"), [5, 6]
    for axis in (0, 1):
        both = Estimate.stacked(parts, axis)
        assert (both.method, both.rigour) == ("ball; guess", Rigour.MEASURED)
        for k, part in enumerate(parts):
            of_stack = both[k] if axis == 0 else both[:, k]
            wanted = part if isinstance(part, Estimate) else Estimate.exact(part)
            assert (of_stack.lo == wanted.lo).all() and (of_stack.hi == wanted.hi).all()
    exact = Estimate.stacked([1, 2.5])
    assert (exact.method, exact.rigour, exact.value.tolist()) == ("exact", Rigour.EXACT, [1.0, 2.5])
    with pytest.raises(ValueError, match="same shape"):
        Estimate.stacked([1.0, [1.0, 2.0]])
    with pytest.raises(ValueError, match="at least one array"):
        Estimate.stacked([])
