"""Tests of the alignment of two-layer networks, which permutes the units of one network to bring it near to another.

The function stays the same, and no other permutation of the units brings the networks nearer to each other. The
alignment of groups of networks and the search for the smallest barrier are tested too.
"""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.connectivity import least_barrier
from ntkfl.connectivity.alignment import RULES, align, align_group, balanced, permuted, unit_rows
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.connectivity.network import TwoLayer


def network(seed, units=6, features=3, outputs=None, scale=1.0):
    rng = np.random.default_rng(seed)
    readout = rng.normal(size=units if outputs is None else (outputs, units))
    return TwoLayer(scale * rng.normal(size=(units, features)), scale * readout)


def inputs(by, seed=5, n=7, features=3):
    return None if by == "weights" else np.random.default_rng(seed).normal(size=(n, features))


seeds = st.integers(0, 2**32 - 1)
rules = st.sampled_from(RULES)


@given(seeds, rules, st.integers(1, 9), st.sampled_from([None, 1, 3]))
@settings(max_examples=60)
def test_the_function_stays_and_the_cost_never_rises(seed, by, units, outputs):
    first, second = network(seed, units, outputs=outputs), network(seed + 1, units, outputs=outputs)
    alignment = align(first, second, by, inputs(by))
    x = inputs("activations", seed)
    largest = np.abs(second.readout).max() * np.abs(second.hidden).max() * np.abs(x).max() * units * 3
    np.testing.assert_allclose(alignment.aligned.outputs(x), second.outputs(x), rtol=0, atol=1e-14 * largest)
    np.testing.assert_array_equal(alignment.aligned.hidden, second.hidden[alignment.permutation])
    np.testing.assert_array_equal(alignment.aligned.readout, second.readout[..., alignment.permutation])
    assert alignment.cost_after.lo <= alignment.cost_before.hi


@given(seeds, rules, st.integers(1, 5))
@settings(max_examples=40)
def test_no_permutation_is_nearer(seed, by, units):
    first, second = network(seed, units), network(seed + 1, units)
    alignment = align(first, second, by, inputs(by))
    rows = [unit_rows(net, by, inputs(by)).value for net in (first, second)]
    costs = [np.sum((rows[0] - rows[1][list(order)]) ** 2) for order in permutations(range(units))]
    assert alignment.cost_after.lo <= min(costs) * (1 + 1e-12) and min(costs) <= alignment.cost_after.hi * (1 + 1e-12)


@given(seeds, rules, st.sampled_from([1e-150, 1.0, 1e150]))
@settings(max_examples=40)
def test_a_permuted_copy_is_put_back_bit_for_bit(seed, by, scale):
    first = network(seed, 8, scale=scale if by != "outputs" else 1.0)
    moved = permuted(first, np.random.default_rng(seed).permutation(8))
    aligned = align(first, moved, by, inputs(by, n=40)).aligned
    seen = (unit_rows(first, by, inputs(by, n=40)).value > 0).any(axis=1) if by != "weights" else np.full(8, True)
    # A unit that is never active may take any place.
    np.testing.assert_array_equal(aligned.hidden[seen], first.hidden[seen])


def test_nothing_is_moved_without_a_gain_and_ties_are_always_broken_alike():
    first = network(0)
    twins = TwoLayer(first.hidden[[0, 0, 1, 1, 2, 2]], first.readout[[0, 0, 1, 1, 2, 2]])
    for by in RULES:
        np.testing.assert_array_equal(align(first, first, by, inputs(by)).permutation, np.arange(6))
        np.testing.assert_array_equal(align(twins, twins, by, inputs(by)).permutation, np.arange(6))
        both = [align(first, twins, by, inputs(by)).permutation for _ in range(2)]
        np.testing.assert_array_equal(*both)


@given(seeds, rules, st.integers(2, 4))
@settings(max_examples=25)
def test_a_group_is_aligned_consistently_and_no_farther_apart(seed, by, members):
    networks = [network(seed + k, 5) for k in range(members)]
    alignments = align_group(networks, by, inputs(by))

    def apart(group):
        rows = [unit_rows(net, by, inputs(by)).value for net in group]
        return sum(np.sum((row - other) ** 2) for row in rows for other in rows)

    assert apart([alignment_of.aligned for alignment_of in alignments]) <= apart(networks) * (1 + 1e-12)
    for alignment, given_network in zip(alignments, networks, strict=True):
        np.testing.assert_array_equal(alignment.aligned.hidden, given_network.hidden[alignment.permutation])
    again = align_group([alignment_of.aligned for alignment_of in alignments], by, inputs(by))
    for alignment_of in again:  # A second `align_group` changes nothing.
        np.testing.assert_array_equal(alignment_of.permutation, np.arange(5))


def test_a_group_of_permuted_copies_becomes_one_point():
    first = network(3, 12)
    copies = [permuted(first, np.random.default_rng(k).permutation(12)) for k in range(4)]
    for alignments in (align_group([first, *copies]), align_group([first, *copies], reference=0)):
        for alignment in alignments:
            np.testing.assert_array_equal(alignment.aligned.vector(), alignments[0].aligned.vector())
    assert all(alignment.cost_after.value == 0 for alignment in align_group(copies, reference=2))
    assert len(align_group([first])) == 1


@given(seeds, st.sampled_from([None, 3]))
@settings(max_examples=30)
def test_balanced_networks_are_the_same_function_at_the_least_norm(seed, outputs):
    rng = np.random.default_rng(seed)
    plain = network(seed, 5, outputs=outputs)
    scale = 10 ** rng.uniform(-3, 3, 5)
    moved = TwoLayer(plain.hidden * scale[:, None], plain.readout / scale)
    normal = balanced(moved)
    np.testing.assert_allclose(
        np.linalg.norm(normal.hidden, axis=1), np.linalg.norm(np.atleast_2d(normal.readout), axis=0), rtol=1e-13
    )
    np.testing.assert_allclose(normal.vector(), balanced(plain).vector(), rtol=1e-12)
    np.testing.assert_allclose(
        normal.outputs(inputs("outputs")), plain.outputs(inputs("outputs")), rtol=1e-9, atol=1e-12
    )
    assert np.linalg.norm(normal.vector()) <= np.linalg.norm(moved.vector()) * (1 + 1e-14)
    rows = [unit_rows(net, "outputs", inputs("outputs")).value for net in (plain, moved)]
    np.testing.assert_allclose(*rows, rtol=1e-12, atol=1e-14)


def test_units_that_add_nothing_stay_as_they_are():
    dead = TwoLayer([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], [5.0, 0.0, 20.0])
    np.testing.assert_array_equal(balanced(dead).hidden, [[0, 0], [1, 2], [6, 8]])
    np.testing.assert_array_equal(balanced(dead).readout, [5, 0, 10])
    tiny = TwoLayer([[1e-200, 0.0]], [1e-250])
    assert balanced(tiny).hidden[0, 0] == pytest.approx(1e-225, rel=1e-14)


def test_the_smallest_barrier_of_all_orders_is_no_larger_than_any_alignment():
    rng = np.random.default_rng(1)
    first, second = network(11, 4), network(12, 4)
    x, y = rng.normal(size=(9, 3)), rng.normal(size=9)
    least = least_barrier(first, second, x, y)
    assert least.proved and least.tried == 24
    for by in RULES:
        other = loss_barrier(first, align(first, second, by, x if by != "weights" else None).aligned, x, y)
        assert least.barrier.lo <= other.value.hi
    copy = permuted(first, [2, 3, 1, 0])
    zero = least_barrier(first, copy, x, y)
    assert zero.barrier.hi < 1e-10 and zero.barrier.lo <= 0


def test_the_search_lowers_the_barrier_and_says_what_it_has_not_proved():
    rng = np.random.default_rng(2)
    first, second = network(21, 9), network(22, 9)
    x, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    short = least_barrier(first, second, x, y, evaluations=5)
    assert short.tried == 5 and not short.proved and not short.local
    least = least_barrier(first, second, x, y, start=align(first, second).permutation)
    assert least.local and not least.proved and least.barrier.hi <= short.barrier.hi
    for i in range(9):
        for j in range(i):
            order = least.permutation.copy()
            order[[i, j]] = order[[j, i]]
            assert loss_barrier(first, permuted(second, order), x, y).value.hi >= least.barrier.lo


def test_what_cannot_be_aligned_is_refused():
    first, second = network(0), network(1)
    with pytest.raises(ValueError, match=r"network 1 has hidden and readout weights of shapes \(5, 3\)"):
        align(first, network(1, 5))
    with pytest.raises(ValueError, match=r"not by 'weigths'; Did you mean 'weights'\?"):
        align(first, second, "weigths")
    with pytest.raises(ValueError, match="needs inputs: give x"):
        align(first, second, "activations")
    with pytest.raises(ValueError, match="takes no inputs"):
        align(first, second, "weights", np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"the network takes \(n, 3\)"):
        align(first, second, "outputs", np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"the reference is 2; there are networks 0\.\.1"):
        align_group([first, second], reference=2)
    with pytest.raises(ValueError, match="at least one is needed"):
        align_group([])
    with pytest.raises(ValueError, match=r"permutation is .*; it must be a permutation of the integers 0\.\.5"):
        permuted(first, [0, 1, 2, 3, 4, 4])
    with pytest.raises(ValueError, match="evaluations is 0"):
        least_barrier(first, second, np.ones((1, 3)), np.ones(1), evaluations=0)
