"""Groups of torch models: functions stay, distances fall, rounds end, copies become one point."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from test_torch_alignment import COUPLED_NOWHERE, inputs, mlp, networks
from test_units import NETWORKS, X

from ntkfl.connectivity.alignment import RULES, align_group
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.torch_network import TorchNetwork
from ntkfl.connectivity.units.matching import permuted
from ntkfl.connectivity.units.numbers import unit_numbers
from ntkfl.connectivity.units.torch_alignment import align_torch
from ntkfl.connectivity.units.torch_groups import align_torch_group

seeds, rules = st.integers(0, 10**6), st.sampled_from(RULES)


def apart(group, x, by):
    """The sum of all pairs' squared distances, computed from the networks alone."""
    rows = [np.concatenate([layer.values.ravel() for layer in unit_numbers(net, x, by)[1]]) for net in group]
    return sum(np.sum((row - other) ** 2) for k, row in enumerate(rows) for other in rows[:k])


@given(seeds, rules, st.sampled_from(["batch norm", "groups", "residual", "attention"]), st.integers(2, 4))
@settings(max_examples=20)
def test_functions_stay_and_no_sum_of_distances_rises(seed, by, name, members):
    group = networks(NETWORKS[name](), seed, members)
    alignments = align_torch_group(group, X, by)
    for net, alignment in zip(group, alignments, strict=True):
        np.testing.assert_allclose(alignment.aligned.outputs(X), net.outputs(X), rtol=1e-8, atol=1e-8)
        for order in alignment.permutations.values():
            np.testing.assert_array_equal(np.sort(order), np.arange(len(order)))
    aligned = [alignment.aligned for alignment in alignments]
    total = apart(aligned, X, by)
    assert total <= apart(group, X, by) * (1 + 1e-9)
    rows = [np.concatenate([layer.values.ravel() for layer in unit_numbers(net, X, by)[1]]) for net in aligned]
    for k, alignment in enumerate(alignments):  # the cost is the distance to the mean of the others
        far = np.sum((rows[k] - np.mean(rows[:k] + rows[k + 1 :], axis=0)) ** 2)
        assert float(alignment.cost_after.value) == pytest.approx(far, rel=1e-8)


@given(seeds, rules, st.integers(1, 3))
@settings(max_examples=15)
def test_rounds_come_to_an_end(seed, by, starts):
    group = networks(mlp(3, 5, 4, 2), seed, 3)
    alignments = align_torch_group(group, inputs(), by, starts=starts)
    again = align_torch_group([alignment.aligned for alignment in alignments], inputs(), by, starts=starts)
    for alignment, once in zip(again, alignments, strict=True):
        assert all(np.array_equal(order, np.arange(len(order))) for order in alignment.permutations.values())
        assert float(alignment.cost_after.value) == pytest.approx(float(once.cost_after.value), rel=1e-12)
        assert alignment.sweeps < once.sweeps


@given(seeds, rules, st.integers(2, 4), st.sampled_from([None, 0, 1]))
@settings(max_examples=25)
def test_with_one_hidden_layer_it_is_the_group_of_two_layer_networks(seed, by, members, reference):
    group = networks(mlp(3, 5, 2, bias=False), seed, members)
    plain = [TwoLayer(net.state["0.weight"].numpy(), net.state["2.weight"].numpy()) for net in group]
    expected = align_group(plain, by, None if by == "weights" else inputs(), reference)
    for alignment, other in zip(align_torch_group(group, inputs(), by, reference), expected, strict=True):
        np.testing.assert_array_equal(alignment.permutations["0.weight"], other.permutation)
        for cost, two in ((alignment.cost_before, other.cost_before), (alignment.cost_after, other.cost_after)):
            assert float(cost.value) == pytest.approx(float(two.value), rel=1e-10, abs=1e-20)


@given(seeds, st.sampled_from(["activations", "outputs"]), st.sampled_from(COUPLED_NOWHERE), st.sampled_from([None, 1]))
@settings(max_examples=15)
def test_permuted_copies_become_one_point(seed, by, name, reference):
    """With more than two copies the rounds end where no turn lowers the distance, perhaps at several points."""
    (first,) = networks(NETWORKS[name](), seed, 1)
    units, _ = unit_numbers(first, X)
    rng = np.random.default_rng(seed)
    copies = [
        TorchNetwork(first.module, permuted(first.state, units, [rng.permutation(size) for size in units.sizes]))
        for _ in range(1 if reference is None else 3)
    ]
    group = [first, *copies]
    aligned = [alignment.aligned for alignment in align_torch_group(group, X, by, reference)]
    assert apart(aligned, X, by) <= 1e-20 * (1 + apart(group, X, by))


def test_a_reference_stays_and_the_others_are_aligned_to_it():
    group = networks(mlp(3, 5, 4, 2), 3, 3)
    for by in RULES:
        alignments = align_torch_group(group, inputs(), by, reference=1)
        assert all(np.array_equal(order, np.arange(len(order))) for order in alignments[1].permutations.values())
        alone = align_torch(group[1], group[2], inputs(), by)
        assert all(
            np.array_equal(alignments[2].permutations[name], order) for name, order in alone.permutations.items()
        )
    assert len(align_torch_group(group[:1], inputs())) == 1


def test_what_cannot_be_aligned_is_refused():
    group = networks(mlp(3, 4, 2), 0)
    with pytest.raises(ValueError, match=r"the reference is 2; there are networks 0\.\.1"):
        align_torch_group(group, inputs(), reference=2)
    with pytest.raises(ValueError, match="at least one is needed"):
        align_torch_group([], inputs())
    with pytest.raises(ValueError, match=r"network 2 has .*weights of shapes"):
        align_torch_group([*group, *networks(mlp(3, 5, 2), 0, 1)], inputs())
    with pytest.raises(ValueError, match="starts is 0; at least 1 is needed"):
        align_torch_group(group, inputs(), starts=0)
