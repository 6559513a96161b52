"""Tests of aligned torch modules and groups of them: functions stay the same, and distances become smaller.

Permuted copies are restored.
"""

from functools import partial
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from test_units import NETWORKS, X, weights_of
from torch import nn

from ntkfl.connectivity.alignment import RULES, align, align_group
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.units.torch_alignment import (
    TorchNetwork,
    align_torch,
    align_torch_group,
    permuted,
    unit_numbers,
)
from ntkfl.connectivity.units.walk import units_of

seeds, rules = st.integers(0, 10**6), st.sampled_from(RULES)
# models in which each layer reads the units of one group only
COUPLED_NOWHERE = ("batch norm", "depthwise", "layer norm of images")


def mlp(*sizes, bias=True):
    layers = [part for k, m in pairwise(sizes) for part in (nn.Linear(k, m, bias=bias), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def networks(module, seed, count=2):
    return [TorchNetwork(module, {**module.state_dict(), **weights_of(module, seed + k)}) for k in range(count)]


def inputs(features=3, n=8, seed=1):
    return np.random.default_rng(seed).normal(size=(n, features))


@given(seeds, rules, st.lists(st.integers(1, 6), min_size=1, max_size=3).filter(lambda w: max(w) > 1), st.booleans())
@settings(max_examples=50)
def test_the_function_of_an_mlp_stays_and_the_cost_never_rises(seed, by, widths, bias):
    first, second = networks(mlp(3, *widths, 2, bias=bias), seed)
    alignment = align_torch(first, second, inputs(), by)
    np.testing.assert_allclose(
        alignment.aligned.outputs(inputs(seed=2)), second.outputs(inputs(seed=2)), rtol=1e-9, atol=1e-9
    )
    assert alignment.cost_after.lo <= alignment.cost_before.hi
    assert [len(order) for order in alignment.permutations.values()] == [width for width in widths if width > 1]
    for order in alignment.permutations.values():
        np.testing.assert_array_equal(np.sort(order), np.arange(len(order)))
    for name, value in second.state.items():
        assert torch.equal(alignment.aligned.state[name].flatten().sort().values, value.flatten().sort().values)


@given(seeds, rules, st.sampled_from(list(NETWORKS)))
@settings(max_examples=40)
def test_the_function_of_any_module_stays_and_the_cost_never_rises(seed, by, name):
    first, second = networks(NETWORKS[name](), seed)
    alignment = align_torch(first, second, X, by)
    np.testing.assert_allclose(alignment.aligned.outputs(X), second.outputs(X), rtol=1e-8, atol=1e-8)
    assert alignment.cost_after.lo <= alignment.cost_before.hi
    if by == "weights":  # The distance is computed again from the two networks alone.
        for cost, other in ((alignment.cost_before, second), (alignment.cost_after, alignment.aligned)):
            far = np.sum((first.vector() - other.vector()) ** 2)
            assert abs(cost.value - far) <= cost.error + 1e-13 * far


def layer_numbers(by, network):
    """Returns the numbers by which units are compared, divided by n^(1/2).

    For each linear map, the numbers are the map's input, or this input times the Jacobian of all later layers.
    """
    linear = [(network.state[f"{k}.weight"], network.state.get(f"{k}.bias")) for k in range(0, len(network.module), 2)]

    def rest(z, at):
        for weight, bias in linear[at:]:
            z = nn.functional.linear(torch.relu(z), weight, bias)
        return z

    values, z = [], torch.tensor(inputs())
    for at, (weight, bias) in enumerate(linear):
        a = torch.relu(z) if at else z
        if by == "outputs" and at:
            slopes = torch.func.vmap(torch.func.jacrev(lambda row, at=at: rest(row, at)))(z)
            values.append((slopes * a[:, None]).ravel())
        elif by == "activations":
            values.append(a.ravel())
        z = nn.functional.linear(a, weight, bias)
    return torch.cat(values).numpy() / np.sqrt(len(z))


@given(seeds, st.sampled_from(RULES), st.booleans(), st.sampled_from([1, 2]))
@settings(max_examples=12)
def test_no_other_order_of_one_group_is_nearer(seed, by, bias, starts):
    first, second = networks(mlp(3, 4, 4, 4, 2, bias=bias), seed)
    alignment = align_torch(first, second, inputs(), by, starts)

    numbers = TorchNetwork.vector if by == "weights" else partial(layer_numbers, by)
    units, _ = units_of(second.evaluated, second.state, torch.tensor(inputs()))
    cost = np.sum((numbers(first) - numbers(alignment.aligned)) ** 2)
    assert abs(cost - alignment.cost_after.value) <= alignment.cost_after.error + 1e-12 * cost
    for group, size in enumerate(units.sizes):
        for order in permutations(range(size)):
            orders = [np.arange(count) for count in units.sizes]
            orders[group] = np.array(order)
            moved = TorchNetwork(second.module, permuted(alignment.aligned.state, units, orders))
            assert np.sum((numbers(first) - numbers(moved)) ** 2) >= cost * (1 - 1e-12)


@given(seeds, st.integers(1, 9), rules)
@settings(max_examples=30)
def test_with_one_hidden_layer_it_is_the_alignment_of_two_layer_networks(seed, units, by):
    first, second = networks(mlp(3, units, 2, bias=False), seed)
    plain = [TwoLayer(net.state["0.weight"].numpy(), net.state["2.weight"].numpy()) for net in (first, second)]
    expected = align(*plain, by, None if by == "weights" else inputs())
    if units == 1:
        with pytest.raises(ValueError, match="no units that could be permuted"):
            align_torch(first, second, inputs(), by)
        return
    alignment = align_torch(first, second, inputs(), by)
    np.testing.assert_array_equal(alignment.permutations["0.weight"], expected.permutation)
    np.testing.assert_array_equal(alignment.aligned.state["0.weight"], expected.aligned.hidden)
    np.testing.assert_array_equal(alignment.aligned.state["2.weight"], expected.aligned.readout)


@given(seeds, st.sampled_from(["activations", "outputs"]), st.sampled_from(COUPLED_NOWHERE))
@settings(max_examples=30)
def test_a_permuted_copy_is_put_back(seed, by, name):
    module = NETWORKS[name]()
    (first,) = networks(module, seed, 1)
    weights = {key: value for key, value in first.state.items() if value.is_floating_point()}
    units, _ = units_of(first.evaluated, weights, X)
    rng = np.random.default_rng(seed)
    copy = TorchNetwork(module, permuted(first.state, units, [rng.permutation(size) for size in units.sizes]))
    alignment = align_torch(first, copy, X, by)
    assert alignment.cost_after.value <= 1e-20 * (1 + alignment.cost_before.value)
    np.testing.assert_allclose(alignment.aligned.outputs(X), first.outputs(X), rtol=1e-9, atol=1e-9)


@given(seeds, st.integers(2, 8))
@settings(max_examples=15)
def test_more_starts_are_never_worse_and_always_the_same(seed, starts):
    first, second = networks(mlp(3, 6, 5, 6, 2), seed)
    one, some, again, more = (align_torch(first, second, inputs(), starts=k) for k in (1, starts, starts, starts + 1))
    assert some.cost_after.lo <= one.cost_after.hi and more.cost_after.lo <= some.cost_after.hi
    for name, order in some.permutations.items():
        np.testing.assert_array_equal(order, again.permutations[name])


def test_a_network_is_left_as_it_is_beside_itself_and_ties_are_always_broken_alike():
    module = mlp(3, 6, 4, 2)
    first, second = networks(module, 3)
    twins = {name: value[[0, 0, 1, 1, 2, 2]] if name.startswith("0.") else value for name, value in first.state.items()}
    # Each unit of the first hidden layer has a duplicate. The second layer reads all units and all duplicates with the
    # weight 0.
    twins["2.weight"] = twins["2.weight"][:, [0, 0, 1, 1, 2, 2]] * 0
    twin = TorchNetwork(module, twins)
    for by in RULES:
        for own in (first, twin):
            alignment = align_torch(own, own, inputs(), by)
            assert alignment.sweeps == 1 and alignment.cost_after.value == 0
            assert all(np.array_equal(order, np.arange(len(order))) for order in alignment.permutations.values())
        one, other = (align_torch(second, twin, inputs(), by).permutations for _ in range(2))
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_batch_norms_running_averages_move_with_their_channels_and_its_counters_stay():
    module = NETWORKS["batch norm"]().double()
    first, second = networks(module, 5)
    module.train()
    alignment = align_torch(first, second, X)
    order = alignment.permutations["0.weight"]
    for name in ("1.running_mean", "1.running_var", "1.weight", "1.bias", "0.bias"):
        assert torch.equal(alignment.aligned.state[name], second.state[name][order])
    assert torch.equal(alignment.aligned.state["1.num_batches_tracked"], second.state["1.num_batches_tracked"])
    assert module.training and module[1].training
    assert not np.array_equal(order, np.arange(4))


def test_single_precision_stays_single_and_bit_for_bit_the_same_numbers():
    module = mlp(3, 9, 5, 2).float()
    first, second = (
        TorchNetwork(module, {name: value.float() for name, value in weights_of(module.double(), seed).items()})
        for seed in (0, 1)
    )
    alignment = align_torch(first, second, inputs())
    for name, value in second.state.items():
        assert alignment.aligned.state[name].dtype == torch.float32
        assert torch.equal(alignment.aligned.state[name].flatten().sort().values, value.flatten().sort().values)


class Escaping(nn.Module):
    """A network that computes with numpy, so that its units cannot be traced."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        z = self.inner(x)
        return self.head(z) * float(z.detach().numpy()[:, 0].mean())


def test_what_cannot_be_aligned_is_refused():
    first, second = networks(mlp(3, 4, 2), 0)
    with pytest.raises(ValueError, match=r"network 1 has .*weights of shapes"):
        align_torch(first, networks(mlp(3, 5, 2), 0)[0], inputs())
    with pytest.raises(
        ValueError, match=r"by weights, activations, outputs, not by 'weigths'; Did you mean 'weights'\?"
    ):
        align_torch(first, second, inputs(), "weigths")
    with pytest.raises(ValueError, match="x has no sample"):
        align_torch(first, second, inputs(n=0))
    with pytest.raises(ValueError, match="starts is 0; at least 1 is needed"):
        align_torch(first, second, inputs(), starts=0)
    with pytest.raises(ValueError, match=r"has no units that could be permuted$"):
        align_torch(*networks(mlp(3, 2), 0), inputs())
    with pytest.raises(ValueError, match=r"through the operation \w+, applied to results of '\w+_l0'"):
        align_torch(*networks(nn.LSTM(3, 4), 0), inputs())
    with pytest.raises(ValueError, match="computes with more than torch's operations"):
        align_torch(*networks(Escaping(), 0), inputs())


def apart(group, x, by):
    """Returns the sum of all pairs' squared distances, computed from the networks alone."""
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
    for k, alignment in enumerate(alignments):  # The cost is the squared distance to the mean of the others.
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
    """A network and its permuted copy become equal. With a reference, a network and three permuted copies become equal.

    With more than two networks and no reference, the rounds end where no change of a single network lowers the
    distance. There may be several such points.
    """
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


def test_groups_that_cannot_be_aligned_are_refused():
    group = networks(mlp(3, 4, 2), 0)
    with pytest.raises(ValueError, match=r"the reference is 2; there are networks 0\.\.1"):
        align_torch_group(group, inputs(), reference=2)
    with pytest.raises(ValueError, match="at least one is needed"):
        align_torch_group([], inputs())
    with pytest.raises(ValueError, match=r"network 2 has .*weights of shapes"):
        align_torch_group([*group, *networks(mlp(3, 5, 2), 0, 1)], inputs())
    with pytest.raises(ValueError, match="starts is 0; at least 1 is needed"):
        align_torch_group(group, inputs(), starts=0)
