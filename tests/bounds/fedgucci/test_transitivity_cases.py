"""The cases behind the transitivity statements, each against an independent recomputation."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Options, get
from bounds.cases.cube_networks import CubeFamily
from bounds.cases.network_pair import pair_families
from bounds.fedgucci.cube_bounds import WORST_INPUTS
from bounds.fedgucci.f17 import VALLEYS, planar_counterexample
from bounds.fedgucci.given_networks import mean_gap, with_populations
from bounds.fedgucci.low_loss import LossTable
from bounds.fedgucci.premises import cube_terms
from bounds.fedgucci.x5 import SideLadder
from ntkfl.connectivity.network import between
from verification.compare import judge

SEEDS = st.integers(0, 2**16)


def valley_loss(case, x, y):
    (p, q), angle = case.amplitudes, np.pi * x / case.period
    residual = np.abs(y + p * np.sin(angle) ** 2 - q * np.sin(angle / 2) ** 2)
    inside = np.minimum(residual, case.reach)
    return case.scale * (inside**2 / 2 + case.reach * (residual - inside))


@settings(deadline=None, max_examples=8)
@given(VALLEYS.strategy())
def test_the_supremum_on_a_segment_encloses_a_fine_grid(case):
    alpha = np.linspace(0, 1, 20_001)
    for end, supremum in ((case.anchor, case.old_supremum), (case.moved_anchor, case.new_supremum)):
        x, y = (alpha * a + (1 - alpha) * b for a, b in zip(case.model, end, strict=True))
        largest = valley_loss(case, x, y).max()
        assert supremum.hi >= largest * (1 - 1e-12)
        step = np.hypot(case.model[0] - end[0], case.model[1] - end[1]) / 20_000
        assert supremum.lo <= largest + float(case.smoothness.hi) * step**2 / 8 + 1e-9 * largest


@settings(deadline=None, max_examples=8)
@given(VALLEYS.strategy(), SEEDS)
def test_the_gradient_is_lipschitz_with_the_stated_constant(case, seed):
    rng, size = np.random.default_rng(seed), 1e-4
    start, along = rng.uniform(-case.period, case.period, 2), rng.standard_normal(2)
    along *= size / np.linalg.norm(along)
    second = sum(s * valley_loss(case, *(start + k * along)) for k, s in ((-1, 1), (0, -2), (1, 1))) / size**2
    assert abs(second) <= float(case.smoothness.hi) * (1 + 1e-6) + 1e-4 * (1 + case.scale)


def test_the_planar_counterexample_has_the_ledger_s_numbers():
    case = planar_counterexample()
    assert float(case.old_supremum.value) == pytest.approx(6.180, abs=5e-4)
    assert float(case.new_supremum.value) == pytest.approx(8.008, abs=5e-4)
    assert float(case.shift.value) == 1


@settings(deadline=None, max_examples=8)
@given(SEEDS)
def test_values_in_balls_are_values_of_the_gap(seed):
    case = CubeFamily(h=3, l=2, side=0.7, n=3).case(seed)
    alpha = cube_terms._gap(case).at
    first, second = case.networks
    z = between(first, second, alpha).outputs(case.x)
    z -= alpha * first.outputs(case.x) + (1 - alpha) * second.outputs(case.x)
    assert float(cube_terms.absolute_value(case).value) == pytest.approx(np.abs(z).mean(), abs=1e-14)
    assert float(cube_terms.signed_value(case).value) == pytest.approx(max(0, z.mean()), abs=1e-14)
    assert cube_terms.absolute_value(case).lo <= cube_terms.gap(case).hi


@settings(deadline=None, max_examples=8)
@given(SEEDS, st.integers(2, 5))
def test_a_group_of_two_is_the_middle_of_the_segment(seed, count):
    case = CubeFamily(h=3, l=2, side=0.7, n=3, count=count).case(seed)
    pair = replace(case, networks=case.networks[:2])
    assert cube_terms.mean_group_deviation(pair).lo <= cube_terms.gap(pair).hi
    same = replace(case, networks=(case.networks[0],) * count)
    assert (cube_terms.group_deviation(same).lo <= 0).all()


def test_the_worst_input_beats_the_bound_in_every_draw():
    statement = get("fedgucci/F9-all-x")
    ratios = [judge(statement, next(iter(statement.forms)), WORST_INPUTS.case(seed)).tightness for seed in range(3)]
    assert min(ratios) > 1.1


def test_volumes_of_a_table_are_counted():
    table = LossTable(((0, 20), (0, 0), (9, 9), (20, 0)), 10, 2, 3.0, low_outside=1)
    assert table.failures == (Fraction(1, 4), Fraction(1, 4))
    assert table.joint_failure == 1 - Fraction(3, 4) ** 2
    assert table.low_share == Fraction(3, 4)
    assert float(table.radius.value) == pytest.approx(3 * np.sqrt(3 / 4), rel=1e-14)


@settings(deadline=None, max_examples=5)
@given(SEEDS)
def test_the_ball_s_mean_is_between_its_ends(seed):
    small = with_populations(CubeFamily(h=4, l=2, side=0.3, rows="ball", n=2000)).case(seed)
    x, y = CubeFamily(h=4, l=2, side=0.3, rows="ball", n=2000).inputs(seed + 1)
    exact = cube_terms.gap(replace(small, x=x, y=y))
    assert mean_gap(small).lo <= exact.hi  # the supremum over another sample lies near the population's supremum
    assert exact.lo <= mean_gap(small).hi


@settings(deadline=None, max_examples=5)
@given(st.sampled_from(pair_families(Options())), SEEDS)
def test_the_two_terms_bound_the_deviation_on_a_grid(draw, seed):
    pair = draw.case(seed)
    ends = pair.first.outputs(pair.x), pair.second.outputs(pair.x)
    bound = float(pair.bilinear_term.hi) / 4 + float(pair.kink_term.hi)
    for alpha in np.linspace(0, 1, 21):
        z = between(pair.first, pair.second, alpha).outputs(pair.x) - alpha * ends[0] - (1 - alpha) * ends[1]
        assert np.linalg.norm(z.reshape(len(z), -1), axis=1).mean() <= bound * (1 + 1e-9)


def test_a_ladder_s_other_networks_are_others():
    ladder = SideLadder(0, h=4, n=50, pairs=2)
    assert ladder.n_runs == 10
    assert float(ladder.fresh().exponent(at_origin=True).value) != float(ladder.exponent(at_origin=True).value)
