"""Algorithm 1 by the host's threads: any number of threads gives the same bits, within memory; overflow is seen."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ntkfl import Setup, data, simulate
from ntkfl.algorithm1 import client_threads
from ntkfl.algorithm1.client_groups import clients_at_once
from ntkfl.algorithm1.client_threads import numbers_held
from ntkfl.problem import Weights


def clients(number, samples, d, width, seed=0):
    """Samples and labels by client, and a network."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(number, samples, d)) / np.sqrt(d)
    return x, rng.normal(size=(number, samples)), Weights(rng.normal(size=(width, d)), rng.choice([-1.0, 1.0], width))


def ran(x, y, weights, **options):
    setup = Setup(width=len(weights.signs), eta_local=0.3, eta_global=1.2, local_steps=2, rounds=3)
    return client_threads.run(x, y, weights, np.array([3]), setup, **({"linearised": False} | options))


@pytest.mark.parametrize("memory", [None, "of one client"])
@pytest.mark.parametrize(("number", "samples", "d"), [(7, 3, 40), (7, 12, 3), (1, 12, 3), (2, 3, 40)])
def test_the_number_of_threads_changes_no_bit(number, samples, d, memory, monkeypatch):
    monkeypatch.setattr(client_threads, "ROWS", 4)
    monkeypatch.setattr(client_threads, "PIECE", 2**12)
    given = clients(number, samples, d, 1000)
    if memory:  # with `memory`, the threads share the neurons of one client
        held = numbers_held(samples, d, "float64")
        memory = 1000 * 8 * (5 * d + held)
        assert clients_at_once(number, held, d, 1000, 8, 1, memory) == 1
    runs = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            runs.append(ran(*given, memory=memory))
    for other in runs[1:]:
        for name in ("local", "last", "kept"):
            assert np.array_equal(getattr(runs[0], name), getattr(other, name))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("linearised", [False, True])
@pytest.mark.parametrize(("number", "samples", "d"), [(6, 50, 4), (40, 5, 30), (1, 200, 20)])
def test_what_is_allocated_is_within_the_count(number, samples, d, linearised, dtype, monkeypatch):
    monkeypatch.setattr(client_threads, "PIECE", 2**17)
    width, item = 2**14, np.dtype(dtype).itemsize
    given = clients(number, samples, d, width)
    ran(*clients(2, samples, d, 200), dtype=dtype)  # compiled before it is measured
    memory = width * item * (5 * d + 1.5 * numbers_held(samples, d, dtype)) + 8 * client_threads.PIECE
    tracemalloc.start()
    try:
        run = ran(*given, memory=memory, linearised=linearised, dtype=dtype)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    results = sum(array.nbytes for array in (run.local, run.last))
    assert 0.3 * memory < taken - results <= memory


def test_an_overflow_is_seen_and_not_taken_for_inactive_neurons():
    problem = data.sphere(64, 3, seed=1, clients=4)
    setup = Setup(width=2**15, eta_local=1e200, local_steps=3, rounds=3, seed=0)
    with pytest.warns(UserWarning), pytest.raises(FloatingPointError, match="the run overflowed at round"):
        simulate(problem, setup, movements=False)
