"""Tests of the numbers by which units are compared, and of the search for the orders of several groups of units."""

from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment
from test_torch_alignment import inputs, mlp, networks
from test_units import NETWORKS, X, weights_of
from torch import nn

from ntkfl.connectivity.alignment import RULES, unit_rows
from ntkfl.connectivity.network import TwoLayer
from ntkfl.connectivity.units.torch_alignment import (
    STARTS,
    Pair,
    TorchNetwork,
    align_torch,
    along,
    distance,
    match,
    permuted,
    relaxed,
    unit_numbers,
)
from ntkfl.connectivity.units.walk import Factor
from ntkfl.memory import TooLittleMemory

seeds = st.integers(0, 10**6)


@given(seeds, st.sampled_from(RULES), st.integers(2, 9))
@settings(max_examples=30)
def test_with_one_hidden_layer_they_are_the_rows_of_two_layer_networks(seed, by, units):
    (net,) = networks(mlp(3, units, 2, bias=False), seed, 1)
    x = inputs()
    plain = TwoLayer(net.state["0.weight"].numpy(), net.state["2.weight"].numpy())
    rows = unit_rows(plain, by, None if by == "weights" else x)
    _, layers = unit_numbers(net, x, by)
    columns = []
    for numbers in layers:
        ((place,),) = [[at for at, factor in enumerate(numbers.factors) if factor.group == 0]]
        columns.append(np.moveaxis(numbers.values, place, 0).reshape(units, -1))
    assert np.all(np.abs(np.concatenate(columns, 1) - rows.value) <= 2 * rows.error)


@given(seeds, st.lists(st.integers(2, 6), min_size=1, max_size=3))
@settings(max_examples=30)
def test_in_relu_networks_each_layers_parts_sum_to_the_outputs(seed, widths):
    (net,) = networks(mlp(3, *widths, 2, bias=False), seed, 1)
    _, layers = unit_numbers(net, inputs(), "outputs")
    assert len(layers) == len(widths)
    outputs = net.outputs(inputs())
    for numbers in layers:
        summed = numbers.values.sum(axis=-1).T * np.sqrt(len(outputs))
        np.testing.assert_allclose(summed, outputs, rtol=1e-9, atol=1e-9 * np.abs(outputs).max())


@given(seeds)
@settings(max_examples=20)
def test_rescaled_units_have_the_same_parts_and_are_aligned_alike(seed):
    first, second = networks(mlp(3, 6, 5, 2), seed)
    rng, state = np.random.default_rng(seed), dict(second.state)
    for inner, outer in ((0, 2), (2, 4)):
        scale = torch.tensor(10 ** rng.uniform(-2, 2, len(state[f"{inner}.weight"])))
        state[f"{inner}.weight"] = state[f"{inner}.weight"] * scale[:, None]
        state[f"{inner}.bias"] = state[f"{inner}.bias"] * scale
        state[f"{outer}.weight"] = state[f"{outer}.weight"] / scale
    rescaled = TorchNetwork(second.module, state)
    for layer, other in zip(*(unit_numbers(net, inputs(), "outputs")[1] for net in (second, rescaled)), strict=True):
        np.testing.assert_allclose(other.values, layer.values, rtol=1e-9, atol=1e-9 * np.abs(layer.values).max())
    plain, alike = (align_torch(first, net, inputs(), "outputs") for net in (second, rescaled))
    np.testing.assert_allclose(float(alike.cost_after.value), float(plain.cost_after.value), rtol=1e-9)


@given(seeds, st.sampled_from(RULES), st.sampled_from(list(NETWORKS)))
@settings(max_examples=40)
def test_permuting_units_permutes_their_numbers_alike(seed, by, name):
    module = NETWORKS[name]()
    net = TorchNetwork(module, {**module.state_dict(), **weights_of(module, seed)})
    units, before = unit_numbers(net, X, by)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(size) for size in units.sizes]
    _, after = unit_numbers(TorchNetwork(module, permuted(net.state, units, orders)), X, by)
    for layer, other in zip(before, after, strict=True):
        values = layer.values
        for place, factor in enumerate(layer.factors):
            values = values if factor.group is None else values.take(orders[factor.group], axis=place)
        np.testing.assert_allclose(other.values, values, rtol=1e-8, atol=1e-8 * np.abs(values).max())


class InPlace(nn.Module):
    """A network that overwrites its input and values that a gradient needs, and that reads one value twice."""

    def __init__(self):
        super().__init__()
        self.first, self.stream, self.head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        z = self.first(x).tanh()
        z += self.stream(z) * z
        return self.head(z) + self.head(z).relu_()


def test_parts_are_of_what_was_read_before_it_was_written_over_and_each_value_counts_once():
    (net,) = networks(InPlace(), 4, 1)
    x = torch.tensor(inputs())
    _, layers = unit_numbers(net, x, "outputs")
    part = {name: (net.state[f"{name}.weight"], net.state[f"{name}.bias"]) for name in ("first", "stream", "head")}

    def head(z):
        out = nn.functional.linear(z, *part["head"])
        return out + out.relu()

    def stream(z):
        return head(z + nn.functional.linear(z, *part["stream"]) * z)

    before = nn.functional.linear(x, *part["first"]).tanh()
    after = before + nn.functional.linear(before, *part["stream"]) * before
    assert len(layers) == 2
    for numbers, function, z in zip(layers, (stream, head), (before, after), strict=True):
        slopes = torch.stack([torch.func.jacrev(function)(row) for row in z])
        expected = (slopes * z[:, None]).transpose(0, 1).numpy() / np.sqrt(len(x))
        np.testing.assert_allclose(numbers.values, expected, rtol=1e-10, atol=1e-12)


class Ungraded(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = mlp(3, 4, 2)

    def forward(self, x):
        with torch.no_grad():
            return self.inner(x)


def test_outputs_without_a_gradient_and_parts_that_do_not_fit_are_refused(monkeypatch):
    (net,) = networks(Ungraded(), 0, 1)
    with pytest.raises(
        ValueError, match="outputs have no derivative by the inputs of its layers, which is needed to compare"
    ):
        unit_numbers(net, inputs(), "outputs")
    assert unit_numbers(net, inputs(), "activations")[1]
    (small,) = networks(mlp(3, 4, 2), 0, 1)
    monkeypatch.setattr("ntkfl.memory.left_for", lambda needed: 1000.0)
    with pytest.raises(TooLittleMemory, match=r"the parts of the outputs takes .* n up to \d+ or outputs up to \d+"):
        unit_numbers(small, inputs(), "outputs")


class Roots(nn.Module):
    """A network that takes the root at 0, where its slope is infinite, or logarithms of negative numbers."""

    def __init__(self, off):
        super().__init__()
        self.inner, self.head, self.off = nn.Linear(3, 4), nn.Linear(4, 2), off

    def forward(self, x):
        z = self.inner(x)
        return self.head((0 * z).sqrt() if self.off else z.log())


def test_numbers_that_are_not_finite_are_refused():
    (net,) = networks(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), Roots(off=True)), 0, 1)
    assert unit_numbers(net, inputs(), "activations")[1]
    with pytest.raises(ValueError, match=r"layer 0, counted from 0, of the 2 layers .* has parts of the outputs that"):
        unit_numbers(net, inputs(), "outputs")
    (net,) = networks(Roots(off=False), 0, 1)
    with pytest.raises(
        ValueError, match=r"layer 0, counted from 0, of the 1 layers .* has activations that are not finite"
    ):
        unit_numbers(net, inputs(), "activations")
    assert unit_numbers(net, inputs())[1]


def test_units_that_are_no_relus_are_aligned_by_what_they_add_to_the_outputs():
    module = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2, bias=False)).double()
    first, second = networks(module, 2)
    alignment = align_torch(first, second, inputs(), "outputs")

    def rows(net):
        z = torch.sigmoid(nn.functional.linear(torch.tensor(inputs()), net.state["0.weight"], net.state["0.bias"]))
        return np.stack([np.outer(z[:, r], net.state["2.weight"][:, r]).ravel() for r in range(4)]) / np.sqrt(len(z))

    costs = [np.sum((rows(first) - rows(second)[list(order)]) ** 2) for order in permutations(range(4))]
    assert float(alignment.cost_after.value) == pytest.approx(min(costs), rel=1e-12)


@given(seeds)
@settings(max_examples=15)
def test_no_order_of_all_groups_is_nearer_than_the_nearest_of_all(seed):
    first, second = networks(mlp(2, 3, 3, 4, 2), seed)
    units, numbers = unit_numbers(first, inputs(2))
    _, other = unit_numbers(second, inputs(2))
    pairs = [Pair(block.values, two.values, block.factors) for block, two in zip(numbers, other, strict=True)]
    matching = match(pairs, units.sizes, STARTS)
    every = product(*(map(np.array, permutations(range(size))) for size in units.sizes))
    costs = [sum(np.sum((p.target - along(p.given, p.factors, list(orders))) ** 2) for p in pairs) for orders in every]
    least = min(costs)
    assert least <= float(matching.cost_after.value) * (1 + 1e-12)
    assert float(matching.cost_after.value) <= np.quantile(costs, 0.01)
    assert float(distance(pairs, matching.orders).value) == float(matching.cost_after.value)


def git_re_basin(first, second, rng):
    """Returns the distance that Git Re-Basin's weight matching of an MLP reaches.

    The layers are matched in a random order, until a sweep changes nothing.
    """
    layers = range(0, len(first.module), 2)
    a, b = (
        [np.c_[net.state[f"{k}.weight"].numpy(), net.state[f"{k}.bias"].numpy()] for k in layers]
        for net in (first, second)
    )
    orders = [np.arange(len(weights)) for weights in b]

    def moved(at, rows=True, columns=True):
        weights = b[at][orders[at]] if rows else b[at]
        return weights[:, [*orders[at - 1], weights.shape[1] - 1]] if columns and at else weights

    changed = True
    while changed:
        changed = False
        for at in rng.permutation(len(b) - 1):
            gains = a[at] @ moved(at, rows=False).T + a[at + 1][:, :-1].T @ moved(at + 1, columns=False)[:, :-1]
            best = linear_sum_assignment(gains, maximize=True)[1]
            own = np.arange(len(best))
            if gains[own, best].sum() > gains[own, orders[at]].sum() + 1e-9:
                orders[at], changed = best, True
    return sum(np.sum((block - moved(at)) ** 2) for at, block in enumerate(a))


def test_with_three_hidden_layers_hardly_a_run_of_git_re_basin_comes_nearer():
    beaten = {1: 0, STARTS: 0}
    for seed in range(10):
        first, second = networks(mlp(6, 16, 16, 16, 4), 10 * seed)
        runs = [git_re_basin(first, second, np.random.default_rng([seed, k])) for k in range(5)]
        for starts in beaten:
            alignment = align_torch(first, second, inputs(6), starts=starts)
            beaten[starts] += sum(run < float(alignment.cost_after.value) * (1 - 1e-9) for run in runs)
    assert beaten[STARTS] <= 1  # At most one of 50 runs of Git Re-Basin comes nearer.
    assert beaten[1] >= 10


@given(seeds, st.integers(1, 3))
@settings(max_examples=20)
def test_one_relaxation_restores_a_permuted_copy_of_a_tensor_with_one_group_on_all_axes(seed, axes):
    """One relaxation restores a permuted copy of a tensor all of whose axes belong to one group.

    The inner product is then a polynomial in the permutation matrix; its degree is the number of axes.
    """
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(7,) * axes)
    order = rng.permutation(7)
    given = target
    for place in range(axes):
        given = given.take(order, axis=place)
    pair = Pair(target, given, (Factor(7, 0),) * axes)
    (permutation,) = relaxed([pair], [7])
    np.testing.assert_array_equal(order[permutation], np.arange(7))
    (stays,) = relaxed([Pair(target, target, pair.factors)], [7], [[np.arange(7)]])
    np.testing.assert_array_equal(stays, np.arange(7))


@given(seeds)
@settings(max_examples=10)
def test_a_permuted_copy_of_a_deep_network_is_put_back_bit_for_bit(seed):
    (first,) = networks(mlp(3, 12, 12, 12, 2), seed, 1)
    units, _ = unit_numbers(first, inputs())
    rng = np.random.default_rng(seed)
    copy = TorchNetwork(first.module, permuted(first.state, units, [rng.permutation(size) for size in units.sizes]))
    alignment = align_torch(first, copy, inputs())
    assert float(alignment.cost_after.value) == 0


def test_matrices_that_do_not_fit_are_refused(monkeypatch):
    first, second = networks(mlp(3, 5, 5, 2), 0)
    monkeypatch.setattr("ntkfl.memory.left_for", lambda needed: 1000.0)
    with pytest.raises(TooLittleMemory, match=r"the orders as matrices takes 2.8 kB .* units up to 2 would fit"):
        align_torch(first, second, inputs())
    assert align_torch(first, second, inputs(), starts=1).cost_after.hi < np.inf
