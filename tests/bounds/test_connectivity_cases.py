"""Tests of the cases of the connectivity statements.

Quantities that the cases compute exactly, such as the probability of a tail, are compared with samples or with known
values. Bad input is refused.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds import Options
from bounds.cases.cube_networks import CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import pair
from bounds.fedgucci.connectivity_loss import ANCHOR_WINDOWS
from bounds.fedgucci.families.cube_families import with_far_labels
from bounds.fedgucci.lemmas import UNIFORM_SUMS, WELLS, LowLossRegion, UniformSum
from bounds.fedgucci.loss_assumptions import CircleNeuron, LossSteepness
from bounds.fedgucci.premises.cube_terms import group_deviation
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.connectivity.losses import LOSSES
from ntkfl.connectivity.network import TwoLayer

SMALL = CubeFamily(h=3, l=2, side=1.5, n=4)


@settings(deadline=None, max_examples=30)
@given(SMALL.strategy())
def test_networks_lie_in_their_cube_and_inputs_within_b(case):
    assert case.outside <= 0
    assert np.linalg.norm(case.x, axis=1).max() <= case.b
    assert np.linalg.norm(case.anchor.readout) <= case.anchor_norm


def test_the_default_families_have_the_recorded_sizes_and_one_seed_is_one_case():
    families = cube_families(Options())
    assert [(f.h, f.l, f.side) for f in families] == [(8, 4, 0.5), (32, 8, 0.5), (512, 8, 0.1), (4, 64, 1.0)]
    again = [SMALL.case(3).networks[1].vector() for _ in range(2)]
    assert np.array_equal(*again)
    assert not np.array_equal(again[0], SMALL.case(4).networks[1].vector())


def test_the_users_inputs_are_taken():
    (family,) = cube_families(Options(data="digits", n=5, width=7))
    case = family.case(0)
    assert case.x.shape == (5, 64)
    assert case.h == 7
    assert set(case.y) <= {-1.0, 1.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"networks": ()}, "there is no network beside the anchor"),
        ({"y": np.ones(3)}, r"the labels have shape \(3,\); the absolute loss of 4 samples, 1 outputs, needs \(4,\)"),
        ({"loss": "cross-entropy"}, "the cross-entropy loss needs two outputs or more"),
        ({"loss": "squared", "reach": 0.0}, "reach is 0.0; it must be positive"),
        ({"side": 0.0}, "side is 0.0; it must be positive"),
        ({"delta": -1.0}, "delta is -1.0; it must be positive"),
    ],
)
def test_a_cube_of_networks_that_makes_no_sense_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        replace(SMALL.case(0), **change)


def test_a_segment_needs_two_networks():
    with pytest.raises(ValueError, match="the case has 1 network; a segment needs 2"):
        pair(replace(SMALL, count=1).case(0))


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_far_labels_make_a_barrier(loss):
    for seed in range(5):
        case = with_far_labels(SMALL).case(seed)
        assert loss_barrier(*pair(case), case.x, case.y, loss).value.lo > 0


@settings(deadline=None, max_examples=15)
@given(UNIFORM_SUMS.strategy())
def test_the_tail_of_a_uniform_sum_is_what_sampling_finds(case):
    rng = np.random.default_rng(0)
    weights = np.array([float(a) for a in case.weights])
    draws = rng.uniform(-0.5, 0.5, (20_000, len(weights))) @ weights * float(case.side)
    assert abs((np.abs(draws) > float(case.t)).mean() - float(case.probability().value)) < 0.02


def test_the_sum_of_two_uniforms_is_a_triangle():
    case = UniformSum((Fraction(1), Fraction(-1)), Fraction(2), Fraction(1))
    # For independent X_1 and X_2, uniform on [-1, 1], |X_1 - X_2| > t has the probability (1 - t/2)^2. Here t is 1.
    assert float(case.probability().value) == 0.25


def test_a_uniform_sum_of_nothing_is_refused():
    with pytest.raises(ValueError, match="there are 0 weights"):
        UniformSum((), Fraction(1), Fraction(1))
    with pytest.raises(ValueError, match="the side is 0 and the level 1; both must be positive"):
        UniformSum((Fraction(1),), Fraction(0), Fraction(1))


@settings(deadline=None, max_examples=15)
@given(WELLS.strategy())
def test_the_connected_share_is_what_sampling_along_segments_finds(case):
    rng = np.random.default_rng(0)
    anchor, middles, splits = (np.array(v, float) for v in (case.anchor, case.middles, case.splits))
    eps, reach = float(case.eps), float(case.reach)

    def loss(w):
        return (((w - middles) ** 2 - splits) ** 2).max(axis=-1)

    w = anchor + rng.uniform(-0.5, 0.5, (2000, case.size)) * float(case.side)
    alphas = np.linspace(0, 1, 101)[:, None, None]
    seen = (loss(w) < eps) & (np.abs(w) <= reach).all(axis=1)
    seen &= (loss(alphas * anchor + (1 - alphas) * w) <= eps).all(axis=0)
    assert abs(seen.mean() - float(case.probability().value)) < 0.05


def test_a_low_region_that_makes_no_sense_is_refused():
    one = (Fraction(1),)
    with pytest.raises(ValueError, match="eps is 0; it must be positive"):
        LowLossRegion(one, one, one, Fraction(1), Fraction(0), Fraction(4))
    with pytest.raises(ValueError, match="the anchor's largest entry is 1, outside R = 1/2"):
        LowLossRegion(one, one, one, Fraction(1), Fraction(1), Fraction(1, 2))
    with pytest.raises(ValueError, match="as many of each"):
        LowLossRegion(one, (), one, Fraction(1), Fraction(1), Fraction(4))


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 5), st.integers(0, 2**16))
def test_no_quotient_of_cross_entropy_exceeds_its_constant(outputs, seed):
    rng = np.random.default_rng(seed)
    f, g = rng.normal(0, 5, (2, 50, outputs))
    y = rng.integers(0, outputs, 50)
    rises = np.abs(LOSSES["cross-entropy"].value(f, y) - LOSSES["cross-entropy"].value(g, y))
    assert (rises <= LossSteepness("cross-entropy", outputs).steepest().hi * np.linalg.norm(f - g, axis=1)).all()


def test_losses_and_outputs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="there is no loss 'hinge'"):
        LossSteepness("hinge")
    with pytest.raises(ValueError, match="the cross-entropy loss has 1 outputs"):
        LossSteepness("cross-entropy", 1)
    with pytest.raises(ValueError, match="reach is 0; it must be a positive"):
        LossSteepness("squared", 1, 0.0)


def test_the_curvature_of_a_unit_is_that_of_a_sampled_circle():
    case = CircleNeuron(readout=2.0, length=0.25, radius=3.0, angle=0.3, turn=0.7)
    angles = (np.arange(200_000) + 0.5) * (2 * np.pi / 200_000)
    x = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends = [0.25 * np.array([np.cos(a), np.sin(a)]) for a in (0.3, 1.0)]
    gradients = [2 * ((x @ u > 0)[:, None] * x).mean(axis=0) for u in ends]
    quotient = np.linalg.norm(gradients[1] - gradients[0]) / np.linalg.norm(ends[1] - ends[0])
    assert abs(quotient - float(case.curvature().value)) < 1e-3


def test_a_unit_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="length is 0; it must be a positive"):
        CircleNeuron(1.0, 0.0)
    with pytest.raises(ValueError, match=r"turn is 4\.0"):
        CircleNeuron(1.0, 1.0, turn=4.0)


def test_a_window_holds_the_current_model_and_at_most_as_many_as_are_kept():
    for seed in range(20):
        case = ANCHOR_WINDOWS.case(seed)
        assert case.store == tuple(range(max(1, len(case.models) - case.keep + 1), len(case.models) + 1))


def test_a_window_without_a_model_is_refused():
    case = ANCHOR_WINDOWS.case(0)
    with pytest.raises(ValueError, match="there is no global model"):
        replace(case, models=())
    with pytest.raises(ValueError, match="keep is 0"):
        replace(case, keep=0)


def test_the_deviation_of_a_group_counts_the_rounding_of_means_that_cancel():
    """The stated error covers the rounding of a mean of weights that cancel.

    Hidden weights of size .8 have the mean 1.5e-14. Exact rationals give the true error of the mean in floats.
    """
    near = -0.80332 + 4.6e-14
    weights = ((0.80332, 0.0), (near, 0.0), (0.0, 0.80332))
    networks = tuple(TwoLayer(np.array([[u]]), np.array([v])) for u, v in weights)
    anchor = TwoLayer(np.zeros((1, 1)), np.zeros(1))
    deviation = group_deviation(CubeNetworks(anchor, networks, 2.0, np.ones((1, 1)), np.ones(1)))
    u, v = (sum(Fraction(pair[k]) for pair in weights) / 3 for k in (0, 1))
    true = abs(v * max(u, 0) - sum(Fraction(v) * max(Fraction(u), 0) for u, v in weights) / 3)
    assert abs(Fraction(float(deviation.value[0])) - true) <= Fraction(float(deviation.error[0]))
