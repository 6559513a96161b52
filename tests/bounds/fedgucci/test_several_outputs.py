"""The bounds for C outputs are the bounds for one output at C = 1, and do not depend on the outputs' order or axes."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

from bounds import Form, get
from bounds.cases.cube_networks import CubeFamily, CubeNetworks
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
from bounds.fedgucci.premises.cube_terms import barrier, cube_constants, gap, group_deviation, vector_gap
from bounds.symbols import delta
from ntkfl.connectivity.barrier import largest_gap
from ntkfl.connectivity.network import TwoLayer, between

SEEDS = st.integers(0, 2**16)
THREE = CubeFamily(h=4, l=3, side=0.8, n=5, outputs=3, loss="cross-entropy")
E1 = d * second_moment * sp.sqrt(h * l)
ROWS = d * b * sp.sqrt(h * sp.log(12 * h / delta) / 2)
THEOREM = sp.sqrt(2 * h) * b / (2 * (1 - delta) ** (2 / S)) * d_eps * (d_eps + d_anc) * sp.log(12 * h / delta)
GROUP = ROWS * (d_anc / 2 + d * sp.sqrt(sp.log(sp.Rational(21, 10) / delta) / (6 * networks)))
ONE_OUTPUT = {  # the bounds on the gap of scalar networks, as the ledger has them
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
def test_for_one_output_the_bounds_are_the_ledger_s(name):
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
    """1 + sqrt((C-1)/12) + sqrt(y/6) <= sqrt(2Cy) where y = log(12Ch/delta) is at least log 12."""
    outputs, y = np.meshgrid([*range(1, 200), 10**4, 10**7], [np.log(12), 3.0, 5.0, 10.0, 100.0, 1e4])
    assert (1 + np.sqrt((outputs - 1) / 12) + np.sqrt(y / 6) <= np.sqrt(2 * outputs * y)).all()
    constants = cube_constants(THREE.case(0)) | {C: 4, h: 9, l: 5, S: 81, N: 6}
    weaker, sharper = (
        (one := get(f"fedgucci/{name}")).forms[one.mutated_form].evaluate(constants)[0] for name in ("F9", "R1g")
    )
    assert sharper.hi < weaker.lo


@pytest.mark.parametrize("outputs", [1, 2, 5, 20])
def test_the_tail_of_vectors_averaged_over_data(outputs):
    """(J_C) for Gaussian entries, the heaviest tails of their proxy: P(|f| > Q (sqrt(C-1) + sqrt(2 log(2/p)))) <= p."""
    rng = np.random.default_rng(outputs)
    inputs = rng.standard_normal((2, 3))
    sizes = np.linalg.norm(rng.standard_normal((20_000, outputs, 3)) @ inputs.T, axis=1).mean(axis=1)
    scale = np.linalg.norm(inputs, axis=1).mean()
    for p in (0.9, 0.3, 0.05):
        assert (sizes > scale * (np.sqrt(outputs - 1) + np.sqrt(2 * np.log(2 / p)))).mean() <= p
    assert (sizes > scale * np.sqrt(outputs) / 2).mean() > 0.5  # most draws exceed half of Q sqrt(C)


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
    """The case with its outputs f replaced by matrix f."""
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
