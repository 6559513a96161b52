"""Tests of fractions that lie between roots of quadratic polynomials."""

from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity.paths.exact_roots import Root, rational_between

# A `Root` with a sign in front of its square root is irrational.
IRRATIONAL = st.builds(
    lambda part, factor: part * part * factor, st.fractions("1/9", 3, max_denominator=9), st.sampled_from([2, 3, 6])
)
ROOTS = st.builds(Root, st.fractions(-3, 3, max_denominator=9), st.sampled_from([-1, 1]), IRRATIONAL)
RATIONAL = st.builds(Root, st.fractions(-3, 3, max_denominator=9))


@settings(deadline=None)
@given(one=ROOTS | RATIONAL, other=ROOTS | RATIONAL)
def test_a_fraction_lies_between_two_roots_and_none_between_equal_ones(one, other):
    low, high = sorted((one, other))
    if low < high:
        assert low < Root(rational_between(low, high)) < high
    with pytest.raises(ValueError, match="there is no number between"):
        rational_between(high, low)


def test_roots_that_floats_cannot_tell_apart_have_one_between_them():
    low, high = Root(Fraction(0), 1, Fraction(2)), Root(Fraction(1, 10**60), 1, Fraction(2))
    assert low < Root(rational_between(low, high)) < high
