"""Tests of Algorithm 1 run by groups of clients: the run equals that of `simulate` without groups.

The groups may be computed in weight or function space, with any grouping, on devices or on the host.
"""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product

import jax
import numpy as np
import pytest

from ntkfl import Problem, Setup, simulate
from ntkfl.algorithm1 import client_groups, client_threads, simulation as algorithm1
from ntkfl.initialisation import draw

SETUP = Setup(width=96, eta_local=0.2, eta_global=1.3, local_steps=3, rounds=4, seed=1)


def ragged(n=23, d=3, clients=5, seed=0):
    """Returns clients of 1 to about 9 samples as a problem and as padded arrays, and each sample's place in
    the arrays.
    """
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.arange(clients), rng.choice(clients, n - clients, p=[0.4, 0.3, 0.1, 0.1, 0.1])])
    x = rng.normal(size=(n, d))
    problem = Problem(x / np.linalg.norm(x, axis=1, keepdims=True), rng.choice([-1.0, 1.0], n), owner)
    widest = np.bincount(owner).max()
    padded, labels, place = np.zeros((clients, widest, d)), np.zeros((clients, widest)), np.empty(n, int)
    for c, members in enumerate(problem.members):
        padded[c, : len(members)], labels[c, : len(members)] = problem.x[members], problem.y[members]
        place[members] = c * widest + np.arange(len(members))
    return problem, padded, labels, place


def outputs(ran, place):
    local = np.asarray(ran.local)
    path = np.concatenate([local[:, 0], np.asarray(ran.last)[None]])
    return path.reshape(len(path), -1)[:, place], local.reshape(*local.shape[:2], -1)[:, :, place]


def quick(way, rows, weight_space, linearised):
    """Says whether a case is among the quick tests.

    XLA compiles each case for a second, so most cases of `client_groups` are slow tests.

    Cases with 16 rows are among the quick ones, because only with 16 rows a group is padded.
    """
    return way is client_threads or rows == (1 if weight_space == linearised else 16)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    ("way", "rows", "weight_space", "linearised"),
    [
        pytest.param(*case, marks=() if quick(*case) else pytest.mark.slow)
        for case in product([client_groups, client_threads], [1, 16, 1000], [False, True], [False, True])
    ],
)
def test_the_run_is_that_of_the_simulator(way, rows, weight_space, linearised, monkeypatch):
    monkeypatch.setattr(way, "ROWS", rows)
    monkeypatch.setattr(way, "in_weight_space", lambda samples, d: weight_space)
    problem, x, y, place = ragged()
    weights = draw(SETUP.width, problem.d, SETUP.seed)
    expected = simulate(problem, SETUP, weights, keep=(0, 2, 4), linearised=linearised)
    ran = way.run(x, y, weights, np.array([0, 2, 4]), SETUP, linearised=linearised)
    path, local = outputs(ran, place)
    assert np.allclose(path, expected.outputs, rtol=0, atol=1e-12)
    assert np.allclose(local, expected.local_outputs, rtol=0, atol=1e-12)
    for kept, t in zip(ran.kept, (0, 2, 4), strict=True):
        assert np.allclose(kept, expected.weights[t], rtol=0, atol=1e-12)
    if rows == 16:
        single = way.run(x, y, weights, np.array([], int), SETUP, linearised=linearised, dtype="float32")
        assert single.last.dtype == np.float32
        assert np.allclose(outputs(single, place)[0], expected.outputs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("linearised", [False, True])
def test_a_large_run_without_movements_goes_through_groups(linearised, monkeypatch):
    problem, *_ = ragged()
    plain = simulate(problem, SETUP, keep=(1, 4), linearised=linearised, movements=False)
    monkeypatch.setattr(algorithm1, "GROUPED", 0)
    monkeypatch.setattr(algorithm1, "_run", None)
    grouped = simulate(problem, SETUP, keep=(1, 4), linearised=linearised, movements=False)
    assert np.allclose(grouped.outputs, plain.outputs, rtol=0, atol=1e-12)
    assert np.allclose(grouped.local_outputs, plain.local_outputs, rtol=0, atol=1e-12)
    assert grouped.weights.keys() == plain.weights.keys()
    assert all(np.allclose(grouped.weights[t], plain.weights[t], rtol=0, atol=1e-12) for t in (1, 4))
    single = simulate(problem, SETUP, linearised=linearised, movements=False, dtype="float32")
    assert single.provenance["dtype"] == "float32"
    assert 0 < np.abs(single.outputs - plain.outputs).max() < 1e-4


@pytest.mark.parametrize("compiled", [False, True])
def test_a_small_run_goes_through_groups_where_that_is_asked_for(compiled, monkeypatch):
    problem, *_ = ragged()
    expected = simulate(problem, SETUP, movements=False)
    through = []
    run = client_threads.run
    monkeypatch.setattr(client_threads, "run", lambda *a, **k: through.append(k["tracked"]) or run(*a, **k))
    trajectory = simulate(problem, SETUP, movements=False, grouped=True, compiled=compiled)
    assert through == [compiled]
    assert np.abs(trajectory.outputs - expected.outputs).max() < 1e-12
    simulate(problem, SETUP, movements=False, grouped=False)
    assert len(through) == 1
    with pytest.raises(ValueError, match="grouped is True; groups of clients record no movements"):
        simulate(problem, SETUP, grouped=True)


def test_movements_in_float32_are_refused():
    with pytest.raises(ValueError, match="dtype is float32 and 0 devices are named; movements are recorded in float64"):
        simulate(ragged()[0], SETUP, dtype="float32")


def test_weights_that_are_spread_over_hosts_are_not_kept(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="keep names 1 rounds; none of the 2 hosts has all weights"):
        simulate(ragged()[0], SETUP, movements=False, keep=(1,), devices=jax.devices())


def test_a_budget_makes_groups_smaller_and_changes_nothing():
    problem, padded, *_ = ragged()
    setup, plain = replace(SETUP, width=512), None
    one = client_threads.numbers_held(padded.shape[1], 3, "float64")
    least = 512 * 8 * (4 * 3 + one)
    for memory in (None, 1e12, least):
        trajectory = simulate(problem, setup, movements=False, memory=memory)
        plain = trajectory if plain is None else plain
        assert np.allclose(trajectory.outputs, plain.outputs, rtol=0, atol=1e-12)
    assert client_groups.clients_at_once(5, one, 3, 512, 8, memory=least) == 1
    refused = r"the run takes \S+ \wB of memory and \S+ \wB are available; width up to 511 would fit; smaller clients"
    with pytest.raises(ValueError, match=refused):
        simulate(problem, setup, movements=False, memory=least - 1)
    with pytest.raises(ValueError, match=r"with movements the run takes .*; movements=False needs"):
        simulate(problem, setup, memory=least)
    with pytest.raises(ValueError, match="memory is -1; it must be a positive number of bytes"):
        simulate(problem, setup, memory=-1)


@pytest.mark.parametrize(
    ("clients", "samples", "d", "dtype", "kept"),
    [
        pytest.param(10, 100, 32, "float64", 0, marks=pytest.mark.slow),
        (10, 100, 32, "float32", 2),
        (20, 10, 300, "float64", 0),
        (2, 300, 60, "float64", 1),
    ],
)
def test_what_xla_allocates_is_within_the_count(clients, samples, d, dtype, kept):
    width, item = 2**14, np.dtype(dtype).itemsize
    memory = 0.6 * width * item * (4 * samples * min(clients, 128 // samples + 2) + (6 + kept) * d)
    held = client_groups.numbers_held(samples, d)
    fit = client_groups.clients_at_once(clients, held, d, width, item, kept, memory)
    size = min(fit, max(1, client_groups.ROWS // samples))

    def numbers(*shape, dtype=dtype):
        return jax.ShapeDtypeStruct(shape, dtype)

    groups = (-(-clients // size), size, samples)
    arrays = numbers(*groups, d), numbers(*groups), numbers(width, d), numbers(width), numbers(kept, dtype="int64")
    steps = {"local_steps": 3, "rounds": 2, "linearised": False}
    by_weights = client_groups.in_weight_space(samples, d)
    made = client_groups._run.lower(*arrays, *(numbers() for _ in range(3)), **steps, by_weights=by_weights).compile()
    usage = made.memory_analysis()
    taken = usage.temp_size_in_bytes + usage.argument_size_in_bytes + usage.output_size_in_bytes
    assert 0.2 * memory < taken <= memory


ON_DEVICES = """
import json, re, sys
import jax, numpy as np
jax.config.update("jax_enable_x64", True)  # of what is lowered below
from ntkfl import Setup
from ntkfl.algorithm1 import client_groups
from ntkfl.initialisation import draw
assert len(jax.devices()) == 4
rng = np.random.default_rng(0)
x, y, found = rng.normal(size=(5, 6, 3)) / 2, rng.choice([-1.0, 1.0], (5, 6)), []
setup = Setup(width=70, eta_local=0.2, eta_global=1.3, local_steps=3, rounds=4)
for devices in ((), jax.devices()):
    run = client_groups.run(x, y, draw(70, 3, 0), np.array([4]), setup, linearised=False, devices=devices)
    assert run.kept.shape == (1, 70, 3)
    found.append([np.asarray(run.local).ravel().tolist() + np.asarray(run.last).ravel().tolist(),
                  np.asarray(run.kept).ravel().tolist()])
text = client_groups._run.lower(
    *(jax.ShapeDtypeStruct(s, float) for s in ((1, 5, 6, 3), (1, 5, 6))),
    *(jax.ShapeDtypeStruct(a.shape, float, sharding=a.sharding) for a in
      (client_groups._shared(w, jax.devices()) for w in draw(72, 3, 0))),
    np.zeros(0, int), 0.2, 0.26, 0.1, local_steps=3, rounds=4, linearised=False, by_weights=False,
).compile().as_text()
exchanges = [line.split("=")[1].split("(")[0] for line in text.splitlines() if re.search(" all-(reduce|gather)", line)]
shapes = [shape for line in exchanges for shape in re.findall(r"f64\\[([0-9,]*)\\]", line)]
largest = max(int(np.prod([int(k) for k in shape.split(",") if k])) for shape in shapes)
json.dump([found, largest], sys.stdout)
"""


@pytest.mark.slow  # The test starts a process with four devices.
def test_devices_that_share_the_neurons_give_the_same_run_and_exchange_outputs_only():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", ON_DEVICES], env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (one, four), exchanged = json.loads(done.stdout)
    assert np.allclose(four[0], one[0], rtol=0, atol=1e-13)
    assert np.allclose(four[1], one[1], rtol=0, atol=1e-13)
    assert 0 < exchanged <= 30  # Only the outputs of one group, of five clients with six samples, are exchanged.
