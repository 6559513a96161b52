"""Tests of the statements on aligned networks.

The cases are compared with independent computations, and the bound is checked step by step. The statement whose outcome
is open is tested too.
"""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Form, Options, Outcome, get
from bounds.alignment.cases import (
    TrainedPairs,
    as_estimate,
    chosen_pair,
    cube_of,
    pair_families,
    trained,
)
from ntkfl.connectivity.alignment import permuted
from ntkfl.connectivity.barrier import largest_gap
from ntkfl.estimate import Estimate
from verification.compare import judge

seeds, outputs = st.integers(0, 10**6), st.sampled_from([1, 3])
PAIRS = dict(zip((1, 3), pair_families(Options()), strict=True))


@given(seeds, outputs)
@settings(max_examples=15)
def test_costs_are_those_of_the_moved_networks(seed, count):
    case = PAIRS[count].case(seed)
    orders = list(permutations(range(len(case.first.hidden))))
    for order in (orders[0], orders[seed % len(orders)]):
        far = np.sum((case.first.vector() - permuted(case.second, np.array(order)).vector()) ** 2)
        assert abs(float(case.cost(order)) - far) <= 1e-12 * (1 + far)
    assert case.least_cost <= case.greedy_cost and case.least_cost <= case.cost(orders[0])


@given(seeds, outputs)
@settings(max_examples=15)
def test_the_distance_bounds_the_gap_by_every_step_of_its_proof(seed, count):
    case = PAIRS[count].case(seed)
    pair = case.aligned
    known = get("alignment/distance").constants(case)
    d, r, s = (
        float(known[symbol].value) if isinstance(known[symbol], Estimate) else known[symbol] for symbol in _three()
    )
    one, two = (np.atleast_2d(net.readout) for net in pair.networks)
    du, dv = np.linalg.norm(pair.first.hidden - pair.second.hidden), np.linalg.norm(one - two)
    steps = (
        float(pair.bilinear_term.value / 4 + pair.kink_term.value),
        s * du * (dv + np.sqrt(np.maximum((one**2).sum(0), (two**2).sum(0)).sum())) / 4,
        s * d * (d + 2 * r) / 8,
    )
    assert d == pytest.approx(np.hypot(du, dv), rel=1e-9)
    assert steps[0] <= steps[1] * (1 + 1e-9) and steps[1] <= steps[2] * (1 + 1e-9)
    if count == 1:
        assert largest_gap(*pair.networks, pair.x).value.lo <= steps[0] * (1 + 1e-9)


def _three():
    from bounds.alignment.permuted_units import D, R, s

    return D, R, s


@given(seeds)
@settings(max_examples=15)
def test_the_cube_holds_both_and_a_smaller_one_does_not(seed):
    case = PAIRS[1].case(seed)
    cube = cube_of(case)
    assert cube.outside <= 0
    far = np.abs(case.first.vector() - case.alignment.aligned.vector()).max()
    assert cube.side == pytest.approx(far, rel=1e-9)


@pytest.mark.parametrize("features", [400, 1600])
def test_the_chosen_pair_is_aligned_by_an_exchange_and_the_reading_fails_with_many_features(features):
    cube = chosen_pair(0, features)
    np.testing.assert_array_equal(cube.networks[1].readout, [100, 1e-3])
    assert cube.side == pytest.approx(1)
    gap = float(largest_gap(*cube.networks, cube.x).value.value)
    # The gap is |a c| / (|a| + |c|) with a = -c = sqrt(l) / 2.
    assert gap == pytest.approx(100 * np.sqrt(features) / 4, rel=1e-3)
    outcome = judge(get("alignment/cube"), Form.STATED, cube).outcome
    assert (outcome is Outcome.VIOLATED) == (features == 1600)


@pytest.mark.parametrize("power, outcome", [(-0.5, Outcome.HOLDS), (0.5, Outcome.VIOLATED)])
def test_the_conjecture_is_judged_by_the_power_of_the_width(power, outcome):
    sizes = 2.0 ** np.arange(5, 10)
    rows = sizes[:, None] ** power * np.array([0.99, 1.0, 1.01])
    assert judge(get("alignment/conjecture"), Form.STATED, TrainedPairs(sizes, rows, rows)).outcome is outcome


def test_trained_pairs_are_the_same_when_repeated_and_alignment_lowers_their_barriers():
    pair, again = (trained(widths, pairs=1, passes=8, seed=1) for widths in ((12, 24), (12, 24, 30)))
    for barrier, other in zip((*pair.barriers, *pair.aligned), (*again.barriers[:2], *again.aligned[:2]), strict=True):
        np.testing.assert_array_equal(barrier, other)
    assert pair.aligned.sum() < pair.barriers.sum()
    assert pair.describe() == {"widths": [12.0, 24.0], "pairs": 2}


def test_data_of_a_user_and_rounded_rationals():
    for draw in pair_families(Options(data="digits", n=9, trials=3)):
        case = draw.case(0)
        assert case.x.shape == (9, 64) and len(case.first.hidden) == 6 and draw.trials == 3
    third = as_estimate(Fraction(1, 3))
    assert third.lo < third.value < third.hi and abs(Fraction(float(third.value)) - Fraction(1, 3)) <= Fraction(
        float(third.error)
    )
