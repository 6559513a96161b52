"""Tests of two fast ways to run rounds, whose results equal those of Algorithm 1 up to rounding.

One way is by matrix products in threads. The other, tracking, follows only neurons that may switch on or off.
"""

import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from threadpoolctl import threadpool_limits

from ntkfl import Problem, Setup, data, simulate
from ntkfl.algorithm1 import client_threads, switch_tracking
from ntkfl.algorithm1.client_groups import clients_at_once
from ntkfl.algorithm1.client_threads import numbers_held, run
from ntkfl.algorithm1.switch_tracking import DealtNetwork, SwitchTracking
from ntkfl.initialisation import draw
from ntkfl.problem import Weights

EVERYTHING = 2.0  # a share that entries never exceed, so that products are never used


def clients(number, samples, d, width, seed=0):
    """Returns samples and labels by client, and a network."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(number, samples, d)) / np.sqrt(d)
    return x, rng.normal(size=(number, samples)), Weights(rng.normal(size=(width, d)), rng.choice([-1.0, 1.0], width))


def both(monkeypatch, given, setup, most=EVERYTHING, **options):
    """Returns the run by tracking, and the run by products.

    An entry is a pair of a neuron and a sample. Tracking is used in a round if it follows at most the share `most` of
    the entries.
    """
    monkeypatch.setattr(client_threads, "worthwhile_share", lambda *_: most)
    options = {"linearised": False} | options
    keep = np.arange(setup.rounds + 1)
    return run(*given, keep, setup, **options), run(*given, keep, setup, **options, tracked=False)


def assert_close(trajectory, expected, off=1e-10):
    for name in ("local", "last", "kept"):
        a, b = getattr(trajectory, name), getattr(expected, name)
        assert np.abs(a - b).max() <= off * max(1, np.abs(b).max())


@pytest.fixture
def switches(monkeypatch):
    """Counts the neurons that switched on a sample within rounds."""
    seen, add = [0], SwitchTracking._add

    def counted(self, piece, entries, coefficients):
        seen[0] += int((entries["extra"] != 0).sum())
        add(self, piece, entries, coefficients)

    monkeypatch.setattr(SwitchTracking, "_add", counted)
    return seen


@pytest.mark.parametrize("eta_local", [0.01, 0.3, 3.0])
@pytest.mark.parametrize(("number", "samples", "d"), [(7, 3, 5), (3, 40, 3), (1, 70, 2), (30, 1, 4), (2, 600, 3)])
def test_the_runs_of_products(number, samples, d, eta_local, monkeypatch, switches):
    given, rate = clients(number, samples, d, 700), eta_local / samples
    setup = Setup(width=700, eta_local=rate, eta_global=1.2, local_steps=4, rounds=3)
    assert_close(*both(monkeypatch, given, setup))
    if eta_local == 3.0:
        assert switches[0] > 0


@given(seed=st.integers(0, 1000), samples=st.integers(1, 9), steps=st.integers(1, 4), rate=st.floats(0.01, 2.0))
@settings(max_examples=60, deadline=None)
def test_the_runs_of_the_whole_record(seed, samples, steps, rate):
    """The runs equal those of the simulator that records movements.

    Clients differ in size, and the width is no whole number of chunks.
    """
    rng = np.random.default_rng(seed)
    owner = np.r_[np.repeat(np.arange(3), [samples, 1, samples + 2])]
    x = rng.integers(-2, 3, (len(owner), 2)) / 2.0  # Rows may be equal or parallel.
    x[~x.any(axis=1)] = 1.0
    problem = Problem(x, rng.choice([-1.0, 1.0], len(owner)), owner)
    setup = Setup(
        width=int(rng.integers(12, 200)), eta_local=rate / len(x), eta_global=1.0, local_steps=steps, rounds=3
    )
    weights = draw(setup.width, 2, seed)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("ignore")
        whole = simulate(problem, setup, weights, compiled=False)
        patched.setattr("ntkfl.algorithm1.simulation.GROUPED", 0)
        patched.setattr(client_threads, "worthwhile_share", lambda *_: EVERYTHING)
        trajectory = simulate(problem, setup, weights, movements=False, compiled=True)
    size = max(1.0, np.abs(whole.local_outputs).max())
    assert np.abs(trajectory.local_outputs - whole.local_outputs).max() <= 1e-10 * size
    assert np.abs(trajectory.outputs - whole.outputs).max() <= 1e-10 * size


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_linearised_runs(dtype, monkeypatch):
    setup = Setup(width=500, eta_local=0.3, eta_global=1.2, local_steps=4, rounds=3)
    off = 1e-10 if dtype == "float64" else 1e-4
    assert_close(*both(monkeypatch, clients(5, 6, 4, 500), setup, linearised=True, dtype=dtype), off)


def test_single_precision(monkeypatch, switches):
    setup = Setup(width=500, eta_local=0.3, eta_global=1.2, local_steps=4, rounds=3)
    assert_close(*both(monkeypatch, clients(5, 6, 4, 500), setup, dtype="float32"), 1e-4)
    assert switches[0] > 0


def in_fractions(x, y, weights, setup):
    """Runs Algorithm 1 in rational numbers, client by client.

    Returns the local outputs (T, K+1, N, c) and the last weights.
    """
    exact = np.vectorize(Fraction, otypes=[object])
    x, y, u, signs = exact(x), exact(y), exact(weights.hidden), exact(weights.signs)
    scale, eta_local, share = (
        1 / exact(setup.width**0.5),
        Fraction(setup.eta_local),
        Fraction(setup.eta_global) / len(x),
    )
    local = np.empty((setup.rounds, setup.local_steps + 1, *y.shape), object)
    for t in range(setup.rounds):
        total = 0 * u
        for c, rows in enumerate(x):
            v = u
            for k in range(setup.local_steps + 1):
                z = rows @ v.T
                local[t, k, c] = np.where(z >= 0, z, Fraction(0)) @ signs * scale
                pull = (z >= 0) * (eta_local * scale * (y[c] - local[t, k, c]))[:, None]
                v = v + (signs * pull).T @ rows if k < setup.local_steps else v
            total = total + v - u
        u = u + share * total
    return local, u


@given(seed=st.integers(0, 10**6), number=st.sampled_from([1, 2, 4]), samples=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_every_bit_where_nothing_is_rounded(seed, number, samples):
    """Every bit agrees if nothing is rounded.

    Rows are small integers, with duplicates, opposite rows and zero rows. Many weights lie exactly on a hyperplane.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-1, 2, (number, samples, 2)), rng.integers(-4, 5, (number, samples))
    weights = Weights(rng.integers(-2, 3, (16, 2)).astype(float), rng.choice([-1.0, 1.0], 16))
    setup = Setup(width=16, eta_local=rng.choice([0.25, 0.5]), eta_global=1.0, local_steps=2, rounds=2)
    local, last = in_fractions(x, y, weights, setup)
    denominators = [number.denominator for number in [*local.flat, *last.flat]]
    assume(max(denominators) < 2**30 and max(map(abs, local.flat)) < 2**16)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(client_threads, "worthwhile_share", lambda *_: EVERYTHING)
        patched.setattr(switch_tracking, "ROWS", int(rng.integers(1, 8)))  # A client may then belong to several tiles.
        tracked = run(x.astype(float), y.astype(float), weights, np.array([2]), setup, linearised=False)
    assert np.array_equal(tracked.local, local.astype(float))
    assert np.array_equal(tracked.kept[0], last.astype(float))


@pytest.fixture
def starts(monkeypatch):
    """Records the share of the entries that is followed, at the start of each round.

    A round that is repeated with a larger reach is recorded again at each repetition.
    """
    seen, start = [], SwitchTracking._start

    def noted(self, reach):
        tracker = start(self, reach)
        seen.append(tracker.share)
        return tracker

    monkeypatch.setattr(SwitchTracking, "_start", noted)
    return seen


def test_a_reach_that_was_expected_too_small_is_noticed(monkeypatch, starts):
    monkeypatch.setattr(switch_tracking, "MARGIN", 1e-3)
    setup = Setup(width=300, eta_local=0.3, eta_global=1.2, local_steps=4, rounds=3)
    assert_close(*both(monkeypatch, clients(7, 3, 5, 300), setup))
    assert len(starts) > 2 + setup.rounds


def test_a_reach_of_zero_is_left_at_once(monkeypatch, starts):
    """A reach of zero is given up at once.

    The reach bounds how far a sample's pre-activations move in a round. One client starts with residuals of 0, and so
    with a reach of 0. The other client's update moves the model, so the first client then needs a larger reach. A reach
    that is only doubled would stay at twice 0, which is too small.
    """
    x, y, weights = clients(2, 3, 5, 300)
    y[0] = weights.outputs(x[0])
    setup = Setup(width=300, eta_local=0.1, eta_global=1.2, local_steps=4, rounds=3)
    assert_close(*both(monkeypatch, (x, y, weights), setup))
    assert len(starts) <= 2 + 2 * setup.rounds


def test_a_share_of_just_the_most_is_followed(monkeypatch, switches, starts):
    """A share that equals the largest allowed one is followed.

    One of 49 * 128 pairs is followed, although floats give 1 / 6272 * 6272 < 1.
    """
    assert 1 / (49 * 128) * (49 * 128) < 1
    x, y = np.ones((49, 1, 2)), np.full((49, 1), 1.0)
    x[0], y[0] = (1.0, -0.999), -1.0
    given, setup = (x, y, Weights(np.ones((1, 2)), np.ones(1))), Setup(1, eta_local=0.01, local_steps=2, rounds=1)
    assert_close(*both(monkeypatch, given, setup, 1 / (49 * 128)))
    assert starts[1] == 1 / (49 * 128)
    assert switches[0] == 1


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("number", "samples", "width"), [(20_000, 1, 1024), (500, 20, 2048), (4000, 2, 128)])
def test_what_tracking_holds_is_counted(number, samples, width, monkeypatch):
    x, y, weights = clients(number, samples, 2, width)
    always, pairs = switch_tracking.bytes_held(x, width)
    tracemalloc.start()
    try:
        with threadpool_limits(1), ThreadPoolExecutor(1) as pool:
            network, outputs = DealtNetwork(weights, "float64"), np.empty((3, y.size))
            tracking, largest = SwitchTracking(network, x, y, False, EVERYTHING, pool), [0.0]
            start = SwitchTracking._start

            def noted(reach):
                tracker = start(tracking, reach)
                largest[0] = max(largest[0], tracker.share)
                return tracker

            monkeypatch.setattr(tracking, "_start", noted)
            assert tracking.train(0.01 / samples, outputs)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < largest[0]
    assert taken <= always + largest[0] * pairs + 2**21


@pytest.mark.parametrize("most", [1e-9, 0.35])
def test_rounds_with_many_entries_go_by_products(most, monkeypatch):
    """Rounds with many entries are run by products.

    With the limit 1e-9 all rounds are run by products, and with .35 only some are. Residuals are large in the first
    round and small later.
    """
    tracked, train = [], SwitchTracking.train

    def noted(self, eta_local, outputs):
        tracked.append(train(self, eta_local, outputs))
        return tracked[-1]

    monkeypatch.setattr(SwitchTracking, "train", noted)
    x, y, weights = clients(7, 3, 5, 300)
    setup = Setup(width=300, eta_local=0.3, eta_global=1.2, local_steps=4, rounds=8)
    assert_close(*both(monkeypatch, (x, 10 * y, weights), setup, most))
    assert not tracked[0]
    assert any(tracked[:-1]) == (most == 0.35)


@pytest.mark.parametrize("samples", [1, 6])
def test_what_may_switch_is_within_reach(samples):
    """No pre-activation moves farther than its sample's reach, which is the bound on which the method rests."""
    x, y, weights = clients(4, samples, 3, 200)
    network, eta_local = DealtNetwork(weights, "float64"), 0.5
    with ThreadPoolExecutor(1) as pool:
        tracking = SwitchTracking(network, x, y, False, EVERYTHING, pool)
        outputs = np.empty((5, y.size))
        assert tracking.train(eta_local, outputs)
        needed = tracking.expect(eta_local, outputs).reshape(y.shape)
    most = 0.0
    for rows, labels, reach in zip(x, y, needed, strict=True):
        u = weights.hidden.copy()
        for _ in range(4):
            z = rows @ u.T
            residuals = labels - np.maximum(z, 0) @ weights.signs / np.sqrt(200)
            u += eta_local / np.sqrt(200) * weights.signs[:, None] * ((z >= 0) * residuals[:, None]).T @ rows
            farthest = np.abs(rows @ (u - weights.hidden).T).max(axis=1)
            assert (farthest <= (1 + 1e-12) * reach).all()  # One sample can attain the reach.
        most = max(most, (farthest / reach).max())
    assert most >= 0.9


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    setup = Setup(width=3000, eta_local=0.3, eta_global=1.2, local_steps=3, rounds=3)
    runs = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            runs.append(both(monkeypatch, clients(7, 12, 3, 3000), setup)[0])
    for other in runs[1:]:
        for name in ("local", "last", "kept"):
            assert np.array_equal(getattr(runs[0], name), getattr(other, name))


def test_an_overflow_is_seen():
    problem = data.sphere(64, 3, seed=1, clients=4)
    setup = Setup(width=2**15, eta_local=1e200, local_steps=3, rounds=3, seed=0)
    with pytest.warns(UserWarning), pytest.raises(FloatingPointError, match="the run overflowed at round"):
        simulate(problem, setup, movements=False, compiled=True)


def ran(x, y, weights, **options):
    setup = Setup(width=len(weights.signs), eta_local=0.3, eta_global=1.2, local_steps=2, rounds=3)
    return client_threads.run(x, y, weights, np.array([3]), setup, **({"linearised": False} | options))


@pytest.mark.parametrize("memory", [None, "of one client"])
@pytest.mark.parametrize(("number", "samples", "d"), [(7, 3, 40), (7, 12, 3), (1, 12, 3), (2, 3, 40)])
def test_the_number_of_threads_of_products_changes_no_bit(number, samples, d, memory, monkeypatch):
    monkeypatch.setattr(client_threads, "ROWS", 4)
    monkeypatch.setattr(client_threads, "PIECE", 2**12)
    given = clients(number, samples, d, 1000)
    if memory:  # With `memory`, the threads share the neurons of one client.
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
    ran(*clients(2, samples, d, 200), dtype=dtype)  # This run compiles the code before the memory is measured.
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
