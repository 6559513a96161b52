"""Tests of the search for the boundary between values that succeed and values that fail.

The search encloses the boundary between two values whose ratio is at most the given ratio, from a start on either side.
If there is no boundary within the range, one of the two values is None.
"""

import pytest
from hypothesis import given, settings, strategies as st

from verification.judging.boundary import boundary


@settings(max_examples=50, deadline=None)
@given(
    at=st.floats(1.0, 1e5), start=st.floats(0.5, 2e5), ratio=st.sampled_from([1.01, 1.1, 2.0]), upwards=st.booleans()
)
def test_the_boundary_is_bracketed(at, start, ratio, upwards):
    asked = []

    def succeeds(value):
        asked.append(value)
        return value <= at if upwards else value >= at

    bracket = boundary(
        succeeds,
        start,
        harder=2.0 if upwards else 0.5,
        easiest=0.1 if upwards else 1e6,
        hardest=1e6 if upwards else 0.1,
        ratio=ratio,
    )
    low, high = sorted((bracket.value, bracket.failed))
    assert low <= at <= high and high / low <= ratio * (1 + 1e-12)
    assert {bracket.value, bracket.failed} <= set(asked)
    assert len(asked) <= 60


def test_no_boundary_within_the_range():
    always = boundary(lambda v: True, 4.0, harder=0.5, easiest=100.0, hardest=1.0)
    assert (always.value, always.failed) == (1.0, None)
    never = boundary(lambda v: False, 4.0, harder=0.5, easiest=100.0, hardest=1.0)
    assert (never.value, never.failed) == (None, 100.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 200.0}, r"the start is 200; it must be within 1 to 100"),
        ({"harder": 2.0}, r"the factor is 2 and the ratio 1\.1; give a factor towards 1"),
        ({"ratio": 1.0}, r"the factor is 0\.5 and the ratio 1;"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(change, message):
    given_ = {"start": 4.0, "harder": 0.5, "easiest": 100.0, "hardest": 1.0, "ratio": 1.1} | change
    with pytest.raises(ValueError, match=message):
        boundary(lambda v: True, given_.pop("start"), **given_)


def test_a_ratio_finer_than_the_floats_ends():
    bracket = boundary(lambda v: v <= 3.0, 2.0, harder=2.0, easiest=1.0, hardest=8.0, ratio=1 + 2**-52)
    assert bracket.value <= 3.0 < bracket.failed and bracket.failed - bracket.value <= 2**-50
