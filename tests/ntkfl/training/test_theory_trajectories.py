"""Tests of networks that the engine trains: their trajectories equal the simulator's trajectories.

Wide networks approach the kernel regime.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import stats

from ntkfl import kernel_regime, simulate
from ntkfl.algorithm1.reference import plain_run
from ntkfl.connectivity.ensembles import averaging_gap
from ntkfl.connectivity.kernel_regime_fedgucci import equivalent_setup
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.training.engine_trajectory import engine_trajectory
from ntkfl.training.methods import fed_gucci, fed_nova, fl_ntk, scaffold
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.wide_training import networks, wide_federation

pytestmark = pytest.mark.method("fl-ntk")

FIELDS = ("outputs", "local_outputs", "movement", "local_movement", "step", "total_movement", "flips")


def ragged(sizes, d, seed, length=1.0):
    """Returns a problem with Gaussian samples, each scaled to norm `length`, and clients with `sizes` samples."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((sum(sizes), d))
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x *= length / np.linalg.norm(x, axis=1, keepdims=True)
    return Problem(x, rng.uniform(-1, 1, len(x)), owner)


def assert_same(trajectory, expected, tolerance=1e-9):
    for name in FIELDS:
        one, other = getattr(trajectory, name), getattr(expected, name)
        other = np.asarray(getattr(other, "value", other))
        assert one.shape == other.shape, name
        assert np.abs(one - other).max() <= tolerance, name


CASES = {
    "sizes": st.lists(st.integers(1, 5), min_size=1, max_size=4),
    "d": st.integers(1, 6),
    "width": st.integers(1, 60),
    "local_steps": st.integers(1, 4),
    "rounds": st.integers(1, 6),
    "eta_local": st.floats(0.01, 0.4),
    "eta_global": st.floats(0.25, 2.0),
    "length": st.floats(0.5, 1.2),
    "linearised": st.booleans(),
    "seed": st.integers(0, 2**20),
}


def case(sizes, d, seed, length, **setup):
    problem, setup = ragged(sizes, d, seed, length), Setup(**setup)
    return problem, setup, draw(setup.width, d, seed)


@settings(deadline=None, max_examples=30)
@given(**CASES)
@pytest.mark.filterwarnings("ignore:eta_:UserWarning")
def test_equals_algorithm_1_written_plainly(linearised, **drawn):
    problem, setup, weights = case(**drawn)
    expected = plain_run(problem, setup, weights, linearised=linearised)
    trajectory = engine_trajectory(problem, setup, weights, linearised=linearised, keep=range(setup.rounds + 1))
    assert_same(trajectory, expected)
    assert np.abs(trajectory.weights[setup.rounds] - weights.hidden).max() <= trajectory.movement[-1] + 1e-12


@settings(deadline=None, max_examples=4)
@given(**CASES)
@pytest.mark.filterwarnings("ignore:eta_:UserWarning")
def test_equals_the_simulator(linearised, **drawn):
    problem, setup, weights = case(**drawn)
    rounds = range(setup.rounds + 1)
    expected = simulate(problem, setup, weights, linearised=linearised, keep=rounds)
    trajectory = engine_trajectory(problem, setup, weights, linearised=linearised, keep=rounds)
    assert_same(trajectory, expected)
    for t in rounds:
        assert np.abs(trajectory.weights[t] - expected.weights[t]).max() <= 1e-9


def test_equals_the_simulator_on_a_long_run():
    problem = ragged((3, 1, 6, 2), 7, 5)
    setup = Setup(width=500, eta_local=0.3, eta_global=1.4, local_steps=5, rounds=60, seed=2)
    expected, trajectory = simulate(problem, setup), engine_trajectory(problem, setup)
    assert_same(trajectory, expected, 1e-11)
    assert expected.flips[-1] > 0  # Activation patterns change, so the network differs from its linearisation.
    plain = engine_trajectory(problem, replace(setup, rounds=5), movements=False)
    assert np.array_equal(plain.outputs, trajectory.outputs[:6])
    assert np.array_equal(plain.local_outputs, trajectory.local_outputs[:5])
    assert plain.movement is None and plain.step is None


def test_a_sample_on_a_kink_is_active():
    """A sample on a kink is active, in the simulator and in the engine.

    The gradient's indicator is 1{w.x >= 0}. So a neuron with w.x = 0 learns from the sample x.
    """
    problem = Problem(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -0.5]), np.array([0, 1]))
    weights = Weights(np.array([[0.0, 1.0], [-1.0, 0.0], [1.0, -1.0]]), np.array([1.0, -1.0, 1.0]))
    setup = Setup(width=3, eta_local=0.25, local_steps=3, rounds=4)
    expected = simulate(problem, setup, weights)
    assert_same(engine_trajectory(problem, setup, weights), expected, 1e-14)
    assert expected.movement[1] > 0.1


def test_a_client_alone_and_together_is_the_same(monkeypatch):
    problem, setup = ragged((2, 4, 1), 3, 1), Setup(width=50, local_steps=3, rounds=5)
    together = engine_trajectory(problem, setup)
    # The three clients train one at a time in a loop, then as a group of two clients and a group of one client.
    for numbers in (50 * 3, 2 * 50 * 3):
        monkeypatch.setattr("ntkfl.training.wide_training.AT_ONCE", numbers)
        assert_same(engine_trajectory(problem, setup), together, 1e-13)


# Clients of fed_nova do not upload Delta_i.
@pytest.mark.parametrize("rule", [scaffold, fed_nova], ids=lambda rule: rule.NAME)
def test_watching_changes_nothing_and_sees_what_the_method_keeps(rule):
    problem, setup = ragged((2, 4, 1), 3, 1), Setup(width=40, local_steps=3, rounds=4, eta_local=0.2)
    weights = draw(40, 3, 0)
    method = rule.method(HalfSquares("sum"))
    sizes = np.bincount(problem.owner)
    shares = torch.as_tensor(sizes / sizes.sum() if method.weighting == "size" else np.full(3, 1 / 3))
    plain = wide_federation(problem, setup, weights, method=method)
    seen = replace(plain, watch=lambda params, batch: {"moved": params["moved"]})
    one, other = plain.start(), seen.start()
    for _ in range(4):
        one, result = plain.round(one).state, seen.round(other, keep_ends=True)
        previous, other = other, result.state
        assert torch.equal(one.model["moved"], other.model["moved"])
        assert all(torch.equal(one.server[name]["moved"], value["moved"]) for name, value in other.server.items())
        assert [len(of_client["moved"]) for of_client in result.records] == [3, 3, 3]
        assert torch.equal(torch.stack([of_client["moved"][-1] for of_client in result.records]), result.ends["moved"])
        mean = torch.tensordot(shares, result.ends["moved"], dims=1) - previous.model["moved"]
        assert torch.allclose(result.move["moved"], mean, atol=1e-14)


def test_provenance_names_device_dtype_seed_and_versions():
    problem, setup = ragged((2, 2), 3, 1), Setup(width=5, rounds=1, seed=11)
    provenance = engine_trajectory(problem, setup).provenance
    assert (provenance["device"], provenance["dtype"], provenance["seeds"]) == ("cpu", "float64", {"weights": 11})
    assert provenance["versions"]["torch"] == torch.__version__


def test_bad_input_is_refused():
    problem, setup = ragged((2, 2), 3, 1), Setup(width=5, rounds=2)
    with pytest.raises(ValueError, match=r"keep names round 3; the run has rounds 0\.\.2"):
        engine_trajectory(problem, setup, keep=[3])
    with pytest.raises(ValueError, match="weights have shapes"):
        engine_trajectory(problem, setup, draw(4, 3, 0))
    with pytest.raises(ValueError, match="device is 'tpu'"):
        engine_trajectory(problem, setup, device="tpu")


def test_an_overflow_names_the_round_and_the_limit():
    problem = ragged((2, 2), 3, 1)
    setup = Setup(width=50, eta_local=1e80, local_steps=3, rounds=9)
    with (
        pytest.warns(UserWarning, match="eta_local"),
        pytest.raises(FloatingPointError, match=r"the run overflowed, round \d.*eta_local < "),
    ):
        engine_trajectory(problem, setup)


def test_the_method_is_algorithm_1_unless_another_is_given():
    problem, setup = ragged((1, 4), 3, 1), Setup(width=30, local_steps=2, rounds=3, eta_global=1.5)
    given = engine_trajectory(problem, setup, method=fl_ntk.method(server_rate=1.5))
    assert np.array_equal(given.outputs, engine_trajectory(problem, setup).outputs)
    other = engine_trajectory(problem, setup, method=fl_ntk.method(server_rate=1.0))
    assert np.abs(other.outputs - given.outputs).max() > 1e-3


def test_another_optimizer_is_begun_anew_each_round():
    """An optimizer with a momentum starts anew in each round.

    Two steps with momentum beta move the weights along (1 + beta) g_1 + g_2, where g_1 and g_2 are the gradients of the
    steps.
    """
    problem, setup = ragged((3,), 4, 2), Setup(width=40, local_steps=2, rounds=2, eta_local=0.1)
    weights = draw(40, 4, 0)
    trajectory = engine_trajectory(problem, setup, weights, optimizer=SGD(momentum=0.6), keep=range(3))
    for t in range(2):
        w, velocity = trajectory.weights[t], 0.0
        for _ in range(2):
            z = problem.x @ w.T
            pull = (problem.y - np.maximum(z, 0) @ weights.signs / np.sqrt(40))[:, None] * (z >= 0) * weights.signs
            velocity = 0.6 * velocity + pull.T @ problem.x / np.sqrt(40)
            w = w + 0.1 * velocity
        assert np.abs(trajectory.weights[t + 1] - w).max() < 1e-14


SEEDS = 8  # networks for each width; widths share no network, so that all runs are independent


def problem(clients):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 5))
    owner = np.concatenate([np.arange(clients), rng.integers(0, clients, 8 - clients)])
    return Problem(x, rng.uniform(-1, 1, 8), owner).unit()


def starts(data, setup, widths):
    """Returns for each width the setups and weights of its networks."""
    rows = []
    for place, width in enumerate(widths):
        setups = [replace(setup, width=int(width), seed=SEEDS * place + number) for number in range(SEEDS)]
        rows.append([(s, draw(s.width, data.d, s.seed)) for s in setups])
    return rows


def runs(data, setup, widths, method=None):
    """Returns for each width the runs of its networks."""
    return [[engine_trajectory(data, *start, method=method) for start in row] for row in starts(data, setup, widths)]


def exponent(widths, runs, measured):
    """Returns the slope of log(measured) against log(width) over all runs, and the slope's 99.7% half-width."""
    logs = np.repeat(np.log(widths), SEEDS)
    fit = stats.linregress(logs, np.log([measured(run) for row in runs for run in row]))
    return fit.slope, stats.t.ppf(0.9985, len(logs) - 2) * fit.stderr


def assert_exponent(interval, expected):
    slope, half = interval
    assert half < 0.24, f"the exponent is known to {half:.2f} only"
    assert abs(slope - expected) <= half, f"exponent {slope:.3f} ± {half:.3f}; theory says {expected}"


def distance_to(data, setup):
    """Returns a function that gives a run's largest distance from the infinite-width dynamics.

    These dynamics take the steps that `setup` says, from the run's first outputs.
    """
    regime, rounds = kernel_regime(data, setup), np.arange(setup.rounds + 1)
    return lambda run: np.linalg.norm(run.outputs - regime.outputs(rounds, run.outputs[0]), axis=1).max()


def check(clients, local_steps, widths, rounds=12, beta=1.5):
    data = problem(clients)
    setup = Setup(eta_local=0.3, local_steps=local_steps, rounds=rounds)
    plain = runs(data, setup, widths)
    assert_exponent(exponent(widths, plain, distance_to(data, setup)), -1 / 2)
    assert_exponent(exponent(widths, plain, lambda run: run.movement[-1]), -1 / 2)
    method = fed_gucci.method(HalfSquares("sum"), beta=beta, alpha="gauss2")
    connected = runs(data, setup, widths, replace(method, weighting="uniform"))
    assert_exponent(exponent(widths, connected, distance_to(data, equivalent_setup(setup, beta))), -1 / 2)
    assert_exponent(exponent(widths, connected, lambda run: run.movement[-1]), -1 / 2)
    slope, half = exponent(widths, connected, distance_to(data, setup))
    assert slope - half > -1 / 2, "without the rescaling FedGuCci must not approach FedAvg's kernel regime"


def test_the_distance_to_the_kernel_regime_falls_as_the_root_of_the_width():
    check(3, 3, 4 ** np.arange(3, 7), rounds=5)


def test_averaging_weights_or_outputs_of_wide_clients_differs_by_the_three_quarter_power():
    """At held-out inputs, averaged weights and averaged outputs of wide clients differ by order m^(-3/4) (fedgucci/X3).

    The gap between the network with the averaged weights and the average of the outputs comes from the neurons with a
    kink between the clients. There are about m^(1/2) such neurons, and each contributes about 1/m. At a held-out input
    the signs of these contributions are independent, so that the gap is of order m^(-3/4). At a training input the
    signs are not independent, and the gap is of order m^(-1/2). The reason is that a training sample changes a neuron's
    weights only while the neuron is active on this sample. So the neuron turns off when its value at the sample falls.
    """
    data, widths = problem(3), 4 ** np.arange(4, 8)
    held_out = np.random.default_rng(5).standard_normal((40, data.d))
    held_out /= np.linalg.norm(held_out, axis=1, keepdims=True)

    def trained(setup, weights):
        federation = wide_federation(data, setup, weights)
        return networks(weights, federation.round(federation.start(), keep_ends=True).ends)

    runs = [[trained(*start) for start in row] for row in starts(data, Setup(eta_local=0.6, local_steps=4), widths)]
    for x, expected in ((held_out, -3 / 4), (data.x, -1 / 2)):
        gap = partial(lambda x, clients: np.sqrt(np.mean(averaging_gap(clients, x) ** 2)), x)
        assert_exponent(exponent(widths, runs, gap), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "local_steps"), [(1, 4), (3, 2)])
def test_so_it_does_to_width_2_14(clients, local_steps):
    check(clients, local_steps, 4 ** np.arange(4, 8))
