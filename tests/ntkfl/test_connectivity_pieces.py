"""Tests of long products and sums, which are compared with rational arithmetic.

Suprema and integrals of piecewise polynomials are tested too.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity.network import TwoLayer, between
from ntkfl.connectivity.paths.piecewise import PiecewisePolynomial, summed
from ntkfl.connectivity.paths.segment import Segment
from ntkfl.rounding import (
    LONG,
    LONG_EPS,
    long_product,
    long_product_error,
    running_sum,
    running_sum_error,
)

QUICK = settings(deadline=None, max_examples=40)
NUMBERS = st.floats(-1e30, 1e30, allow_nan=False) | st.floats(-1e-290, 1e-290) | st.integers(-3, 3).map(float)


def rational(value):
    """Returns the exact value of a number in numpy's longdouble precision."""
    high = float(value)
    return Fraction(high) + Fraction(float(value - LONG(high)))


@QUICK
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40))
def test_a_long_product_is_as_close_as_its_bound_says(pairs):
    x, row = (np.array([[pair[side] for pair in pairs]]) for side in (0, 1))
    exact = sum(Fraction(a) * Fraction(b) for a, b in pairs)
    off = abs(rational(long_product(x, row)[0, 0]) - exact)
    assert off <= Fraction(float(long_product_error(x, row)[0, 0]))


def test_a_long_product_keeps_what_float64_loses():
    x, rows = np.array([[1.0, 2.0**-40, -1.0]]), np.array([[1.0, 2.0**-20, 1.0]])
    assert (x @ rows.T)[0, 0] != 2.0**-60 or long_product(x, rows)[0, 0] == LONG(2.0) ** -60
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(3, 500)), rng.normal(size=(4, 500))
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x[0].tolist(), rows[0].tolist(), strict=True))
    assert abs(rational(long_product(x, rows)[0, 0]) - exact) < 1e-16


@QUICK
@given(st.integers(0, 10**6), st.integers(1, 70_000))
def test_running_sums_are_as_close_as_their_bound_says(seed, length):
    terms = np.random.default_rng(seed).integers(-(2**40), 2**40, size=length).astype(float) / 3
    sums = running_sum(terms)
    # Each term is an integer divided by 3. The rounding of this division is part of the term, and is at most EPS.
    exact = np.cumsum((terms * 3).round().astype(np.int64))
    allowed = running_sum_error(length) * np.abs(terms).sum() + np.finfo(float).eps * np.abs(terms).sum()
    assert sums.shape == (length,)
    assert np.abs(np.asarray(sums - LONG(1) * exact / 3, float)).max() <= allowed


def test_running_sums_go_along_the_last_axis():
    terms = np.random.default_rng(1).integers(-9, 9, size=(2, 3, 300))
    assert np.array_equal(running_sum(terms).astype(int), np.cumsum(terms, axis=-1))


@QUICK
@given(
    st.lists(st.floats(-5, 5), min_size=5, max_size=5),
    st.lists(st.tuples(st.floats(0, 1), st.lists(st.floats(-5, 5), min_size=5, max_size=5)), max_size=4),
)
def test_no_point_exceeds_the_supremum_and_it_is_taken(start, jumps):
    where = np.array([position for position, _ in jumps])
    change = np.array([terms for _, terms in jumps]).reshape(-1, 5)
    path = summed(np.array(start), where, change)
    supremum = path.supremum()
    assert path.at(np.linspace(0, 1, 2001)).max() <= supremum.value + 1e-12
    assert path.upper_bound() >= supremum.value
    around = [float(np.asarray(p, float) @ supremum.at ** np.arange(5)) for p in path.coefficients]
    assert min(abs(value - supremum.value) for value in around) < 1e-12


def test_a_leading_coefficient_near_nothing_does_not_upset_the_roots():
    for tiny in (0.0, 5e-324, 1e-200, 1e-25):
        path = PiecewisePolynomial(
            np.array([0.0, 1.0], LONG), np.array([[0.0, 1.0, -1.0, tiny, -tiny]], LONG)
        )  # The piece is nearly alpha - alpha^2.
        supremum = path.supremum()
        assert np.isclose(supremum.value, 0.25, rtol=1e-15) and np.isclose(supremum.at, 0.5)


@QUICK
@given(st.lists(st.floats(-5, 5), min_size=5, max_size=5), st.lists(st.floats(0, 1), max_size=5))
def test_integrals_do_not_depend_on_how_the_interval_is_cut(coefficients, cuts):
    whole = sum(Fraction(c) / (k + 1) for k, c in enumerate(coefficients))
    path = summed(np.array(coefficients), np.array(cuts), np.zeros((len(cuts), 5)))
    assert abs(path.integral() - float(whole)) < 1e-14
    line = path.minus_line(1.0, -2.0)
    assert abs(line.integral() - float(whole) - 0.5) < 1e-14


@QUICK
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3))
def test_the_pieces_of_a_segment_are_the_outputs_of_its_networks(seed, units, outputs):
    rng = np.random.default_rng(seed)
    first, second = (TwoLayer(rng.normal(size=(units, 3)), rng.normal(size=(outputs, units))) for _ in range(2))
    segment = Segment(first, second, rng.normal(size=(5, 3)))
    assert (np.diff(segment.edges, axis=1) >= 0).all()
    for channel in range(outputs):
        pieces = segment.coefficients(channel)
        for sample in range(5):
            for p, middle in enumerate((segment.edges[sample, 1:] + segment.edges[sample, :-1]) / 2):
                alpha = float(middle)
                true = between(first, second, alpha).outputs(segment.x)[sample, channel]
                if segment.edges[sample, p] < segment.edges[sample, p + 1]:
                    assert abs(float(pieces[sample, p] @ alpha ** np.arange(3)) - true) < 1e-12
    for end, net in ((0, second), (1, first)):
        assert np.allclose(np.asarray(segment.outputs_at(end), float), net.outputs(segment.x), atol=1e-13)
    assert (segment.absolute_terms >= np.abs(net.outputs(segment.x)) - 1e-12).all()


@pytest.mark.parametrize("length", [9000, 40000])
def test_a_product_of_many_features_is_as_close_as_its_bound_says(length):
    """The bound on a product of many features includes the bits beyond three slices, into which each factor is cut.

    With many terms, few bits fit into a slice.
    """
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, row = rng.uniform(0.9, 1, size=(2, 1, length))
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x[0].tolist(), row[0].tolist(), strict=True))
        off = abs(rational(long_product(x, row)[0, 0]) - exact)
        assert off <= Fraction(float(long_product_error(x, row)[0, 0])) <= exact * Fraction(2) ** -45


@pytest.mark.parametrize("length", [9000, 40000])
def test_what_three_slices_leave_out_of_equal_entries_adds_up_and_is_in_the_bound(length):
    worst = 0.0
    for seed in range(40):
        x = np.full((1, length), np.random.default_rng(seed).uniform(0.5, 1))
        off = abs(rational(long_product(x, x)[0, 0]) - length * Fraction(x[0, 0]) ** 2)
        assert off <= Fraction(float(long_product_error(x, x)[0, 0]))
        worst = max(worst, float(off))
    if LONG_EPS < 1e-18:
        assert worst > 16 * LONG_EPS * length  # The larger share of the error is that of the slices.


def test_products_with_zeros_are_exact():
    x, rows = np.array([[1.0, 0.0, 3.0]]), np.array([[0.0, 5.0, 0.0]])
    assert long_product(x, rows)[0, 0] == long_product_error(x, rows)[0, 0] == 0


def test_a_piece_without_an_active_unit_is_exactly_zero():
    rng = np.random.default_rng(0)
    nets = [TwoLayer(rng.normal(size=(5, 3)), rng.normal(size=(2, 5))) for _ in range(2)]
    segment = Segment(*nets, rng.normal(size=(200, 3)))
    dead = segment.active == 0
    assert dead.any() and all((segment.coefficients(channel)[dead] == 0).all() for channel in range(2))
    middle = (segment.edges[:, 1:] + segment.edges[:, :-1]) / 2
    for row, piece in np.argwhere(dead & (np.diff(segment.edges, axis=1) > 1e-9)):
        assert (between(*nets, middle[row, piece]).hidden @ segment.x[row] < 0).all()
