"""Tests of the comparison of two sides whose true values are only known to lie in intervals (enclosures).

The position of the two intervals alone decides the outcome. A true claim is never called violated. A false claim is
never called true, except that an equality may be off by a small tolerance.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings, strategies as st

from bounds import Claim, Form, Kind, Outcome, Source, Statement
from bounds.ladders.slopes import slope
from ntkfl.estimate import Estimate
from verification.compare import FINE, _growth, _log_error, compare, judge

H, T, U, V = Outcome.HOLDS, Outcome.TOUCHES, Outcome.UNRESOLVED, Outcome.VIOLATED


def estimate(value, error=0.0):
    return Estimate(np.array(value, float), np.broadcast_to(np.array(error, float), np.shape(value)), "test")


TABLE = [
    # The entries are: kind, left value and error, right value and error, outcome.
    (Kind.UPPER, 1, 0.4, 2, 0.4, H),
    (Kind.UPPER, 2, 0.4, 1, 0.4, V),
    (Kind.UPPER, 1, 0.4, 1.5, 0.4, U),
    (Kind.UPPER, 1.5, 0.4, 1, 0.4, U),
    (Kind.UPPER, 1, 1e-9, 1, 1e-9, T),
    (Kind.UPPER, 1 + 1e-9, 1e-9, 1, 1e-9, T),
    (Kind.UPPER, 1, 0, 1, 0, H),
    (Kind.UPPER, 0, 0, 0, 0, H),
    (Kind.UPPER, -3, 0.5, -1, 0.5, H),
    (Kind.UPPER, -1, 0.5, -3, 0.5, V),
    (Kind.UPPER, 0, 1, 0, 1, U),
    (Kind.UPPER, 5, np.inf, 1, 0, U),
    (Kind.UPPER, 1, 0, 5, np.inf, U),
    (Kind.UPPER, np.inf, 0, 1, np.inf, U),  # An error cannot be compared with an infinite scale.
    (Kind.UPPER, np.inf, 0, np.inf, 0, U),  # Two overflows cannot be ordered.
    (Kind.LOWER, -np.inf, 0, -np.inf, 0, U),
    (Kind.UPPER, 1, 0, np.inf, 0, H),
    (Kind.UPPER, np.inf, 0, 1, 0, V),
    (Kind.EQUALITY, np.inf, 0, 1, np.inf, U),
    (Kind.LOWER, 2, 0.4, 1, 0.4, H),
    (Kind.LOWER, 1, 0.4, 2, 0.4, V),
    (Kind.LOWER, 1, 0.4, 1.5, 0.4, U),
    (Kind.LOWER, 1, 1e-9, 1, 1e-9, T),
    (Kind.LOWER, 0, 0, 0, 0, H),
    (Kind.PROBABILITY, 0.2, 1e-9, 0.1, 1e-9, V),
    (Kind.EQUALITY, 1, 1e-9, 1, 1e-9, H),
    (Kind.EQUALITY, 1, 1e-9, 1 + 1e-8, 1e-9, V),
    (Kind.EQUALITY, 1, 1e-3, 1, 1e-3, U),
    (Kind.EQUALITY, 1, 0.4, 2, 0.4, V),
    (Kind.EQUALITY, 0, 0, 0, 0, H),
    (Kind.EQUALITY, 0, 1e-30, 0, 0, U),  # Both sides are 0, so the error has no scale.
    (Kind.DEFINITION, 1, 0, 1, 1e-12, H),
    (Kind.EXISTENCE, 1, 0, 2, 0, V),
    (Kind.RATE, -0.52, 0.05, -0.5, 0, H),
    (Kind.RATE, -0.52, 0.01, -0.5, 0, V),
]


@pytest.mark.parametrize(("kind", "left", "left_error", "right", "right_error", "outcome"), TABLE)
def test_table(kind, left, left_error, right, right_error, outcome):
    comparison = compare(kind, estimate(left, left_error), estimate(right, right_error))
    assert comparison.outcome is outcome
    assert (float(comparison.left.value), float(comparison.right.value)) == (left, right)


@pytest.mark.parametrize(
    ("value", "error", "outcome"),
    [(1.5, 0.1, H), (2.5, 0.1, V), (0.5, 0.1, V), (1.95, 0.1, U), (1.05, 0.1, U), (2, 1e-9, T), (1, 1e-9, T)],
)
def test_two_sided_lies_between(value, error, outcome):
    comparison = compare(Kind.TWO_SIDED, estimate(value, error), estimate(2, error), estimate(1, error))
    assert comparison.outcome is outcome


def test_touching_needs_both_sides_fine_on_their_own_scale():
    for scale in (1e-200, 1.0, 1e200):
        fine, coarse = 0.4 * FINE * scale, 0.6 * FINE * scale
        assert compare(Kind.UPPER, estimate(scale, fine), estimate(scale, fine)).outcome is T
        assert compare(Kind.UPPER, estimate(scale, coarse), estimate(scale, coarse)).outcome is U
        assert compare(Kind.EQUALITY, estimate(scale, fine), estimate(scale, fine)).outcome is H


SATISFIED = {
    Kind.UPPER: lambda left, right, lower: left <= right,
    Kind.LOWER: lambda left, right, lower: left >= right,
    Kind.EQUALITY: lambda left, right, lower: left == right,
    Kind.TWO_SIDED: lambda left, right, lower: lower <= left <= right,
}
NUMBER = st.one_of(
    st.floats(-10, 10),
    st.integers(-3, 3).map(float),
    st.floats(-1e-9, 1e-9).map(lambda small: 1 + small),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


@st.composite
def known_to_within(draw, truth):
    """Draws an enclosure of a true value: its middle is off by at most the error."""
    error = draw(st.one_of(st.just(0.0), st.floats(0, 1e-7), st.floats(0, 5)))
    middle = truth + draw(st.floats(-1, 1)) * error
    estimate = Estimate(np.array(middle), np.array(error), "test")
    assume(estimate.lo <= truth <= estimate.hi)
    return estimate


@settings(deadline=None, max_examples=400)
@given(data=st.data(), kind=st.sampled_from(list(SATISFIED)), left=NUMBER, right=NUMBER, width=st.floats(0, 3))
def test_the_truth_is_never_contradicted(data, kind, left, right, width):
    lower = right - width
    if data.draw(st.booleans(), label="make it tight"):
        left = right
    sides = [data.draw(known_to_within(truth)) for truth in (left, right, lower)]
    comparison = compare(kind, *sides) if kind is Kind.TWO_SIDED else compare(kind, *sides[:2])
    if SATISFIED[kind](left, right, lower):
        assert comparison.outcome is not V
    # An equality holds if both sides are known to 1e-6 of the scale and their enclosures do not exclude equality.
    elif kind is Kind.EQUALITY:
        assert comparison.outcome is not H or abs(left - right) <= 4 * FINE * max(abs(left), abs(right))
    else:
        assert comparison.outcome is not H
    assert not np.isnan([comparison.tightness, comparison.margin_in_errors]).any()


@settings(deadline=None, max_examples=100)
@given(data=st.data(), kind=st.sampled_from([Kind.UPPER, Kind.LOWER, Kind.RATE]), size=st.integers(1, 6))
def test_of_an_array_the_worst_entry_decides(data, kind, size):
    values = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1 + 1e-8, 2.0]), min_size=size, max_size=size)
    errors = st.lists(st.sampled_from([0.0, 1e-9, 0.3]), min_size=size, max_size=size)
    left, right = (estimate(data.draw(values), data.draw(errors)) for _ in range(2))
    order = [H, T, U, V]
    single = [compare(kind, left[i], right[i]) for i in range(size)]
    worst = max(order.index(comparison.outcome) for comparison in single)
    whole = compare(kind, left, right)
    assert whole.outcome is order[worst]
    assert whole.tightness == max(comparison.tightness for comparison in single)
    assert whole.margin_in_errors == min(comparison.margin_in_errors for comparison in single)
    deciding = [comparison for comparison in single if order.index(comparison.outcome) == worst]
    assert (whole.left.value, whole.right.value) in [
        (comparison.left.value, comparison.right.value) for comparison in deciding
    ]


SPECIAL = st.sampled_from([0.0, -0.0, 1.0, 1 + 1e-9, -1.0, 2.0, 1e-320, 1e308, -1e308, np.inf, -np.inf])


@settings(deadline=None, max_examples=400)
@given(
    kind=st.sampled_from([kind for kind in Kind if kind not in (Kind.TWO_SIDED, Kind.RATE)]),
    values=st.tuples(SPECIAL, SPECIAL),
    errors=st.tuples(*[st.sampled_from([0.0, 1e-9, 1e-6, 0.5, 1e308, np.inf])] * 2),
)
def test_a_single_number_is_judged_as_an_array_of_it(kind, values, errors):
    sides = [estimate(value, error) for value, error in zip(values, errors, strict=True)]
    twice = [estimate([value] * 2, error) for value, error in zip(values, errors, strict=True)]
    one, both = compare(kind, *sides), compare(kind, *twice)
    assert (one.outcome, one.tightness, one.margin_in_errors) == (both.outcome, both.tightness, both.margin_in_errors)
    assert [(s.value, s.error) for s in (one.left, one.right)] == [(s.value, s.error) for s in (both.left, both.right)]


def test_one_bad_entry_of_a_matrix_is_found_and_shown():
    left, right = np.ones((4, 5)), np.full((4, 5), 2.0)
    left[2, 3] = 7.0
    comparison = compare(Kind.UPPER, estimate(left, 1e-9), estimate(right, 1e-9))
    assert (comparison.outcome, float(comparison.left.value), float(comparison.right.value)) == (V, 7.0, 2.0)
    assert comparison.tightness == 3.5
    broadcast = compare(Kind.UPPER, estimate(left, 1e-9), estimate(2.0))
    assert (broadcast.outcome, float(broadcast.left.value)) == (V, 7.0)


def test_the_sides_shown_are_those_of_the_worst_entry_however_tight_another_is():
    # The first part is undecided and has an infinite ratio.
    left, right = estimate([0.2, 2.0], [0.3, 0.0]), estimate([0.0, 1.5])
    comparison = compare(Kind.UPPER, left, right)
    assert (comparison.outcome, comparison.tightness) == (V, np.inf)
    assert (float(comparison.left.value), float(comparison.right.value)) == (2.0, 1.5)


def test_entries_of_an_equality_share_the_scale_of_the_largest():
    left, right = estimate([1.0, 1e-12], 1e-10), estimate([1.0, 2e-12], 1e-10)
    assert compare(Kind.EQUALITY, left, right).outcome is H
    assert compare(Kind.EQUALITY, left[1], right[1]).outcome is U
    apart = compare(Kind.EQUALITY, estimate([1.0, 1e-12], 1e-13), estimate([1.0, 2e-12], 1e-13))
    assert (apart.outcome, float(apart.right.value)) == (V, 2e-12)


@pytest.mark.parametrize("kind", list(Kind))
def test_tightness_is_never_nan(kind):
    if kind is Kind.ORDER:
        return  # Orders are judged along a ladder of sizes, in the tests below.
    for left in (0.0, -1.0, 1.0, np.inf):
        for right in (0.0, -1.0, 1.0):
            for error in (0.0, 1e-9, np.inf):
                if kind is Kind.TWO_SIDED:
                    comparison = compare(kind, estimate(left, error), estimate(right, error), estimate(right, error))
                else:
                    comparison = compare(kind, estimate(left, error), estimate(right, error))
                assert not np.isnan([comparison.tightness, comparison.margin_in_errors]).any(), (left, right, error)


def statement(kind, measure, *parts, lower=None):
    return Statement(
        id="test/S",
        title="a test",
        kind=kind,
        source=Source("tests", "S"),
        stated=Claim(parts if len(parts) > 1 else parts[0], lower=lower, recorded=H),
        constants=lambda case: {},
        measure=measure,
        families=lambda options: (),
        says_left="given",
    )


def test_of_several_parts_the_worst_decides_and_their_number_must_agree():
    two = statement(Kind.UPPER, lambda case: (estimate(1.0), estimate(3.0)), sp.Integer(2), sp.Integer(2))
    comparison = judge(two, Form.STATED, None)
    assert (comparison.outcome, float(comparison.left.value)) == (V, 3.0)
    one = statement(Kind.UPPER, lambda case: estimate(1.0), sp.Integer(2), sp.Integer(2))
    with pytest.raises(ValueError, match="test/S measures 1 parts, its stated formula has 2"):
        judge(one, Form.STATED, None)


def test_of_parts_that_hold_the_tightest_is_shown_whether_or_not_it_is_a_slope():
    sizes = 2.0 ** np.arange(6, 12)
    fitted = slope(sizes, sizes**-0.5 * (1 + 0.02 * (-1) ** np.arange(6)), biased=False)
    parts = fitted, Estimate(1.0, 0.1)
    claim = statement(Kind.RATE, lambda case: parts, -sp.Rational(1, 2), sp.Integer(1))
    comparison = judge(claim, Form.STATED, None)
    assert (comparison.outcome, float(comparison.left.value)) == (H, float(fitted.value))
    assert comparison.tightness == abs(fitted.value + 0.5) / fitted.error > 0


def test_a_second_term_hides_no_power_that_it_cannot_explain():
    """A power that a second term explains does not hide another violation.

    The other violation occurs in another entry, in another part, or on the other side of a two-sided claim.
    """
    sizes = 2.0 ** np.arange(6, 12)
    bent = slope(sizes, sizes**-0.5 * (1 + np.sqrt(sizes[0] / sizes)), biased=False)
    explained, refuted = -0.5, 1.0
    assert bent.refutes(refuted) and not bent.refutes(explained)
    entries = compare(Kind.RATE, bent, Estimate.exact(np.array([explained, refuted])))
    assert (entries.outcome, float(entries.right.value), entries.explained) == (V, refuted, False)
    parts = statement(Kind.RATE, lambda case: (bent, bent), -sp.Rational(1, 2), sp.Integer(1))
    assert judge(parts, Form.STATED, None).outcome is V
    inside = bent.value - (bent.error + bent.refuted_beyond) / 2
    for lower, outcome in ((inside, U), (bent.value + 2 * bent.refuted_beyond, V)):
        sides = compare(Kind.TWO_SIDED, bent, Estimate.exact(inside), Estimate.exact(lower))
        assert (sides.outcome, sides.explained) == (outcome, outcome is U)
    for other, error in ((bent.value, 0.0), (explained, 0.0), (-9.0, 0.3)):
        seen = compare(Kind.RATE, bent, estimate([explained, other], [0.0, error]))
        assert (seen.outcome, seen.explained, float(seen.right.value)) == (U, True, explained)


def test_a_part_that_only_a_second_term_leaves_open_is_shown_before_one_that_is_too_unsure():
    sizes = 2.0 ** np.arange(6, 12)
    bent = slope(sizes, sizes**-0.5 * (1 + np.sqrt(sizes[0] / sizes)), biased=False)
    unsure = replace(bent, error=np.array(0.3), value=np.array(9.0))
    for measured in ((bent, unsure), (unsure, bent)):
        claim = statement(Kind.RATE, lambda case, m=measured: m, -sp.Rational(1, 2), -sp.Rational(1, 2))
        seen = judge(claim, Form.STATED, None)
        assert (seen.outcome, seen.explained, float(seen.left.value)) == (U, True, float(bent.value))


def test_a_two_sided_statement_is_held_against_both_ends():
    for value, outcome in ((1.5, H), (0.5, V), (2.5, V)):
        two_sided = statement(Kind.TWO_SIDED, lambda case, v=value: estimate(v), sp.Integer(2), lower=sp.Integer(1))
        assert judge(two_sided, Form.STATED, None).outcome is outcome


class Ladder:
    """A ladder of sizes 1, 2, 4, ...; a left side grows like a power of them."""

    sizes = 2.0 ** np.arange(8)


@pytest.mark.parametrize(("exponent", "outcome"), [(-0.5, H), (0.0, H), (0.2, V), (1.0, V)])
def test_an_order_claim_fails_where_the_ratio_grows(exponent, outcome):
    claim = statement(Kind.ORDER, lambda ladder: estimate(100 * ladder.sizes**exponent), sp.Integer(1))
    comparison = judge(claim, Form.STATED, Ladder())
    assert comparison.outcome is outcome  # This holds whatever the constant is.
    assert abs(comparison.left.value - exponent) < 1e-12


def test_growth_that_the_interval_does_not_exclude_refutes_no_order():
    """Growth that lies within the error of the fitted slope does not refute an order.

    The ratio goes up and down. The fitted slope of the ratio is above 0, but by less than the slope's half-width.
    """
    wobbling = 1 + 0.1 * (-1.0) ** np.arange(1, 9)
    comparison = judge(statement(Kind.ORDER, lambda ladder: estimate(wobbling), sp.Integer(1)), Form.STATED, Ladder())
    assert 0 < comparison.left.value < comparison.left.error
    assert comparison.outcome is H


@pytest.mark.parametrize(("exponent", "outcome"), [(0.0, Outcome.UNRESOLVED), (-2.0, H), (9.0, V)])
def test_an_interval_that_holds_both_growth_and_none_leaves_an_order_open(exponent, outcome):
    """An interval for the slope that contains both growth and no growth leaves an order undecided.

    The ratio jumps by a factor of 10 up and down, so that its exponent is known to no better than +-1.
    """
    jumping = 10 ** (0.5 * (-1.0) ** np.arange(1, 9)) * Ladder.sizes**exponent
    comparison = judge(statement(Kind.ORDER, lambda ladder: estimate(jumping), sp.Integer(1)), Form.STATED, Ladder())
    assert 0.2 < comparison.left.error < 2
    assert comparison.outcome is outcome


@pytest.mark.parametrize(
    ("ratio", "refuted"),
    [
        (1 - 0.45 * Ladder.sizes**-0.25, False),  # grows towards 1: the claim is true
        (1 - 0.45 / Ladder.sizes, False),
        (1 - 0.3 * Ladder.sizes**-0.25, False),  # no exponent of at most 0 is inside the interval without a second term
        (np.log(8 * Ladder.sizes), True),  # grows without bound, and by more than a second term explains
        (Ladder.sizes**0.25, True),
    ],
)
def test_growth_that_a_second_term_explains_refutes_no_order(ratio, refuted):
    comparison = judge(statement(Kind.ORDER, lambda ladder: estimate(ratio), sp.Integer(1)), Form.STATED, Ladder())
    assert comparison.left.value > 0
    assert (comparison.outcome is V) is refuted
    assert comparison.explained is bool(comparison.left.lo > 0 and not refuted)
    assert not comparison.explained or comparison.outcome is Outcome.UNRESOLVED


@pytest.mark.parametrize(("side", "power"), [(0, 0.2), (1, -0.2)])
def test_growth_within_the_errors_of_a_side_leaves_an_order_open(side, power):
    """Growth that the errors of one side could explain leaves an order open.

    With small errors the same growth violates the order.
    """
    for relative, outcome in ((1e-3, V), (0.9, Outcome.UNRESOLVED)):
        sides = [estimate(np.ones(8)), estimate(np.ones(8))]
        sides[side] = estimate(Ladder.sizes**power, relative * Ladder.sizes**power)
        assert _growth(Ladder(), *sides).outcome is outcome


def test_the_error_of_a_logarithm_is_that_of_the_lower_end():
    np.testing.assert_allclose(
        _log_error(estimate([2.0, 3.0, 1.0], [1.0, 0.0, 1.0])), [np.log(2), 0, np.inf], atol=1e-12
    )


def test_of_several_samples_of_a_size_the_largest_error_widens_the_growth():
    values, errors = np.repeat(Ladder.sizes[:, None] ** 0.2, 2, axis=1), np.zeros((8, 2))
    for relative, outcome in ((1e-3, V), (0.5, Outcome.UNRESOLVED)):
        errors[:, 1] = relative * values[:, 1]
        assert _growth(Ladder(), estimate(values, errors), estimate(np.ones((8, 1)))).outcome is outcome


def test_a_column_is_not_held_against_a_row():
    column, row = Estimate.exact(np.ones((3, 1))), Estimate.exact(np.ones(3))
    with pytest.raises(ValueError, match=r"the sides have shapes \(3, 1\) and \(3,\)"):
        compare(Kind.EQUALITY, column, row)


@pytest.mark.parametrize(("error", "outcome"), [(0.0, Outcome.VIOLATED), (1.0, Outcome.UNRESOLVED)])
def test_growth_of_what_may_be_zero_refutes_no_order(error, outcome):
    """Growth of left/right refutes no order if the left side may be 0.

    The ratio grows like the size. The left side is exact, or its enclosure contains 0.
    """
    sizes = 2.0 ** np.arange(1, 9)
    left = Estimate(1e-38 * np.ones(8), 1e-38 * error * np.ones(8), "ball")
    assert _growth(SimpleNamespace(sizes=sizes), left, Estimate.exact(1 / sizes)).outcome is outcome


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_sides_are_as_near_as_those_of_the_nearest_part(order):
    """The margin in errors is the smallest margin in errors of any part of the comparison.

    A tight part with a small error must not hide a part that needs a better estimate.
    """
    tight, near = (estimate(0.9, 1e-12), estimate(1.0)), (estimate(0.5, 0.1), estimate(1.0))
    left, right = zip(*((tight, near)[i] for i in order), strict=True)
    statement = SimpleNamespace(id="mine/T", kind=Kind.UPPER)
    formula = SimpleNamespace(evaluate=lambda constants: right, lower=None)
    comparison = judge(statement, Form.STATED, None, formula=formula, known=(left, {}))
    assert (comparison.outcome, comparison.tightness) == (H, 0.9)
    assert comparison.margin_in_errors == compare(Kind.UPPER, *near).margin_in_errors < 10
    between = compare(Kind.TWO_SIDED, estimate(0.9, 0.01), estimate(1.0), estimate(0.895))
    assert between.margin_in_errors == compare(Kind.LOWER, estimate(0.9, 0.01), estimate(0.895)).margin_in_errors
