"""Tests of networks of any depth: their outputs and parametrisations.

Trajectories are compared with a plain loop and with the network's kernel.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn import functional

from ntkfl import data, gram, kernel_regime
from ntkfl.problem import Problem, Setup
from ntkfl.training.engine_trajectory import linearised_network, network_trajectory
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.methods import build, catalogue, scaffold
from ntkfl.training.model import from_modules
from ntkfl.training.models import build as build_model
from ntkfl.training.models.wide_networks import PHI, WideNetwork
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.tree import stacked
from ntkfl.training.wide_training import network_federation
from ntkfl.trajectory_file import as_npz, read_npz

STEPS = Setup(eta_local=0.1, eta_global=1.3, local_steps=3, rounds=4, seed=2)
PROBLEM = data.digits(n=9, seed=1, clients=3, partition="dirichlet:0.5")
DEEP = WideNetwork("fc", 3, "relu", bias=0.2).model((PROBLEM.d,), 20)


def several():
    """Returns a problem with two outputs for each sample, and a small network for it."""
    y = np.stack([PROBLEM.y, np.cos(np.arange(PROBLEM.n))], axis=1)
    return Problem(PROBLEM.x, y, PROBLEM.owner), WideNetwork("fc", 3, "gelu").model((PROBLEM.d,), 20, 2)


def jacobian(network, params, x):
    """Returns the Jacobian with one row for each output, computed sample by sample."""
    rows = []
    for sample in torch.tensor(np.array(x)):
        own = {name: value.clone().requires_grad_() for name, value in params.items()}
        for output in network.outputs(own, sample[None]).reshape(-1):
            gradients = torch.autograd.grad(output, list(own.values()), retain_graph=True)
            rows.append(torch.cat([part.flatten() for part in gradients]).numpy())
    return np.array(rows)


def loop(problem, setup, network):
    """Runs Algorithm 1 on one long vector of parameters, with plain autograd."""
    x, y = (torch.tensor(np.array(part)) for part in (problem.x, problem.y))
    params, outputs, local, moved = network.initial(setup.seed), [], [], []
    first = params
    for t in range(setup.rounds + 1):
        outputs.append(network.outputs(params, x).numpy())
        moved.append(np.sqrt(sum(((params[name] - first[name]) ** 2).sum().item() for name in params)))
        if t == setup.rounds:
            break
        seen, ends = np.repeat(outputs[-1][None], setup.local_steps + 1, axis=0), []
        for own in problem.members:
            w = params
            for k in range(setup.local_steps):
                w = {name: value.clone().requires_grad_() for name, value in w.items()}
                loss = ((network.outputs(w, x[own]) - y[own]) ** 2).sum() / 2
                gradients = torch.autograd.grad(loss, list(w.values()))
                w = {n: (v - setup.eta_local * g).detach() for (n, v), g in zip(w.items(), gradients, strict=True)}
                seen[k + 1, own] = network.outputs(w, x[own]).numpy()
            ends.append(w)
        local.append(seen)
        mean = {name: sum(end[name] - params[name] for end in ends) / len(ends) for name in params}
        params = {name: params[name] + setup.eta_global * mean[name] for name in params}
    return np.array(outputs), np.array(local), np.array(moved), params


@pytest.mark.parametrize("problem, network", [(PROBLEM, DEEP), several()], ids=["one output", "two outputs"])
def test_a_trajectory_is_the_plain_loop(problem, network):
    trajectory = network_trajectory(problem, STEPS, network, keep=[0, STEPS.rounds])
    outputs, local, moved, params = loop(problem, STEPS, network)
    np.testing.assert_allclose(trajectory.outputs, outputs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(trajectory.local_outputs, local, rtol=0, atol=1e-13)
    np.testing.assert_allclose(trajectory.total_movement, moved, rtol=1e-12, atol=1e-14)
    for name, value in params.items():
        np.testing.assert_allclose(trajectory.weights[STEPS.rounds][name], value.numpy(), rtol=0, atol=1e-13)
        np.testing.assert_array_equal(trajectory.weights[0][name], network.initial(STEPS.seed)[name].numpy())


@pytest.mark.parametrize("problem, network", [(PROBLEM, DEEP), several()], ids=["one output", "two outputs"])
def test_linearised_it_is_the_kernel_regime_of_its_own_kernel(problem, network):
    params = network.initial(STEPS.seed)
    trajectory = network_trajectory(problem, STEPS, network, linearised=True, keep=[STEPS.rounds])
    rows = jacobian(network, params, problem.x)
    exact = kernel_regime(problem.per_output(), STEPS, rows @ rows.T).trajectory(
        initial_outputs=trajectory.outputs[0].ravel()
    )
    np.testing.assert_allclose(trajectory.outputs.reshape(exact.outputs.shape), exact.outputs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(trajectory.total_movement, exact.total_movement, rtol=1e-10, atol=1e-13)
    moved = [trajectory.weights[STEPS.rounds][name] - params[name].numpy() for name in params]
    assert np.linalg.norm(np.concatenate([part.ravel() for part in moved])) == pytest.approx(
        trajectory.total_movement[-1]
    )


def test_every_method_that_is_linear_is_exact_on_a_linearised_deep_network():
    params = DEEP.initial(0)
    rows = jacobian(DEEP, params, PROBLEM.x)
    setup = Setup(eta_local=0.05, local_steps=2, rounds=3)
    for name, module in catalogue().items():
        if hasattr(module, "NOT_LINEAR"):
            continue
        options = {"alpha": "half"} if name == "fedgucci" else {}  # The default alpha of FedGuCci is random.
        regime = kernel_regime(PROBLEM, setup, rows @ rows.T, name, options)
        method = build(name, HalfSquares("sum"), **options)
        trajectory = network_trajectory(PROBLEM, setup, DEEP, params, method=method, linearised=True)
        # The clients of cyclic training start at different models.
        assert (trajectory.local_outputs is None) == (name == "cyclic")
        expected = regime.outputs(np.arange(4), trajectory.outputs[0])
        np.testing.assert_allclose(trajectory.outputs, expected, rtol=0, atol=1e-12, err_msg=name)


def test_the_linearised_network_has_value_and_derivative():
    params = DEEP.initial(3)
    line, x = linearised_network(DEEP, params), torch.tensor(np.array(PROBLEM.x))
    moved = {name: torch.randn_like(value) for name, value in params.items()}
    step = 1e-6
    ends = [DEEP.outputs({n: v + s * step * moved[n] for n, v in params.items()}, x) for s in (1, -1)]
    torch.testing.assert_close(line.outputs(line.initial(7), x), DEEP.outputs(params, x))
    change = line.outputs(moved, x) - DEEP.outputs(params, x)
    torch.testing.assert_close(change, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-7)


def test_a_kernel_gives_the_matrix_and_the_predictions():
    """With the linearised network's kernel, the kernel regime predicts this network's outputs at other points."""
    params, x = DEEP.initial(STEPS.seed), data.digits(n=5, seed=8, clients=1).x

    def kernel(a, b):
        left = jacobian(DEEP, params, a)
        return left @ (left if b is None else jacobian(DEEP, params, b)).T

    run = network_trajectory(PROBLEM, STEPS, DEEP, linearised=True, keep=[STEPS.rounds])
    line = linearised_network(DEEP, params)
    moved = {n: torch.tensor(run.weights[STEPS.rounds][n]) - params[n] for n in params}
    trained, before = (line.outputs(p, torch.tensor(np.array(x))).numpy() for p in (moved, line.initial(0)))
    regime = kernel_regime(PROBLEM, STEPS, kernel)
    predicted = regime.predict(x, STEPS.rounds, run.outputs[0], before)
    np.testing.assert_allclose(predicted, trained, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="cross_gram is missing"):
        kernel_regime(PROBLEM, STEPS, kernel(PROBLEM.x, None)).predict(x, 1)


def test_kept_parameters_are_in_the_file(tmp_path):
    run = network_trajectory(PROBLEM, STEPS, DEEP, keep=[0, 3])
    (tmp_path / "run.npz").write_bytes(as_npz(run))
    read = read_npz(tmp_path / "run.npz")
    assert {key: set(kept) for key, kept in read.weights.items()} == {key: {*DEEP.initial(0)} for key in (0, 3)}
    for name, value in run.weights[3].items():
        np.testing.assert_array_equal(read.weights[3][name], value)
    np.testing.assert_array_equal(read.local_outputs, run.local_outputs)


def test_what_does_not_fit_is_refused():
    problem, network = several()
    with pytest.raises(ValueError, match=r"fc:3:gelu, width 20 has outputs of shape \(9, 2\).*labels have \(9,\)"):
        network_trajectory(PROBLEM, STEPS, network)
    with pytest.raises(ValueError, match="keep names round 5"):
        network_trajectory(problem, STEPS, network, keep=[5])
    with pytest.raises(FloatingPointError, match=r"the run overflowed, round .*the steps are too large"):
        network_trajectory(problem, Setup(eta_local=1e9, rounds=40), network)


def test_a_convolutional_module_trains_on_rows_of_pixels():
    def make():
        return torch.nn.Sequential(torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 3, 3), torch.nn.Flatten()), (
            torch.nn.Sequential(torch.nn.Linear(108, 1), torch.nn.Flatten(0))
        )

    network = from_modules("small", make, torch.float64, "cpu")
    setup = Setup(eta_local=0.01, local_steps=2, rounds=3)
    trajectory = network_trajectory(PROBLEM, setup, network)
    np.testing.assert_allclose(trajectory.outputs, loop(PROBLEM, setup, network)[0], rtol=0, atol=1e-12)


SETUP = Setup(eta_local=0.05, local_steps=2, rounds=3, seed=4)
NETWORKS = [
    WideNetwork(kind, depth, activation, bias)
    for kind, depth in (("fc", 2), ("fc", 4), ("conv", 3))
    for activation in PHI
    for bias in (0.0, 0.4)
]


def written_out(network: WideNetwork, params, x):
    """Returns the outputs by the definition, layer by layer, one sample at a time."""
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
    with pytest.raises(ValueError, match="the network is 'conv:3:relu'; kernels are computed only for fully connected"):
        WideNetwork("conv", 3, "relu").kernels({}, torch.zeros(2, 64), 7)


@pytest.mark.quick_rows(4)
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
    if network.depth > 2:  # At depth 2 only the readout has a factor.
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
    with pytest.raises(ValueError, match=r"scaffold computes mean gradients.*leave `of` of sgd out"):
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
    network = build_model("fc:4:erf:9:bias=0.5", FederatedData.from_problem(problem), dtype=torch.float32)
    assert network.initial(0)["layer3.weight"].shape == (9, 9)
    assert network.initial(0)["readout.weight"].shape == (2, 9)
    assert network.initial(0)["layer1.bias"].dtype == torch.float32
    with pytest.raises(ValueError, match=r"shape \(5,\); a convolutional network takes images"):
        WideNetwork("conv").model((5,))
