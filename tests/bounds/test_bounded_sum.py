"""Tests of the tails of sums of two-point variables, which are compared with enumerations of every outcome.

Every drawn case satisfies the hypotheses of Bernstein's inequality.
"""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from bounds.cases.bounded_sum import BOUNDED_SUMS, BoundedSum, exact

SUMS = st.builds(
    BoundedSum,
    st.integers(1, 7),
    st.fractions(Fraction(1, 16), Fraction(1, 2), max_denominator=16),
    st.fractions(Fraction(1, 4), 4, max_denominator=8),
    st.fractions(0, 30, max_denominator=8),
)


def enclosed(value, estimate):
    return abs(value - Fraction(float(estimate.value))) <= Fraction(float(estimate.error))


def outcomes(case):
    """Yields the sum and the probability of each of the 2^n outcomes."""
    high, low = case.bound, -case.bound * case.p / (1 - case.p)
    for signs in itertools.product((True, False), repeat=case.count):
        chance = math.prod((case.p if up else 1 - case.p) for up in signs)
        yield sum(high if up else low for up in signs), chance


@settings(deadline=None, max_examples=60)
@given(case=SUMS)
def test_probabilities_are_those_of_all_outcomes(case):
    law = list(outcomes(case))
    assert sum(chance for _, chance in law) == 1
    assert sum(value * chance for value, chance in law) == 0  # The mean is zero.
    assert sum(value**2 * chance for value, chance in law) == case.count * case.variance
    above = sum((chance for value, chance in law if value >= case.t), Fraction(0))
    below = sum((chance for value, chance in law if value <= case.t), Fraction(0))
    assert enclosed(above, case.probability(above=True))
    assert enclosed(below, case.probability(above=False))


@settings(deadline=None, max_examples=40)
@given(case=SUMS)
def test_the_two_tails_overlap_in_their_atom(case):
    atom = sum((chance for value, chance in outcomes(case) if value == case.t), Fraction(0))
    together = float(case.probability(True).value) + float(case.probability(False).value)
    assert abs(together - 1 - float(atom)) < 1e-14


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(1), Fraction(0), Fraction(1, 3**700), Fraction(2, 7**5)])
def test_a_rational_lies_in_its_enclosure(value):
    enclosure = exact(value)
    assert enclosed(value, enclosure)
    assert enclosure.error <= 2**-52 * enclosure.value + 1e-320


def test_every_draw_meets_the_hypotheses_of_bernstein_and_can_be_told_apart():
    cases = [BOUNDED_SUMS.case(seed) for seed in range(300)]
    for case in cases:
        assert case.bound * case.p / (1 - case.p) <= case.bound  # |X| <= M
        assert 0 < case.t <= case.count * case.bound
    assert len(set(cases)) > 290
    assert cases[7] == BOUNDED_SUMS.case(7)
    assert {case.count for case in cases} >= {1, 40}
    assert cases[0].describe().keys() == {"n", "p", "M", "t"}
