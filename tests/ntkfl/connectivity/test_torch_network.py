"""Tests of functions that only evaluate networks, with torch modules as the networks.

A module is read as a two-layer network if possible, and is left unchanged.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from ntkfl.connectivity.barrier import connectivity_loss, group_accuracy_barrier, group_barrier, loss_barrier
from ntkfl.connectivity.curves import grid_barrier, grid_connectivity_loss, interpolation_curve
from ntkfl.connectivity.ensembles import (
    averaging_gap,
    ensemble_outputs,
    evaluated_group_accuracy_barrier,
    evaluated_group_barrier,
    locality,
)
from ntkfl.connectivity.network import TwoLayer, between, combination
from ntkfl.connectivity.planes import plane_grid, plane_losses, plane_through
from ntkfl.connectivity.units.torch_alignment import TorchNetwork

QUICK = settings(deadline=None, max_examples=20)


def two_layer(h=5, features=3):
    return nn.Sequential(
        nn.Linear(features, h, bias=False), nn.ReLU(), nn.Linear(h, 1, bias=False), nn.Flatten(0)
    ).double()


def pairs(seed, count):
    """Returns networks, and torch modules that compute the same."""
    rng, module = np.random.default_rng(seed), two_layer()
    nets = [TwoLayer(rng.normal(size=(5, 3)), rng.normal(size=5)) for _ in range(count)]
    torch_nets = [TorchNetwork.of(module).at(net.vector()) for net in nets]
    return nets, torch_nets, rng.normal(size=(8, 3)), rng.choice([-1.0, 1.0], 8)


@QUICK
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_a_module_that_is_a_two_layer_network_gives_what_that_gives(seed, count):
    nets, same, x, y = pairs(seed, count)
    p = np.random.default_rng(seed).dirichlet(np.ones(count))
    assert np.allclose(combination(same, p).vector(), combination(nets, p).vector(), rtol=1e-14)
    assert np.allclose(ensemble_outputs(same, x, p), ensemble_outputs(nets, x, p), atol=1e-12)
    assert np.allclose(averaging_gap(same, x, p), averaging_gap(nets, x, p), atol=1e-12)
    assert np.isclose(locality(same, p), locality(nets, p), rtol=1e-12)

    def loss(net):
        return float(np.mean((net.outputs(x) - y) ** 2))

    def accuracy(net):
        return float(np.mean(net.outputs(x) * y > 0))

    group = group_barrier(nets, x, y)
    assert np.isclose(evaluated_group_barrier(loss, same), group.value, atol=1e-12)
    if sum(map(accuracy, nets)):
        exact = group_accuracy_barrier(nets, x, y)
        assert np.isclose(evaluated_group_accuracy_barrier(accuracy, same), exact.value, atol=1e-12)


@QUICK
@given(st.integers(0, 10**6))
def test_grids_of_a_module_are_near_the_exact_numbers_and_say_what_they_are(seed):
    nets, same, x, y = pairs(seed, 3)

    def loss(net):
        return float(np.mean((net.outputs(x) - y) ** 2))

    def at(alpha):
        return loss(between(*same[:2], alpha))

    exact, grid = loss_barrier(*nets[:2], x, y), grid_barrier(at, 201)
    assert grid.value <= exact.value.hi + 1e-12 and "a lower bound" in str(grid)
    true, gridded = connectivity_loss(*nets[:2], x, y).value, grid_connectivity_loss(at, 201)
    assert abs(gridded.value - true) < 1e-3 * (1 + at(0.0) + at(1.0)) and "no error bound" in str(gridded)
    vectors = [net.vector() for net in same]
    curve = interpolation_curve(lambda w: loss(same[0].at(w)), *vectors[:2], np.array([-0.5, 0.3]))
    assert np.allclose(curve, [at(-0.5), at(0.3)], rtol=1e-12)
    s = t = np.array([-0.4, 0.7])
    plane = plane_grid(plane_through(vectors), lambda w: loss(same[0].at(w)), s, t)
    assert np.allclose(plane, plane_losses(nets, x, y, s, t), rtol=1e-10)


def test_the_trapezoidal_mean_of_a_parabola_is_off_by_a_sixth_of_the_squared_step():
    assert np.isclose(grid_connectivity_loss(lambda a: a**2, 11).value, 1 / 3 + 0.01 / 6, rtol=1e-12)


def test_batch_norm_is_averaged_but_its_counter_and_evaluated_without_a_trace():
    torch.manual_seed(0)
    modules = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2)) for _ in range(2)]
    for module in modules:
        for _ in range(3):
            module(torch.randn(10, 4))  # Each forward pass moves the running averages.
        module[1].eval()
    first, second = map(TorchNetwork.of, modules)
    before = {name: value.clone() for name, value in modules[0].state_dict().items()}
    inputs = torch.randn(10, 4)
    middle = between(first, second, 0.25)
    for name in ("0.weight", "1.running_mean", "1.running_var"):
        assert torch.allclose(middle.state[name], 0.25 * first.state[name] + 0.75 * second.state[name])
    assert middle.state["1.num_batches_tracked"] == 3 and middle.state["0.weight"].dtype == torch.float32
    assert np.allclose(
        ensemble_outputs([first, second], inputs), np.mean([n.outputs(inputs) for n in (first, second)], 0)
    )
    assert np.array_equal(middle.outputs(inputs), middle.outputs(inputs.numpy()))
    assert modules[0].training and modules[0][2].training and not modules[0][1].training
    assert all(torch.equal(before[name], value) for name, value in modules[0].state_dict().items())
    assert np.allclose(first.outputs(inputs), modules[0].eval()(inputs).detach())


def test_later_training_of_the_module_does_not_move_the_network():
    module = two_layer()
    network, x = TorchNetwork.of(module), np.ones((2, 3))
    x.flags.writeable = False  # The arrays of a Problem are read-only too.
    before = network.outputs(x)
    with torch.no_grad():
        module[0].weight.mul_(2)
    assert np.array_equal(network.outputs(x), before)


def test_tied_weights_stay_tied():
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    module[2].weight = module[0].weight
    network, x = TorchNetwork.of(module), torch.ones(2, 3)
    assert np.allclose(network.outputs(x), module(x).detach())
    assert np.allclose(
        combination([network, network.at(0 * network.vector())]).state["2.weight"], module[0].weight.detach() / 2
    )


NETS = pairs(0, 2)[1]
WIDER = TorchNetwork.of(two_layer(h=6))
BAD = {
    "another width": (lambda: combination([NETS[0], WIDER]), r"network 1 has 0.weight and 2.weight weights of shapes"),
    "a vector of another length": (lambda: NETS[0].at(np.ones(3)), r"have shape \(3,\); this network has \(20,\)"),
    "another module's state": (lambda: TorchNetwork(two_layer(), WIDER.state), "not fit the module: 0.weight, 2.wei"),
    "NaN": (lambda: NETS[0].at(np.full(20, np.nan)), r"vector\[0\] is nan; every entry must be finite"),
    "one network": (lambda: evaluated_group_barrier(lambda net: 0.0, NETS[:1]), "at least 2 networks, got 1"),
    "a loss that is NaN": (
        lambda: evaluated_group_barrier(lambda net: np.nan, NETS),
        "the value of their mean is nan; every value must be finite",
    ),
    "no sample right": (lambda: evaluated_group_accuracy_barrier(lambda net: 0.0, NETS), "is 0: the ratio is undefin"),
    "a weight that is NaN": (lambda: ensemble_outputs(NETS, np.ones((1, 3)), [1, np.nan]), r"weights\[1\] is nan"),
    "weights of the locality": (lambda: locality(NETS, [1, 1]), "the weights sum to 2; they must sum to 1"),
    "a grid of two points": (lambda: grid_connectivity_loss(lambda a: a, 2), "the grid has 2 points"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_the_value_found(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()
