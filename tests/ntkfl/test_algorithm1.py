"""Tests of `simulate` against Algorithm 1 written out on the weights, one client at a time.

The symmetries of the algorithm are tested too.
"""

import hashlib
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from bounds.strategies import problems, unit_data
from ntkfl import data, simulate
from ntkfl.algorithm1 import simulation as algorithm1
from ntkfl.algorithm1.simulation import FEW_SAMPLES
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights

FIELDS = ("outputs", "local_outputs", "movement", "local_movement", "step", "total_movement", "flips")


def forward(x, hidden, signs, frozen=None):
    """Returns outputs and patterns of the network, or of its linearisation if the patterns are frozen."""
    z = x @ hidden.T
    on = z >= 0 if frozen is None else frozen
    return (z * on) @ signs / np.sqrt(len(signs)), on


def in_weight_space(problem, setup, hidden, signs, linearised=False):
    """Runs Algorithm 1 as the paper writes it; returns the fields of Trajectory by name."""
    x, y, m = problem.x, problem.y, len(signs)
    start = x @ hidden.T >= 0
    frozen = start if linearised else None
    u, columns, weights = hidden.copy(), {name: [] for name in FIELDS}, []
    for t in range(setup.rounds + 1):
        outputs, on = forward(x, u, signs, frozen)
        lengths = np.linalg.norm(u - hidden, axis=1)
        columns["outputs"].append(outputs)
        columns["movement"].append(lengths.max())
        columns["total_movement"].append(np.linalg.norm(u - hidden))
        columns["flips"].append((on != start).mean())
        weights.append(u.copy())
        if t == setup.rounds:
            break
        seen, reach = np.zeros((setup.local_steps + 1, problem.n)), np.zeros(setup.local_steps + 1)
        updates = []
        for c in range(problem.n_clients):
            mine = problem.owner == c
            w = u.copy()
            for k in range(setup.local_steps + 1):
                seen[k, mine], active = forward(x[mine], w, signs, None if frozen is None else frozen[mine])
                reach[k] = max(reach[k], np.linalg.norm(w - hidden, axis=1).max())
                if k == setup.local_steps:
                    break
                gradient = np.zeros_like(w)
                for i, sample in enumerate(np.flatnonzero(mine)):
                    residual = y[sample] - seen[k, sample]
                    gradient -= residual * np.outer(signs * active[i], x[sample]) / np.sqrt(m)
                w -= setup.eta_local * gradient
            updates.append(w - u)
        mean = sum(updates) / problem.n_clients
        columns["local_outputs"].append(seen)
        columns["local_movement"].append(reach)
        columns["step"].append(np.linalg.norm(mean, axis=1).max())
        u = u + setup.eta_global * mean
    return {name: np.array(values) for name, values in columns.items()}, weights


def assert_same(trajectory, expected, tolerance=1e-10):
    for name in FIELDS:
        values = getattr(trajectory, name)
        assert values.shape == expected[name].shape, name
        assert np.abs(values - expected[name]).max() <= tolerance, name


def ragged(n, d, sizes, seed=0):
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Problem(rng.standard_normal((n, d)), rng.uniform(-1, 1, n), owner).unit()


# Compiled code works in chunks of neurons. Neither 37 nor 133 neurons fill a whole number of chunks.
@pytest.mark.parametrize(("compiled", "width"), [(False, 37), (True, 37), (True, 133)])
# Coefficients are turned into weights through the d features for d = 3, or through the Gram matrix for d = 9.
@pytest.mark.parametrize(
    ("local_steps", "linearised", "sizes", "d"),
    [
        (1, False, (1, 4, 2), 3),
        (2, False, (1, 4, 2), 3),
        (3, False, (2, 2), 9),
        (4, False, (1, 4, 2), 3),
        (3, True, (2, 2), 9),
        (2, True, (1, 4, 2), 3),
    ],
)
def test_agrees_with_a_plain_loop_in_weight_space(local_steps, linearised, sizes, d, compiled, width):
    problem = ragged(sum(sizes), d, sizes)
    setup = Setup(width=width, eta_local=0.4, eta_global=1.3, local_steps=local_steps, rounds=25, sigma=0.7)
    weights = draw(width, d, 3, 0.7)
    expected, path = in_weight_space(problem, setup, *weights, linearised)
    how = {"keep": (0, 7, 25), "linearised": linearised, "compiled": compiled}
    trajectory = simulate(problem, setup, weights, **how)
    assert_same(trajectory, expected)
    without = simulate(problem, setup, weights, **how, movements=False)
    assert (without.outputs == trajectory.outputs).all() and without.movement is None
    assert sorted(trajectory.weights) == [0, 7, 25]
    for t, kept in trajectory.weights.items():
        assert np.abs(kept - path[t]).max() < 1e-12
    other, _ = in_weight_space(problem, setup, *weights, not linearised)
    # Patterns flip, so the linearisation differs.
    assert np.abs(other["outputs"] - expected["outputs"]).max() > 1e-4


def test_the_outputs_of_weights_are_those_a_run_starts_from():
    problem, setup = data.sphere(9, 4, seed=2, clients=3), Setup(width=50, rounds=1, seed=5)
    weights = draw(50, 4, 5)
    assert np.allclose(weights.outputs(problem.x), simulate(problem, setup).outputs[0], rtol=0, atol=1e-14)
    assert weights.outputs(problem.x[:0]).shape == (0,)


@settings(deadline=None, max_examples=10)
@given(
    problem=problems(x=unit_data(n=(4, 4), d=(3, 3)), clients=(2, 2)),
    eta_local=st.floats(0.01, 0.3),
    eta_global=st.floats(0.5, 1.5),
    seed=st.integers(0, 2**20),
)
def test_agrees_with_the_loop_on_hard_data(problem, eta_local, eta_global, seed):
    setup = Setup(width=16, eta_local=eta_local, eta_global=eta_global, local_steps=2, rounds=4)
    weights = draw(16, 3, seed)
    assume(np.bincount(problem.owner).max() == 2)  # All draws then share one compiled shape.
    expected, path = in_weight_space(problem, setup, *weights)
    on_the_way = np.abs(np.stack([problem.x @ u.T for u in path]))
    assume(on_the_way.min() > 1e-9)  # Exact kinks are tested elsewhere.
    for compiled in (False, True):
        assert_same(simulate(problem, setup, weights, compiled=compiled), expected)


def test_compiled_passes_sum_in_other_orders_and_leave_large_clients_to_blas():
    problem, setup = ragged(12, 4, (5, 7)), Setup(width=500, rounds=5)
    plain, compiled = (simulate(problem, setup, compiled=choice) for choice in (False, True))
    assert 0 < np.abs(plain.outputs - compiled.outputs).max() < 1e-13
    large = ragged(FEW_SAMPLES + 2, 4, (1, FEW_SAMPLES + 1))
    plain, compiled = (simulate(large, setup, compiled=choice) for choice in (False, True))
    assert (plain.outputs == compiled.outputs).all()


def test_a_long_run_is_compiled_unless_told_otherwise(monkeypatch):
    setup = Setup(width=64, rounds=3, local_steps=2)
    compiled = simulate(PROBLEM, setup, compiled=True).outputs
    assert (simulate(PROBLEM, setup).outputs == simulate(PROBLEM, setup, compiled=False).outputs).all()
    monkeypatch.setattr(algorithm1, "COMPILED", 2 * 64 * 3 * PROBLEM.n)
    assert (simulate(PROBLEM, setup).outputs == compiled).all()


def test_the_norm_of_the_rows_is_free():
    problem = ragged(7, 3, (1, 4, 2))
    problem = Problem(problem.x * np.array([0.3, 1, 2, 1.5, 0.1, 1, 1.2])[:, None], problem.y, problem.owner)
    setup, weights = Setup(width=24, eta_local=0.1, local_steps=2, rounds=8), draw(24, 3, 0)
    assert_same(simulate(problem, setup, weights), in_weight_space(problem, setup, *weights)[0])


def gradient_descent(problem, hidden, signs, step, steps):
    """Returns the outputs under gradient descent on (1/2) sum_i (f(x_i) - y_i)^2 over all samples."""
    u, outputs = hidden.copy(), []
    for _ in range(steps + 1):
        out, on = forward(problem.x, u, signs)
        outputs.append(out)
        u = u + step / np.sqrt(len(signs)) * ((on * signs).T * (problem.y - out)) @ problem.x
    return np.array(outputs)


def test_one_client_is_gradient_descent_on_the_summed_loss():
    problem, weights = ragged(6, 4, (6,)), draw(50, 4, 1)
    setup = Setup(width=50, eta_local=0.2, local_steps=3, rounds=12)
    trajectory = simulate(problem, setup, weights)
    expected = gradient_descent(problem, *weights, step=0.2, steps=36)
    assert np.abs(trajectory.outputs - expected[::3]).max() < 1e-12
    for k in range(4):
        assert np.abs(trajectory.local_outputs[:, k] - expected[k : k + 34 : 3]).max() < 1e-12


def test_one_local_step_is_gradient_descent_whoever_owns_the_samples():
    problem, weights = ragged(7, 4, (1, 4, 2)), draw(50, 4, 2)
    setup = Setup(width=50, eta_local=0.3, eta_global=1.7, local_steps=1, rounds=30)
    expected = gradient_descent(problem, *weights, step=1.7 * 0.3 / 3, steps=30)
    assert np.abs(simulate(problem, setup, weights).outputs - expected).max() < 1e-12


@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_names_of_clients_and_orders_of_samples_and_neurons_do_not_matter(data):
    problem, weights = ragged(7, 3, (1, 4, 2)), draw(24, 3, 5)
    setup = Setup(width=24, eta_local=0.3, eta_global=1.2, local_steps=2, rounds=8)
    samples, neurons = data.draw(st.permutations(range(7))), data.draw(st.permutations(range(24)))
    names = np.array(data.draw(st.permutations(range(3))))
    moved = Problem(problem.x[samples], problem.y[samples], names[problem.owner[samples]])
    here = simulate(problem, setup, weights)
    there = simulate(moved, setup, Weights(weights.hidden[neurons], weights.signs[neurons]))
    for name in FIELDS:
        before, after = getattr(here, name), getattr(there, name)
        if name in ("outputs", "local_outputs"):
            before = before[..., samples]
        assert np.abs(before - after).max() < 1e-12, name


def test_samples_given_twice_to_their_client_double_the_loss_and_so_the_step():
    problem, weights = ragged(5, 3, (2, 3)), draw(24, 3, 5)
    setup = Setup(width=24, eta_local=0.2, local_steps=2, rounds=8)
    twice = Problem(np.tile(problem.x, (2, 1)), np.tile(problem.y, 2), np.tile(problem.owner, 2))
    halved = Setup(width=24, eta_local=0.1, local_steps=2, rounds=8)
    once, doubled = simulate(problem, setup, weights), simulate(twice, halved, weights)
    for name in FIELDS:
        before, after = getattr(once, name), getattr(doubled, name)
        if name in ("outputs", "local_outputs"):
            before = np.concatenate([before, before], axis=-1)
        assert np.abs(before - after).max() < 1e-12, name
    assert np.abs(doubled.loss - 2 * once.loss).max() < 1e-12


@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_weights_and_labels_scale_together_as_do_inputs_labels_and_steps(factor):
    problem, weights = ragged(7, 3, (1, 4, 2)), draw(24, 3, 5)
    setup = Setup(width=24, eta_local=0.2, local_steps=2, rounds=8)
    one = simulate(problem, setup, weights)
    labels = Problem(problem.x, factor * problem.y, problem.owner)
    larger = simulate(labels, setup, Weights(factor * weights.hidden, weights.signs))
    inputs = Problem(factor * problem.x, factor * problem.y, problem.owner)
    smaller_steps = Setup(width=24, eta_local=0.2 / factor**2, local_steps=2, rounds=8)
    longer = simulate(inputs, smaller_steps, weights)
    for name in FIELDS:
        value = getattr(one, name)
        with_weights = 1 if name == "flips" else factor
        with_inputs = factor if name in ("outputs", "local_outputs") else 1
        assert np.abs(getattr(larger, name) - with_weights * value).max() < 1e-12 * factor, name
        assert np.abs(getattr(longer, name) - with_inputs * value).max() < 1e-12 * factor, name


@pytest.mark.parametrize("compiled", [False, True])
def test_a_neuron_at_its_kink_counts_as_active(compiled):
    problem = Problem(np.array([[1.0, 0.0]]), np.array([1.0]))
    setup = Setup(width=1, eta_local=0.25, local_steps=1, rounds=2)
    at_the_kink = Weights(np.array([[0.0, 1.0]]), np.array([1.0]))
    assert simulate(problem, setup, at_the_kink, compiled=compiled).outputs[:, 0].tolist() == [0, 0.25, 0.4375]
    below = Weights(np.array([[-1e-300, 1.0]]), np.array([1.0]))
    assert simulate(problem, setup, below, compiled=compiled).outputs[:, 0].tolist() == [0, 0, 0]


def test_kept_weights_reproduce_what_was_recorded():
    problem = ragged(7, 3, (1, 4, 2))
    setup = Setup(width=24, eta_local=0.4, local_steps=2, rounds=8, seed=9)
    trajectory = simulate(problem, setup, keep=range(9))
    start = draw(24, 3, 9)
    assert np.array_equal(trajectory.weights[0], start.hidden)
    for t, hidden in trajectory.weights.items():
        outputs, on = forward(problem.x, hidden, start.signs)
        moved = hidden - start.hidden
        assert np.abs(outputs - trajectory.outputs[t]).max() < 1e-12
        assert abs(np.linalg.norm(moved, axis=1).max() - trajectory.movement[t]) < 1e-12
        assert abs(np.linalg.norm(moved) - trajectory.total_movement[t]) < 1e-12
        assert (on != (problem.x @ start.hidden.T >= 0)).mean() == trajectory.flips[t]
    assert np.array_equal(trajectory.local_outputs[:, 0], trajectory.outputs[:-1])
    assert trajectory.movement[0] == trajectory.total_movement[0] == trajectory.flips[0] == 0
    assert np.allclose(trajectory.loss, ((problem.y - trajectory.outputs) ** 2).sum(axis=1) / 6, rtol=1e-14, atol=0)
    assert simulate(problem, setup).weights == {}


FINGERPRINT = """
import hashlib
from ntkfl import Setup, data, simulate
run = simulate(data.sphere(6, 4, seed=1, clients=2), Setup(width=300, rounds=15, seed=4), keep=(15,))
arrays = [getattr(run, name) for name in {fields!r}] + [run.weights[15]]
print(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest())
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_here_and_in_a_new_process():
    from ntkfl import data

    def fingerprint(seed):
        run = simulate(data.sphere(6, 4, seed=1, clients=2), Setup(width=300, rounds=15, seed=seed), keep=(15,))
        arrays = [getattr(run, name) for name in FIELDS] + [run.weights[15]]
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

    again = subprocess.run(
        [sys.executable, "-c", FINGERPRINT.format(fields=FIELDS)], capture_output=True, text=True, check=True
    )
    assert fingerprint(4) == fingerprint(4) == again.stdout.strip()
    assert fingerprint(4) != fingerprint(5)


def test_provenance_names_seed_versions_dtype_and_device():
    provenance = simulate(ragged(3, 2, (3,)), Setup(width=4, rounds=1, seed=77)).provenance
    assert provenance["seeds"] == {"weights": 77}
    assert provenance["dtype"] == "float64"
    assert {"jax", "numpy", "python"} <= set(provenance["versions"])
    assert provenance["device"]


PROBLEM, SMALL = ragged(3, 2, (2, 1)), Setup(width=4, rounds=2)
HIDDEN, SIGNS = draw(4, 2, 0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((HIDDEN[:3], SIGNS), r"weights have shapes \(3, 2\) and \(4,\); width 4 and d = 2 need \(4, 2\) and \(4,\)"),
        ((HIDDEN, SIGNS[:, None]), r"weights have shapes \(4, 2\) and \(4, 1\)"),
        ((HIDDEN, SIGNS * 0.5), r"signs contain -?0.5; every sign must be \+1 or -1"),
        ((HIDDEN, SIGNS * np.nan), r"signs\[0\] is nan; every entry must be finite"),
        ((HIDDEN * np.inf, SIGNS), r"hidden\[0, 0\] is .*inf; every entry must be finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        simulate(PROBLEM, SMALL, Weights(*weights))


@pytest.mark.parametrize(("keep", "named"), [((0, 3), 3), ((-1, 1), -1)])
def test_a_round_that_is_not_run_cannot_be_kept(keep, named):
    with pytest.raises(ValueError, match=rf"keep names round {named}; the run has rounds 0..2"):
        simulate(PROBLEM, SMALL, keep=keep)


def test_several_outputs_are_refused():
    with pytest.raises(ValueError, match=r"y has shape \(3, 2\); the network has one output, so y must be \(3,\)"):
        simulate(Problem(PROBLEM.x, np.ones((3, 2))), SMALL)


def test_steps_beyond_the_limit_warn_with_the_limit():
    with pytest.warns(UserWarning, match=r"eta_global = 50 is beyond the stability limit: .* eta_global < \d"):
        simulate(PROBLEM, Setup(width=4, rounds=2, eta_global=50.0))
    with pytest.warns(UserWarning, match=r"eta_local = 9 .*; eta_local < \d\S* keeps every eta_global <= 1 stable"):
        simulate(PROBLEM, Setup(width=4, rounds=2, eta_local=9.0))


@pytest.mark.parametrize("way", ["plain", "compiled", "grouped"])
@pytest.mark.parametrize("eta_local, local_steps, rounds", [(1e100, 1, 6), (1e200, 2, 1), (1e6, 60, 2), (1e6, 7, 40)])
def test_an_overflow_never_passes_for_outputs_of_zero(way, eta_local, local_steps, rounds, monkeypatch):
    monkeypatch.setattr(algorithm1, "GROUPED", 0)
    x = np.random.default_rng(0).normal(size=(6, 4))
    x[np.arange(6), [0, 1, 2, 3, 0, 1]] = 0.0  # An infinite weight times one of these zeros is NaN.
    problem = Problem(x, np.array([1.0, -1, 1, 1, -1, 1]), [0, 1, 0, 1, 0, 1])
    setup = Setup(width=64, rounds=rounds, eta_local=eta_local, local_steps=local_steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(FloatingPointError, match=r"the run overflowed at round \d+"):
            simulate(problem, setup, compiled=way == "compiled", movements=way != "grouped")


@pytest.mark.parametrize("compiled", [False, True])
def test_movements_whose_squares_overflow_are_not_passed_over(compiled):
    problem, weights = Problem(np.eye(2), np.array([1e160, 0.0])), Weights(np.ones((3, 2)), np.ones(3))
    with pytest.raises(FloatingPointError, match="the run overflowed at round 0"):
        simulate(problem, Setup(width=3, rounds=1, eta_local=0.1), weights, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_overflow_is_an_error_that_names_round_and_limit_never_nan(compiled):
    setup = Setup(width=64, rounds=4000, eta_local=20.0, local_steps=1)
    weights = Weights(np.abs(draw(64, 2, 0).hidden), np.ones(64))  # Every neuron stays active, so nothing saturates.
    problem = Problem(np.eye(2), np.array([3.0, 2.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(
            FloatingPointError, match=r"the run overflowed at round \d+: eta_global = 1 .* stability limit"
        ):
            simulate(problem, setup, weights, linearised=True, compiled=compiled)
