"""Tests of regions of low loss of small networks, and of the theorem that uses them.

Sampled volumes are compared with independent counts.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Form, Options, Outcome, get
from bounds.fedgucci.cases.low_loss import CONNECTED, WIDE_CUBES, hardly_connected, low_loss_cubes, low_loss_families
from ntkfl.connectivity.network import between
from verification.compare import judge

WIDE = low_loss_cubes((2, 2), 3.0, level=0.6)


def points_in_cube(case, side, count, seed):
    rng = np.random.default_rng(seed)
    return case.anchor.vector() + side * rng.uniform(-0.5, 0.5, (count, case.size))


def networks_in_cube(case, side, count, seed):
    return [case.anchor.at(point) for point in points_in_cube(case, side, count, seed)]


def mean_loss(case, network, rows=slice(None)):
    return np.abs(network.outputs(case.x[rows]) - case.y[rows]).mean()


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 2**16))
def test_losses_of_many_networks_are_those_of_each(seed):
    case = low_loss_cubes((1, 3), 1.0).case(seed)
    networks = networks_in_cube(case, 1.0, 5, seed)
    expected = [mean_loss(case, net) for net in networks]
    assert np.allclose(case.losses(np.array([net.vector() for net in networks])), expected, rtol=1e-13)


@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_shares_are_what_another_sample_finds(seed):
    case = WIDE.case(seed)
    alphas = np.linspace(0, 1, 41)[1:]
    points, centre = points_in_cube(case, case.side, 3000, 7), case.anchor.vector()
    seen = np.all([case.losses(centre + a * (points - centre)) < case.epsilon for a in alphas], axis=0)
    spread = 4 * np.sqrt(0.25 / 3000)
    assert abs(seen.mean() - float(case.probability().value)) < spread + float(case.probability().error)
    share = np.mean(case.losses(points_in_cube(case, case.domain, 3000, 8)) < case.epsilon)
    sampled = (case.low_loss_size.value / case.domain) ** case.size
    assert abs(share - sampled) < spread
    assert 0.01 < sampled < 0.9  # The region is a proper part of the domain of the weights.


def test_a_client_is_judged_by_its_own_inputs():
    case = low_loss_cubes((2, 2), 1.0, count=3, own=True).case(0)
    assert [len(case.x[rows]) for rows in case.owners] == [8, 8, 8]
    (network, *_) = networks_in_cube(case, 1.0, 1, 3)
    highest = [case.highest_loss(network, rows) for rows in case.owners]
    for rows, top in zip(case.owners, highest, strict=True):
        grid = max(mean_loss(case, between(network, case.anchor, a), rows) for a in np.linspace(0, 1, 101))
        assert grid <= top <= grid * 1.05
    below_one = replace(case, epsilon=min(highest) * 0.999, paths=30)
    assert float(below_one.connected_share.value) < float(case.connected_share.value)


@pytest.mark.parametrize("draw", [WIDE, low_loss_cubes((2, 2), 1.0, count=3, own=True)])
def test_networks_are_counted_as_one_by_one(draw):
    case = draw.case(1)
    networks = networks_in_cube(case, case.side, 60, 4)
    vectors = np.array([net.vector() for net in networks])
    for rows in case.owners:
        highest = [case.highest_loss(net, rows) for net in networks]
        assert case.highest_of(vectors, rows) == max(highest)
        for level in np.quantile(highest, [0.1, 0.5, 0.9]):
            counted = replace(case, epsilon=float(level))._count_connected(vectors, rows)
            assert counted == sum(loss < level for loss in highest)


def test_a_higher_level_makes_a_larger_region_and_the_domain_bounds_it():
    case = WIDE.case(2)
    sizes = [replace(case, epsilon=factor * case.epsilon).low_loss_size for factor in (0.5, 1.0, 1e9)]
    assert sizes[0].hi < sizes[1].lo < sizes[2].hi
    assert sizes[2].hi == pytest.approx(case.domain) and sizes[2].lo > 0.99 * case.domain
    assert replace(case, epsilon=0.0).probability().lo <= 0


def test_the_lemma_is_decided_on_networks_and_a_smaller_bound_is_refuted():
    statement = get("fedgucci/F3")
    for draw in WIDE_CUBES:
        case = draw.case(0)
        seen = judge(statement, Form.STATED, case)
        assert seen.outcome is Outcome.HOLDS and 0.1 < seen.tightness < 1
        shrunk = statement.forms[Form.STATED].mutated(lambda part: part / 12)
        assert judge(statement, Form.STATED, case, formula=shrunk).outcome is Outcome.VIOLATED


@pytest.mark.parametrize("name", ["fedgucci/F9", "fedgucci/F18"])
def test_the_premise_is_met_by_the_families_and_needed(name):
    statement, families = get(name), low_loss_families(Options(), own=name == "fedgucci/F18")
    for draw in families:
        assert sum(CONNECTED.met(draw.case(seed)) for seed in range(3)) >= 2
    case = hardly_connected()
    assert not CONNECTED.met(case)
    assert all(h.met(case) for h in statement.required(Form.STATED) if h is not CONNECTED)
    assert judge(statement, Form.STATED, case).outcome is Outcome.VIOLATED


def test_no_volume_is_sampled_on_data_of_the_user():
    assert low_loss_families(Options(data="digits")) == ()
