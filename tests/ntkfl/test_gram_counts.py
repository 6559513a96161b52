"""Tests of the rigorous counts of neurons against exact rational arithmetic, with ties and exact thresholds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.gram.counts import changes_within, initial_counts
from ntkfl.problem import Weights

SMALL = settings(max_examples=60, deadline=None)


def exact_dots(x, hidden):
    """Returns w_r . x_i as Fractions, a list over r of lists over i."""
    return [[sum(Fraction(a) * Fraction(b) for a, b in zip(w, row, strict=True)) for row in x] for w in hidden]


def at_or_above(z, row, radius):
    """Says whether z / |row| >= radius, decided exactly."""
    side = Fraction(radius) ** 2 * sum(Fraction(b) ** 2 for b in row)
    return (z >= 0 and z * z >= side) if radius >= 0 else (z >= 0 or z * z <= side)


def exact_changes(x, hidden, radius):
    """Returns three matrices of counts of neurons in rationals, from their definitions.

    For each pair of samples, the first counts the neurons that are active on both samples. The second counts those of
    them that may become inactive on at least one of the samples. The third counts the other neurons that may become
    active on both. A neuron's weights move by at most the radius.
    """
    n = len(x)
    pairs, losses, gains = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for dots in exact_dots(x, hidden):
        active = [z >= 0 for z in dots]
        stays = [at_or_above(z, row, radius) for z, row in zip(dots, x, strict=True)]
        may = [at_or_above(z, row, -radius) for z, row in zip(dots, x, strict=True)]
        for i in range(n):
            for j in range(n):
                both = active[i] and active[j]
                pairs[i, j] += both
                losses[i, j] += both and not (stays[i] and stays[j])
                gains[i, j] += may[i] and may[j] and not both
    return pairs, losses, gains


@st.composite
def networks(draw, coarse):
    """Draws tiny networks; coarse ones have entries on a grid of eighths, so that ties and exact thresholds are
    frequent.
    """
    n, d, m = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    entries = (lambda shape: rng.integers(-4, 5, shape) / 8) if coarse else rng.standard_normal
    x, hidden = entries((n, d)), entries((m, d))
    x[~x.any(axis=1), 0] = 1.0
    return x, Weights(hidden, rng.choice([-1.0, 1.0], m))


@SMALL
@given(networks(coarse=True), st.sampled_from([0.125, 0.25, 0.3, 1.0]))
def test_bounds_contain_the_exact_counts_even_at_ties(network, radius):
    x, weights = network
    pairs, losses, gains = exact_changes(x, weights.hidden, radius)
    counts = initial_counts(x, weights)
    d, u = changes_within(x, weights.hidden, np.array([radius]))
    assert (counts.at_least <= pairs).all() and (pairs <= counts.at_most).all()
    assert (d[0] >= losses).all() and (u[0] >= gains).all()


@SMALL
@given(networks(coarse=False), st.floats(1e-3, 2.0))
def test_counts_are_exact_where_nothing_is_in_doubt(network, radius):
    x, weights = network
    pairs, losses, gains = exact_changes(x, weights.hidden, radius)
    counts = initial_counts(x, weights)
    d, u = changes_within(x, weights.hidden, np.array([3.0, radius, 1e-9]))  # The radii may come in any order.
    assert counts.doubtful == 0
    np.testing.assert_array_equal(counts.at_least, pairs)
    np.testing.assert_array_equal(counts.at_most, pairs)
    np.testing.assert_array_equal(d[1], losses)
    np.testing.assert_array_equal(u[1], gains)


@SMALL
@given(networks(coarse=False), st.sampled_from([1e-30, 1.0, 1e30]))
def test_outputs_enclose_the_exact_sums(network, scale):
    x, weights = network
    weights = Weights(weights.hidden * scale, weights.signs)
    sums = initial_counts(x, weights).output_sums
    for i in range(len(x)):
        dots = [dots[i] for dots in exact_dots(x, weights.hidden)]
        exact = sum(Fraction(a) * max(z, Fraction(0)) for a, z in zip(weights.signs, dots, strict=True))
        assert abs(Fraction(float(sums.value[i])) - exact) <= Fraction(float(sums.error[i]))
    assert sums.error.max() <= 1e-12 * scale * (1 + np.abs(weights.hidden / scale).sum()) * np.abs(x).sum()


def test_blocks_add_up():
    """With more neurons than a block holds, counts are the sums of the counts of parts."""
    rng = np.random.default_rng(0)
    x, hidden, signs = rng.standard_normal((40, 3)), rng.standard_normal((20_000, 3)), rng.choice([-1.0, 1.0], 20_000)
    whole = initial_counts(x, Weights(hidden, signs))
    parts = [initial_counts(x, Weights(hidden[s], signs[s])) for s in (slice(7_001), slice(7_001, None))]
    np.testing.assert_array_equal(whole.at_least, sum(p.at_least for p in parts))
    radii = np.array([0.01, 0.2])
    lost = [changes_within(x, hidden[s], radii) for s in (slice(None), slice(7_001), slice(7_001, None))]
    np.testing.assert_array_equal(lost[0], np.add(lost[1], lost[2]))


def test_a_tie_is_counted_against():
    """A tie counts on the unsafe side: the counts include both signs.

    The neuron is orthogonal to a sample, so that float64 cannot decide the sign.
    """
    x, weights = np.array([[1.0, 0.0]]), Weights(np.array([[0.0, 1.0]]), np.ones(1))
    counts = initial_counts(x, weights)
    losses, gains = changes_within(x, weights.hidden, np.array([1e-3]))
    assert (counts.at_least, counts.at_most, counts.doubtful) == (0, 1, 1)
    assert losses == 1 and gains == 1


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan])
def test_a_bad_radius_is_refused(radius):
    with pytest.raises(ValueError, match="must be positive and finite"):
        changes_within(np.eye(2), np.eye(2), np.array([0.1, radius]))


def test_extreme_scales_are_refused():
    weights = Weights(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match="row norms of x range from 1e-120 to 1"):
        initial_counts(np.array([[1e-120, 0], [1, 0]]), weights)
    with pytest.raises(ValueError, match=r"hidden weight is 1e\+120"):
        initial_counts(np.eye(2), Weights(1e120 * np.eye(2), np.ones(2)))
