"""Trajectories of any network: federated training by a plain loop, and the linearised network against its kernel."""

import numpy as np
import pytest
import torch

from ntkfl import data, kernel_regime
from ntkfl.problem import Problem, Setup
from ntkfl.training.engine_trajectory import linearised_network, network_trajectory
from ntkfl.training.methods import build, catalogue
from ntkfl.training.model import from_modules
from ntkfl.training.models.wide_networks import WideNetwork
from ntkfl.training.objectives import HalfSquares
from ntkfl.trajectory_file import as_npz, read_npz

SETUP = Setup(eta_local=0.1, eta_global=1.3, local_steps=3, rounds=4, seed=2)
PROBLEM = data.digits(n=9, seed=1, clients=3, partition="dirichlet:0.5")
DEEP = WideNetwork("fc", 3, "relu", bias=0.2).model((PROBLEM.d,), 20)


def several():
    """A small network on problems with two outputs a sample."""
    y = np.stack([PROBLEM.y, np.cos(np.arange(PROBLEM.n))], axis=1)
    return Problem(PROBLEM.x, y, PROBLEM.owner), WideNetwork("fc", 3, "gelu").model((PROBLEM.d,), 20, 2)


def jacobian(network, params, x):
    """The Jacobian with one row for each output, sample by sample."""
    rows = []
    for sample in torch.tensor(np.array(x)):
        own = {name: value.clone().requires_grad_() for name, value in params.items()}
        for output in network.outputs(own, sample[None]).reshape(-1):
            gradients = torch.autograd.grad(output, list(own.values()), retain_graph=True)
            rows.append(torch.cat([part.flatten() for part in gradients]).numpy())
    return np.array(rows)


def loop(problem, setup, network):
    """Algorithm 1 on one long vector of parameters, with plain autograd."""
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
    trajectory = network_trajectory(problem, SETUP, network, keep=[0, SETUP.rounds])
    outputs, local, moved, params = loop(problem, SETUP, network)
    np.testing.assert_allclose(trajectory.outputs, outputs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(trajectory.local_outputs, local, rtol=0, atol=1e-13)
    np.testing.assert_allclose(trajectory.total_movement, moved, rtol=1e-12, atol=1e-14)
    for name, value in params.items():
        np.testing.assert_allclose(trajectory.weights[SETUP.rounds][name], value.numpy(), rtol=0, atol=1e-13)
        np.testing.assert_array_equal(trajectory.weights[0][name], network.initial(SETUP.seed)[name].numpy())


@pytest.mark.parametrize("problem, network", [(PROBLEM, DEEP), several()], ids=["one output", "two outputs"])
def test_linearised_it_is_the_kernel_regime_of_its_own_kernel(problem, network):
    params = network.initial(SETUP.seed)
    trajectory = network_trajectory(problem, SETUP, network, linearised=True, keep=[SETUP.rounds])
    rows = jacobian(network, params, problem.x)
    exact = kernel_regime(problem.per_output(), SETUP, rows @ rows.T).trajectory(
        initial_outputs=trajectory.outputs[0].ravel()
    )
    np.testing.assert_allclose(trajectory.outputs.reshape(exact.outputs.shape), exact.outputs, rtol=0, atol=1e-13)
    np.testing.assert_allclose(trajectory.total_movement, exact.total_movement, rtol=1e-10, atol=1e-13)
    moved = [trajectory.weights[SETUP.rounds][name] - params[name].numpy() for name in params]
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
        options = {"alpha": "half"} if name == "fedgucci" else {}  # its default alpha is random
        regime = kernel_regime(PROBLEM, setup, rows @ rows.T, name, options)
        method = build(name, HalfSquares("sum"), **options)
        trajectory = network_trajectory(PROBLEM, setup, DEEP, params, method=method, linearised=True)
        assert (trajectory.local_outputs is None) == (name == "cyclic")  # its clients start at different models
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
    """With the linearised network's own kernel, predictions are its outputs at other points."""
    params, x = DEEP.initial(SETUP.seed), data.digits(n=5, seed=8, clients=1).x

    def kernel(a, b):
        left = jacobian(DEEP, params, a)
        return left @ (left if b is None else jacobian(DEEP, params, b)).T

    run = network_trajectory(PROBLEM, SETUP, DEEP, linearised=True, keep=[SETUP.rounds])
    line = linearised_network(DEEP, params)
    moved = {n: torch.tensor(run.weights[SETUP.rounds][n]) - params[n] for n in params}
    trained, before = (line.outputs(p, torch.tensor(np.array(x))).numpy() for p in (moved, line.initial(0)))
    regime = kernel_regime(PROBLEM, SETUP, kernel)
    predicted = regime.predict(x, SETUP.rounds, run.outputs[0], before)
    np.testing.assert_allclose(predicted, trained, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="cross_gram is missing"):
        kernel_regime(PROBLEM, SETUP, kernel(PROBLEM.x, None)).predict(x, 1)


def test_kept_parameters_are_in_the_file(tmp_path):
    run = network_trajectory(PROBLEM, SETUP, DEEP, keep=[0, 3])
    (tmp_path / "run.npz").write_bytes(as_npz(run))
    read = read_npz(tmp_path / "run.npz")
    assert {key: set(kept) for key, kept in read.weights.items()} == {key: {*DEEP.initial(0)} for key in (0, 3)}
    for name, value in run.weights[3].items():
        np.testing.assert_array_equal(read.weights[3][name], value)
    np.testing.assert_array_equal(read.local_outputs, run.local_outputs)


def test_what_does_not_fit_is_refused():
    problem, network = several()
    with pytest.raises(ValueError, match=r"fc:3:gelu, width 20 has outputs of shape \(9, 2\).*labels have \(9,\)"):
        network_trajectory(PROBLEM, SETUP, network)
    with pytest.raises(ValueError, match="keep names round 5"):
        network_trajectory(problem, SETUP, network, keep=[5])
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
