"""Tests of lower and upper bounds of the largest loss on the segment between two networks.

The bounds enclose the exact largest loss closely.
"""

import numpy as np
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity.barrier import largest_loss
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.paths.segment import INTERVALS, absolute_loss_bounds


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 4), st.integers(1, 9), st.sampled_from([1e-9, 0.1, 3.0])
)
def test_the_largest_loss_lies_between_its_bounds(seed, h, features, n, far):
    rng = np.random.default_rng(seed)
    start = TwoLayer(rng.standard_normal((h, features)), rng.standard_normal(h))
    x = rng.standard_normal((n, features))
    y = start.outputs(x) + rng.choice([0.0, 1.0]) * rng.standard_normal(n)
    ends = start.vector() + far * rng.standard_normal((6, start.size))
    low, high = absolute_loss_bounds(start, ends, x, y)
    exact = [largest_loss(start, start.at(end), x, y, "absolute").value for end in ends]
    assert (low <= [value.hi for value in exact]).all()
    assert (high >= [value.lo for value in exact]).all()


def test_most_segments_are_told_from_a_level_that_they_stay_away_from():
    rng = np.random.default_rng(0)
    start = TwoLayer(rng.standard_normal((3, 2)), rng.standard_normal(3))
    x = rng.standard_normal((8, 2))
    low, high = absolute_loss_bounds(start, start.vector() + rng.uniform(-1, 1, (50, start.size)), x, start.outputs(x))
    assert (high < 1.1 * low).all()


def test_a_loss_that_is_largest_at_a_kink_between_two_points_of_the_grid_is_not_missed():
    kink = (INTERVALS + 1) / (2 * INTERVALS)
    # On the segment the network's output at x is |1 - alpha / kink|.
    start, x = TwoLayer(np.array([[1.0], [-1.0]]), np.ones(2)), np.ones((1, 1))
    end = np.array([1 - 1 / kink, 1 / kink - 1, 1.0, 1.0])
    low, high = absolute_loss_bounds(start, end[None], x, np.ones(1))
    assert 0.9 < low < 1 <= high < 1.1
