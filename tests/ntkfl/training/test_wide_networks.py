"""Networks of any depth: their outputs, and the two parametrisations, which train the same functions."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn import functional

from ntkfl import data, gram
from ntkfl.problem import Problem, Setup
from ntkfl.training.engine_trajectory import network_trajectory
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import scaffold
from ntkfl.training.models import build
from ntkfl.training.models.wide_networks import PHI, WideNetwork
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.tree import stacked
from ntkfl.training.wide_training import network_federation

SETUP = Setup(eta_local=0.05, local_steps=2, rounds=3, seed=4)
NETWORKS = [
    WideNetwork(kind, depth, activation, bias)
    for kind, depth in (("fc", 2), ("fc", 4), ("conv", 3))
    for activation in PHI
    for bias in (0.0, 0.4)
]


def written_out(network: WideNetwork, params, x):
    """The definition, layer by layer, one sample at a time."""
    rows = []
    for row in torch.as_tensor(np.array(x)):
        h = row if network.kind == "fc" else row.reshape(1, 8, 8)
        for layer in range(1, network.depth):
            w, inputs = params[f"layer{layer}.weight"], len(h)
            if network.kind == "fc":
                z = (w * h).sum(1)
            else:
                z = functional.conv2d(h[None], w, padding=1)[0] / 3
            if layer > 1:
                z = z * math.sqrt((2 if network.activation == "relu" else 1) / inputs)
            if network.bias:
                b = params[f"layer{layer}.bias"]
                z = z + network.bias * (b if network.kind == "fc" else b[:, None, None])
            h = PHI[network.activation](z)
        h = h if network.kind == "fc" else h.mean((1, 2))
        rows.append((params["readout.weight"] * h).sum(-1) / math.sqrt(len(h)))
    return torch.stack(rows)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
@pytest.mark.parametrize("outputs", [None, 3])
def test_a_network_is_its_definition(network, outputs):
    x = data.digits(n=5, seed=1, clients=1).x
    model = network.model((64,), 7, outputs)
    params = model.initial(2)
    of_model = model.outputs(params, torch.tensor(np.array(x)))
    assert of_model.shape == (5,) if outputs is None else (5, 3)
    torch.testing.assert_close(of_model, written_out(network, params, x), rtol=1e-13, atol=1e-13)


FULLY_CONNECTED = [network for network in NETWORKS if network.kind == "fc"]


@pytest.mark.parametrize("standard", [False, True])
@pytest.mark.parametrize("network", FULLY_CONNECTED, ids=lambda network: network.name)
def test_kernels_of_many_networks_are_those_of_gradients_by_differentiation(network, standard):
    wide, x = replace(network, standard=standard), data.digits(n=5, seed=1, clients=1).x
    model = wide.model((64,), 7)
    starts = [model.initial(seed) for seed in (2, 3)]
    kernels = wide.kernels(stacked(starts), torch.tensor(np.array(x)), 7)
    for kernel, start in zip(kernels.numpy(), starts, strict=True):
        np.testing.assert_allclose(kernel, gram.empirical(x, model, start), rtol=1e-12, atol=1e-12)


def test_kernels_of_convolutional_networks_are_refused():
    with pytest.raises(ValueError, match="the network is 'conv:3:relu'; its kernels are there for fully connected"):
        WideNetwork("conv", 3, "relu").kernels({}, torch.zeros(2, 64), 7)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_the_standard_parametrisation_with_its_steps_trains_the_same_functions(network):
    problem = data.digits(n=8, seed=0, clients=2)
    other = WideNetwork(network.kind, network.depth, network.activation, network.bias, standard=True)
    plain = network_trajectory(problem, SETUP, network.model((64,), 6))
    factors = other.step_factors(6)
    scaled = network_trajectory(problem, SETUP, other.model((64,), 6), optimizer=SGD(of=factors))
    moved = np.abs(plain.outputs[-1] - plain.outputs[0]).max()
    assert moved > 1e-6
    np.testing.assert_allclose(scaled.outputs, plain.outputs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(scaled.local_outputs, plain.local_outputs, rtol=0, atol=1e-13)
    assert network.step_factors(6) == dict.fromkeys(factors, 1.0)
    if network.depth > 2:  # at depth 2 only the readout has a factor
        unscaled = network_trajectory(problem, SETUP, other.model((64,), 6))
        assert np.abs(unscaled.outputs[-1] - plain.outputs[-1]).max() > moved / 100


def test_of_a_step_by_parameter_only_the_named_ones_change_and_momentum_keeps_the_factor():
    problem = data.digits(n=6, seed=0, clients=2)
    network = WideNetwork("fc", 3, "erf").model((64,), 5)

    def moved(**how):
        run = network_federation(problem, SETUP, network, optimizer=SGD(**how))
        start = run.start()
        return {name: run.round(start).state.model[name] - start.model[name] for name in start.model}

    assert all(torch.equal(tensor, moved(of={})[name]) for name, tensor in moved().items())
    frozen = moved(of={"layer2.weight": 1e-300})
    assert frozen["layer2.weight"].abs().max() < 1e-290 and frozen["layer1.weight"].abs().max() > 1e-5
    doubled, steps = moved(momentum=0.5, of=dict.fromkeys(network.initial(0), 2.0)), SETUP
    again = network_federation(
        problem, Setup(eta_local=2 * steps.eta_local, local_steps=2, rounds=3, seed=4), network, optimizer=SGD(0.5)
    )
    start = again.start()
    for name, value in again.round(start).state.model.items():
        torch.testing.assert_close(value - start.model[name], doubled[name], rtol=1e-12, atol=1e-15)


def test_methods_that_read_gradients_off_displacements_refuse_steps_by_parameter():
    problem = data.digits(n=6, seed=0, clients=2)
    network = WideNetwork().model((64,), 5)
    with pytest.raises(ValueError, match=r"scaffold reads mean gradients.*leave `of` of sgd out"):
        network_federation(
            problem, SETUP, network, method=scaffold.method(HalfSquares("sum")), optimizer=SGD(of={"readout.weight": 2})
        )
    with pytest.raises(ValueError, match=r"factors of parameters are \{'a': -1\}"):
        SGD(of={"a": -1})


@given(
    kind=st.sampled_from(["fc", "conv"]),
    depth=st.integers(2, 9),
    activation=st.sampled_from(sorted(PHI)),
    bias=st.sampled_from([0.0, 0.25, 3.0]),
    standard=st.booleans(),
    width=st.none() | st.integers(1, 9999),
)
def test_names_are_read_back(kind, depth, activation, bias, standard, width):
    network = WideNetwork(kind, depth, activation, bias, standard)
    kind, depth, activation, *rest = network.name.split(":")
    spec = ":".join([kind, depth, activation, *([] if width is None else [str(width)]), *rest])
    assert WideNetwork.named(spec) == (network, width)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fc", "'fc' is not understood; write it like fc:3:relu:512"),
        ("fc:x:relu", "'fc:x:relu' is not understood"),
        ("rnn:3:relu", "kind of the network is 'rnn'; it must be 'fc' or 'conv'"),
        ("fc:1:relu", "depth is 1; it must be an integer of at least 2"),
        ("fc:3:rely", "'rely'.*relu"),
        ("fc:3:relu:bias=-1", "bias is -1; it must be 0 or more"),
        ("fc:3:relu:bias=x", "has the part 'bias=x'"),
        ("fc:3:relu:0", "has the part '0'"),
        ("fc:3:relu:8:9", "has the part '9'"),
    ],
)
def test_what_is_not_understood_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        WideNetwork.named(spec)


def test_they_are_among_the_models_by_name():
    problem = Problem(np.eye(4), np.ones((4, 2)), np.arange(4) % 2)
    network = build("fc:4:erf:9:bias=0.5", FederatedData.from_problem(problem), dtype=torch.float32)
    assert network.initial(0)["layer3.weight"].shape == (9, 9)
    assert network.initial(0)["readout.weight"].shape == (2, 9)
    assert network.initial(0)["layer1.bias"].dtype == torch.float32
    with pytest.raises(ValueError, match=r"shape \(5,\); a convolutional network takes images"):
        WideNetwork("conv").model((5,))
