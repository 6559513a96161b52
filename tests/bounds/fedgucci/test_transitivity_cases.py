"""Tests of the cases of the transitivity statements.

The quantities of the cases are compared with independent recomputations, and loss barriers are compared with the bounds
for every Lipschitz constant.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

from bounds import Form, Options, Outcome, get
from bounds.averaging.clients_of_a_round import two_coins
from bounds.averaging.decomposition import opposed, smallest_covariance
from bounds.cases.cube_networks import CubeFamily, CubeNetworks
from bounds.cases.network_pair import (
    AS_ASSUMED,
    LIPSCHITZ_LOSS,
    STEEP_PAIRS,
    farthest,
    lipschitz_constant,
    pair_families,
)
from bounds.fedgucci.cube_bounds import WORST_INPUTS
from bounds.fedgucci.families.cube_families import (
    gap_families,
    group_families,
    loss_families,
    steep_loss,
    unit_loss_families,
)
from bounds.fedgucci.given_networks import corner_families, mean_gap, with_populations
from bounds.fedgucci.lemmas import LossTable
from bounds.fedgucci.loss_assumptions import VALLEYS, planar_counterexample
from bounds.fedgucci.powers import SideLadder
from bounds.fedgucci.premises import cube_terms
from bounds.fedgucci.premises.cube_symbols import (
    C,
    K as networks,
    L,
    N,
    S,
    b,
    d_anc,
    d_eps,
    h,
    l,
    s as second_moment,
    side as d,
)
from bounds.fedgucci.premises.cube_terms import (
    barrier,
    cube_constants,
    gap,
    group_deviation,
    group_loss,
    mean_group_deviation,
    vector_gap,
)
from bounds.symbols import delta
from ntkfl.connectivity.barrier import largest_gap
from ntkfl.connectivity.losses import named_loss
from ntkfl.connectivity.network import TwoLayer, between, combination
from verification.compare import judge

SEEDS = st.integers(0, 2**16)
EVERY_LOSS = [
    ("absolute", 1),
    ("logistic", 1),
    ("squared", 1),
    ("squared", 3),
    ("cross-entropy", 2),
    ("cross-entropy", 5),
]


def test_the_constants():
    assert [float(lipschitz_constant(loss).value) for loss in ("absolute", "logistic")] == [1, 1]
    root = lipschitz_constant("cross-entropy")
    assert root.lo**2 < 2 < root.hi**2
    # A bound on the outputs changes the constant of the squared loss only.
    assert lipschitz_constant("cross-entropy", 3.25).error == root.error > 0
    assert float(lipschitz_constant("squared", 3.25).value) == 6.5


def test_the_squared_loss_is_refused_without_a_reach():
    with pytest.raises(ValueError, match="the squared loss has no Lipschitz constant and no reach is given; it is 2 R"):
        lipschitz_constant("squared")
    case = steep_loss()
    assert not LIPSCHITZ_LOSS.met(case)
    assert not AS_ASSUMED.met(case)
    enough = replace(case, reach=farthest(case.networks, case.x, case.y))
    assert LIPSCHITZ_LOSS.met(enough)
    assert not LIPSCHITZ_LOSS.met(replace(case, reach=0.99 * enough.reach))
    assert judge(get("fedgucci/sure"), Form.NEW, enough).outcome is Outcome.HOLDS
    assert judge(get("fedgucci/sure"), Form.NEW, case).outcome is Outcome.VIOLATED


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(EVERY_LOSS), SEEDS, st.integers(2, 4))
def test_no_output_is_farther_from_its_label_than_said(kind, seed, count):
    loss, outputs = kind
    case = CubeFamily(h=4, l=3, side=1.5, n=5, count=count, outputs=outputs, loss=loss).case(seed)
    labels = case.y if loss != "cross-entropy" else np.zeros(len(case.x))
    reach, rng = farthest(case.networks, case.x, labels), np.random.default_rng(seed)
    for shares in rng.dirichlet(np.ones(count), 20):
        averaged = combination(case.networks, list(shares)).outputs(case.x)
        line = np.tensordot(shares, [net.outputs(case.x) for net in case.networks], 1)
        for values in (averaged, line):
            far = values - (labels if values.ndim == labels.ndim else labels[:, None])
            assert np.linalg.norm(far.reshape(len(far), -1), axis=1).max() <= reach
    assert loss != "squared" or case.reach >= reach


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(EVERY_LOSS), SEEDS)
def test_a_barrier_is_at_most_the_constant_times_the_gap(kind, seed):
    loss, outputs = kind
    case = CubeFamily(h=4, l=3, side=1.5, n=5, count=2 + seed % 3, outputs=outputs, loss=loss).case(seed)
    constant = float(cube_constants(case)[L].hi)
    assert barrier(case).lo <= constant * float(gap(case).hi)
    assert group_loss(case).lo <= constant * float(mean_group_deviation(case).hi)


@settings(deadline=None, max_examples=15)
@given(st.sampled_from(EVERY_LOSS), st.data())
def test_no_network_of_a_cube_is_above_the_sure_bound(kind, data):
    loss, outputs = kind
    case = data.draw(CubeFamily(h=3, l=2, side=1.0, n=3, outputs=outputs, loss=loss).strategy())
    assert judge(get("fedgucci/sure"), Form.NEW, case).outcome is not Outcome.VIOLATED


def test_cross_entropy_attains_sqrt_2():
    for seed in range(4):
        pair = STEEP_PAIRS.case(seed)
        bound = float(pair.bilinear_term.value) / 4 + float(pair.kink_term.value)
        assert float(pair.barrier.value) == pytest.approx(np.sqrt(2) * bound, rel=1e-8)


def test_corners_nearly_attain_the_sure_bound_with_every_constant():
    for draw in corner_families(Options()):
        case = draw.case(1)
        assert case.outside <= 0
        bound = get("fedgucci/sure").forms[Form.NEW].evaluate(cube_constants(case))
        assert float(gap(case).lo) > 0.96 * float(bound[0].value)
        # Without kinks the outputs along the segment are parabolas in alpha. These run through outputs at which
        # cross-entropy is flat, so that the barrier's bound is not tight.
        steep = "kinks" in draw.name or case.loss == "absolute"
        assert (float(barrier(case).lo) > 0.96 * float(bound[1].value)) == steep


def test_the_families_draw_every_loss():
    drawn = {(draw.loss, draw.outputs > 1) for draw in loss_families(Options())}
    assert drawn == {(loss, outputs > 1) for loss, outputs in EVERY_LOSS}
    for draw in loss_families(Options()):
        case = draw.case(0)
        assert LIPSCHITZ_LOSS.met(case)
        assert LIPSCHITZ_LOSS.met(case.redrawn(5))
        assert case.redrawn(5).outside <= 0
        assert named_loss(draw.loss).lipschitz is not None or case.reach is not None
    assert all(AS_ASSUMED.met(draw.case(0)) for draw in unit_loss_families(Options()))
    assert {draw.outputs for draw in gap_families(Options())} >= {1, 3}
    assert {draw.count for draw in group_families(Options())} == {2, 4, 16}


def test_the_users_inputs_are_taken_with_every_lipschitz_loss():
    families = loss_families(Options(data="digits", n=5, width=6, trials=2))
    assert [(draw.loss, draw.outputs, draw.trials) for draw in families] == [
        ("absolute", 1, 2),
        ("logistic", 1, 2),
        ("cross-entropy", 3, 2),
    ]
    assert families[2].case(0).x.shape == (5, 64)


def test_the_floor_of_the_covariance_is_negative_or_nothing():
    """Statement I8-nonzero, read literally, is false in both of its words, `positive` and `non-zero`.

    The statement says that a lower bound, a multiple of the smallest covariance of two clients, is positive. Opposed
    clients have the covariance -1, which contradicts `positive`. Independent clients have the covariance 0, which
    contradicts `non-zero`.
    """
    assert float(smallest_covariance(opposed()).hi) < 0
    independent = smallest_covariance(two_coins())
    assert float(independent.value) == float(independent.error) == 0


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


def test_the_planar_counterexample_has_the_recorded_numbers():
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
    # The supremum over another sample lies near the supremum over the population.
    assert mean_gap(small).lo <= exact.hi
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


THREE = CubeFamily(h=4, l=3, side=0.8, n=5, outputs=3, loss="cross-entropy")
E1 = d * second_moment * sp.sqrt(h * l)
ROWS = d * b * sp.sqrt(h * sp.log(12 * h / delta) / 2)
THEOREM = sp.sqrt(2 * h) * b / (2 * (1 - delta) ** (2 / S)) * d_eps * (d_eps + d_anc) * sp.log(12 * h / delta)
GROUP = ROWS * (d_anc / 2 + d * sp.sqrt(sp.log(sp.Rational(21, 10) / delta) / (6 * networks)))
ONE_OUTPUT = {  # the bounds on the gap of networks with one output, as the project's list of statements gives them
    "F9": sp.sqrt(2) / 2 * sp.sqrt(h) * b * (d**2 + d * d_anc) * sp.log(12 * h / delta),
    "F10": THEOREM,
    "F16": GROUP,
    "F18": GROUP,
    "R1": E1 / 2 * (d_anc / 2 + d * (1 + sp.sqrt(sp.log(4 * N / delta) / 6))),
    "R1g": d
    * b
    * sp.sqrt(h * sp.log(12 * h / delta))
    / 2
    * (d_anc / 2 + d * (1 + sp.sqrt(sp.log(12 * h / delta) / 6))),
    "R4": E1 / 2 * (d_anc / 2 + d * sp.sqrt(sp.log(2 / delta) / 6)),
    "sure": E1 / 2 * (d * sp.sqrt(h) / 2 + d_anc / 2),
}


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_for_one_output_the_bounds_are_the_known_ones(name):
    bound = (one := get(f"fedgucci/{name}")).forms[one.mutated_form].parts[0]
    assert sp.simplify(bound.subs(C, 1) - ONE_OUTPUT[name]) == 0


@pytest.mark.parametrize("name", ["F9", "F10", "F18", "R1", "R1g", "R4", "sure"])
def test_the_bound_on_a_barrier_is_that_on_the_gap_times_the_constant(name):
    parts = (one := get(f"fedgucci/{name}")).forms[one.mutated_form].parts
    assert sp.simplify(parts[-1] - L * parts[-2]) == 0


def test_what_is_printed_has_no_constant_and_one_output():
    for name in ("F9", "F10", "F18"):
        assert not get(f"fedgucci/{name}").forms[Form.STATED].parts[0].free_symbols & {C, L}
    assert sp.simplify(get("fedgucci/F9").forms[Form.STATED].parts[0] - THEOREM) == 0


def test_r1g_implies_the_theorem_for_any_number_of_outputs():
    """The inequality 1 + sqrt((C-1)/12) + sqrt(y/6) <= sqrt(2Cy) holds.

    Here y = log(12Ch/delta), which is at least log 12.
    """
    outputs, y = np.meshgrid([*range(1, 200), 10**4, 10**7], [np.log(12), 3.0, 5.0, 10.0, 100.0, 1e4])
    assert (1 + np.sqrt((outputs - 1) / 12) + np.sqrt(y / 6) <= np.sqrt(2 * outputs * y)).all()
    constants = cube_constants(THREE.case(0)) | {C: 4, h: 9, l: 5, S: 81, N: 6}
    weaker, sharper = (
        (one := get(f"fedgucci/{name}")).forms[one.mutated_form].evaluate(constants)[0] for name in ("F9", "R1g")
    )
    assert sharper.hi < weaker.lo


@pytest.mark.parametrize("outputs", [1, 2, 5, 20])
def test_the_tail_of_vectors_averaged_over_data(outputs):
    """The tail bound (J_C) holds for Gaussian entries: P(|f| > Q (sqrt(C-1) + sqrt(2 log(2/p)))) <= p.

    Here f has C entries, and Q^2 is their variance proxy. Gaussian entries have the heaviest tails of all entries with
    their variance proxy.
    """
    rng = np.random.default_rng(outputs)
    inputs = rng.standard_normal((2, 3))
    sizes = np.linalg.norm(rng.standard_normal((20_000, outputs, 3)) @ inputs.T, axis=1).mean(axis=1)
    scale = np.linalg.norm(inputs, axis=1).mean()
    for p in (0.9, 0.3, 0.05):
        assert (sizes > scale * (np.sqrt(outputs - 1) + np.sqrt(2 * np.log(2 / p)))).mean() <= p
    # The bound is not vacuous: most draws exceed half of Q sqrt(C).
    assert (sizes > scale * np.sqrt(outputs) / 2).mean() > 0.5


@settings(deadline=None, max_examples=15)
@given(CubeFamily(h=3, l=2, side=1.5, n=4, outputs=3, loss="cross-entropy").strategy())
def test_the_gap_of_vectors_is_that_of_a_grid(case):
    first, second = case.networks[:2]
    gap, largest = vector_gap(first, second, case.x).value, 0.0
    for alpha in np.linspace(0, 1, 101):
        z = between(first, second, alpha).outputs(case.x)
        z -= alpha * first.outputs(case.x) + (1 - alpha) * second.outputs(case.x)
        largest = max(largest, np.linalg.norm(z, axis=1).mean())
    size = case.anchor_norm + np.linalg.norm(case.anchor.hidden) + case.side
    assert largest <= gap.hi + 1e-13 * (1 + size**2 * case.b)
    steepest = sum(np.linalg.norm(net.hidden) * np.linalg.norm(net.readout) for net in (first, second)) * case.b
    assert gap.lo <= largest + 8 * steepest / 100


def test_the_gap_of_vectors_is_exact_where_one_output_alone_has_one():
    case = CubeFamily(h=5, l=3, side=0.9, n=6).case(3)
    nets = [TwoLayer(net.hidden, np.stack([0 * net.readout, net.readout])) for net in case.networks]
    alone, among = largest_gap(*case.networks, case.x).value, vector_gap(*nets, case.x).value
    assert among.lo <= alone.hi
    assert alone.lo <= among.hi
    with pytest.raises(ValueError, match="the networks have 1 output; this needs two or more"):
        vector_gap(*case.networks, case.x)


def turned(case: CubeNetworks, matrix: np.ndarray) -> CubeNetworks:
    """Returns the case with each network's outputs f replaced by the product of `matrix` and f."""
    anchor, *nets = (TwoLayer(net.hidden, matrix @ net.readout) for net in (case.anchor, *case.networks))
    return replace(case, anchor=anchor, networks=tuple(nets))


@settings(deadline=None, max_examples=10)
@given(SEEDS)
def test_turning_the_outputs_changes_no_gap_and_no_norm(seed):
    case = THREE.case(seed)
    matrix, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    other = turned(case, matrix)
    assert float(gap(other).value) == pytest.approx(float(gap(case).value), abs=1e-9)
    assert other.anchor_norm == pytest.approx(case.anchor_norm, rel=1e-12)
    assert group_deviation(other).value == pytest.approx(group_deviation(case).value, abs=1e-12)


@settings(deadline=None, max_examples=10)
@given(SEEDS)
def test_renaming_the_classes_changes_no_barrier(seed):
    case, order = THREE.case(seed), np.array([2, 0, 1])
    other = replace(turned(case, np.eye(3)[order]), y=np.argsort(order)[case.y])
    assert float(barrier(other).value) == pytest.approx(float(barrier(case).value), abs=1e-9)


def test_a_readout_of_one_row_is_a_readout():
    case = CubeFamily(h=4, l=3, side=0.8, n=5).case(1)
    rows = [TwoLayer(net.hidden, net.readout[None]) for net in (case.anchor, *case.networks)]
    other = CubeNetworks(rows[0], tuple(rows[1:]), case.side, case.x, case.y)
    assert float(gap(other).value) == float(gap(case).value)
    assert other.anchor_norm == pytest.approx(case.anchor_norm, rel=1e-12)


def test_the_norm_of_the_anchor_is_the_largest_its_readout_makes_of_a_unit_vector():
    case = THREE.case(0)
    directions = np.random.default_rng(0).standard_normal((4, 10_000))
    longest = np.linalg.norm(case.anchor.readout @ directions, axis=0) / np.linalg.norm(directions, axis=0)
    assert longest.max() <= case.anchor_norm <= longest.max() * 1.05
