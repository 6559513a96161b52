"""The engine's trajectories are the simulator's, although the programs share neither arithmetic nor bookkeeping."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from ntkfl import simulate
from ntkfl.algorithm1.reference import plain_run
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.training.engine_trajectory import engine_trajectory
from ntkfl.training.methods import fed_nova, fl_ntk, scaffold
from ntkfl.training.objectives import HalfSquares
from ntkfl.training.optimizers import SGD
from ntkfl.training.wide_training import wide_federation

pytestmark = pytest.mark.method("fl-ntk")

FIELDS = ("outputs", "local_outputs", "movement", "local_movement", "step", "total_movement", "flips")


def ragged(sizes, d, seed, length=1.0):
    """Gaussian samples, scaled to this length, for clients of these sizes."""
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
    assert expected.flips[-1] > 0  # patterns change, so that the network is not its linearisation
    plain = engine_trajectory(problem, replace(setup, rounds=5), movements=False)
    assert np.array_equal(plain.outputs, trajectory.outputs[:6])
    assert np.array_equal(plain.local_outputs, trajectory.local_outputs[:5])
    assert plain.movement is None and plain.step is None


def test_a_sample_on_a_kink_is_active():
    """The gradient's indicator is 1{w.x >= 0}: at 0 the neuron learns, in the simulator and in the engine."""
    problem = Problem(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -0.5]), np.array([0, 1]))
    weights = Weights(np.array([[0.0, 1.0], [-1.0, 0.0], [1.0, -1.0]]), np.array([1.0, -1.0, 1.0]))
    setup = Setup(width=3, eta_local=0.25, local_steps=3, rounds=4)
    expected = simulate(problem, setup, weights)
    assert_same(engine_trajectory(problem, setup, weights), expected, 1e-14)
    assert expected.movement[1] > 0.1


def test_a_client_alone_and_together_is_the_same(monkeypatch):
    problem, setup = ragged((2, 4, 1), 3, 1), Setup(width=50, local_steps=3, rounds=5)
    together = engine_trajectory(problem, setup)
    for numbers in (50 * 3, 2 * 50 * 3):  # one client at a time in a loop; groups of two clients and one
        monkeypatch.setattr("ntkfl.training.wide_training.AT_ONCE", numbers)
        assert_same(engine_trajectory(problem, setup), together, 1e-13)


@pytest.mark.parametrize("rule", [scaffold, fed_nova], ids=lambda rule: rule.NAME)  # fed_nova sends no differences
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
        assert [len(of_client["moved"]) for of_client in result.seen] == [3, 3, 3]
        assert torch.equal(torch.stack([of_client["moved"][-1] for of_client in result.seen]), result.ends["moved"])
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
    """Two steps with momentum beta displace by 1 + beta times the first gradient plus the second."""
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
