"""Tests of tiles on a Dask cluster and on a device of torch: results agree with those of one process.

Refusals are reported, and nothing is lost.
"""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from distributed import Client, LocalCluster
from linear_methods import quietly, ragged

from ntkfl import data, gram, kernel_regime, memory
from ntkfl.gram import remote_tiles, tiles
from ntkfl.gram.remote_tiles import ClusterStopped, DaskTiles, DeviceTiles
from ntkfl.gram.tiles import Tiles
from ntkfl.limit_curves import limit_curves, several_limit_curves
from ntkfl.memory import TooLittleMemory
from ntkfl.problem import Problem, Setup

ROUNDS = [1, 4, 30]
SMALL_STEPS = Setup(eta_local=1e-3)


def images():
    return data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)


def started(workers, **more):
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "processes": False, **more}
    return LocalCluster(n_workers=workers, **options)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Makes tiles small, so that matrices of tens of rows have several slabs of several tiles."""
    monkeypatch.setattr(tiles, "SLAB", 12)
    for module in (tiles, remote_tiles):
        monkeypatch.setattr(module, "TILE", 4)


@pytest.fixture(params=[1, 2, 3])
def client(request):
    with started(request.param) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "kernel", [gram.infinite, gram.deep, lambda x, z: x @ (x if z is None else z).T], ids=["infinite", "deep", "linear"]
)
def test_tiles_of_workers_are_those_of_one_process_to_the_bit(client, kernel, dtype):
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((90, 5)), rng.standard_normal((90, 3))
    here, there = Tiles.of(kernel, x, dtype), DaskTiles.on(client, kernel, x, dtype)
    assert len(there.shares) == len(client.nthreads()) and not there.slabs
    assert np.array_equal(there @ v, here @ v)
    assert np.array_equal(np.asarray(there), np.asarray(here))
    rows, columns = rng.permutation(90)[:20], rng.permutation(90)[:30]
    assert np.array_equal(there[np.ix_(rows, columns)], here[np.ix_(rows, columns)])
    for name in ("norm", "error", "trace", "largest_own", "product_rounding", "shape", "dtype", "rows"):
        assert getattr(there, name) == getattr(here, name), name


def test_no_slab_leaves_its_worker(two_workers, monkeypatch):
    """No slab leaves its worker.

    The process that asks the workers for results does not have the memory for all tiles. So nothing that this process
    receives is as large as a slab.
    """
    sizes, awaited = [], remote_tiles._awaited

    def size(result):
        return sum(map(size, result)) if isinstance(result, list | tuple) else np.size(result)

    def measured(client, future):
        result = awaited(client, future)
        sizes.append(size(result))
        return result

    monkeypatch.setattr(remote_tiles, "_awaited", measured)
    x = np.random.default_rng(0).standard_normal((90, 5))
    there = DaskTiles.on(two_workers, gram.infinite, x)
    _ = there @ x[:, :1], there.norm, there.trace, there.largest_own, there[np.ix_(np.arange(9), np.arange(9))]
    assert len(sizes) >= 6 and max(sizes) < 12 * 24  # 12 * 24 is the number of entries of the second of eight slabs.


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("method", "options"), [("fedprox", {"mu": 0.5}), ("feddyn", {"alpha": 5.0}), ("scaffold", {}), ("cyclic", {})]
)
@quietly
def test_a_method_gives_the_same_bits(method, options, two_workers):
    problem = ragged([1, 9, 20, 7])
    problem = Problem(problem.x, np.random.default_rng(0).uniform(-1, 1, (problem.n, 3)), problem.owner)
    setup, z = Setup(eta_local=0.03, local_steps=3), problem.x[:4] / 2
    alone, shared = (
        kernel_regime(problem, setup, None, method, options, matrix_free=True, cluster=cluster)
        for cluster in (None, two_workers)
    )
    assert isinstance(shared.tiles, DaskTiles) and len(shared.tiles.shares) == 2
    assert np.array_equal(shared.outputs([1, 6]), alone.outputs([1, 6]))
    assert np.array_equal(shared.predict(z, 6), alone.predict(z, 6))
    assert shared.step_limits.eta_local == alone.step_limits.eta_local


@pytest.fixture(scope="module")
def two_workers():
    with started(2) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("method", "tiles"), [("fedavg", "float64"), ("scaffold", "float32"), ("fedavgm", True)])
def test_the_curves_are_the_same_with_their_error_bounds(method, tiles, two_workers):
    problem = images()
    shared, alone = (
        limit_curves(problem, ROUNDS, method=method, tiles=tiles, cluster=cluster) for cluster in (two_workers, None)
    )
    assert shared.to_dict() == alone.to_dict()


@pytest.mark.slow  # Here the workers are processes. In the tests below they run, and are closed, inside this process.
def test_a_worker_that_dies_is_replaced_by_another(monkeypatch):
    monkeypatch.undo()  # Tiles get their usual size, since worker processes do not have the small size.
    problem, killed = images(), []

    def kill(done, total):
        if done == 3:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    with started(2, processes=True, silence_logs=50) as cluster, Client(cluster, set_as_default=False) as client:
        shared = limit_curves(problem, ROUNDS, method="scaffold", cluster=client, progress=kill)
    assert killed and shared.to_dict() == limit_curves(problem, ROUNDS, method="scaffold").to_dict()


def test_rows_that_are_computed_again_with_other_bits_are_refused(monkeypatch):
    x = np.random.default_rng(0).standard_normal((90, 5))

    def kernel(x, z):
        return x @ (x if z is None else z).T * (1 + float(os.environ.get("OTHER_BITS", 0)))

    with started(2) as cluster, Client(cluster, set_as_default=False) as client:
        there = DaskTiles.on(client, kernel, x)
        before = there @ x
        monkeypatch.setenv("OTHER_BITS", str(2.0**-52))
        np.testing.assert_array_equal(there @ x, before)  # The worker still has the rows.
        cluster.sync(next(iter(cluster.workers.values())).close)
        for asked in (lambda: there @ x, lambda: there.trace):
            with pytest.raises(ClusterStopped, match="computed again, and differ in some bits from the first rows"):
                asked()


def test_a_run_whose_workers_are_all_gone_is_kept_and_goes_on_without_them(tmp_path, monkeypatch):
    problem, keep = images(), tmp_path / "run.npz"
    monkeypatch.setattr(remote_tiles, "LOOKS_WITHOUT_WORKERS", 1)

    def end(done, total):
        if done == 17:
            for worker in tuple(cluster.workers.values()):
                cluster.sync(worker.close)

    with started(2) as cluster, Client(cluster, set_as_default=False) as client:
        with pytest.raises(ClusterStopped, match=r"no worker of the Dask scheduler at .* is left"):
            limit_curves(problem, ROUNDS, method="scaffold", cluster=client, keep=keep, progress=end)
    told = []
    again = limit_curves(problem, ROUNDS, method="scaffold", keep=keep, progress=lambda done, _: told.append(done))
    assert told[0] == 10  # Round 10 is the last round that was kept.
    assert again.to_dict() == limit_curves(problem, ROUNDS, method="scaffold").to_dict()


def test_a_cluster_without_workers_or_a_scheduler_is_said():
    with started(0) as cluster, Client(cluster, set_as_default=False) as client:
        with pytest.raises(ClusterStopped, match="has no workers; start some: dask worker ADDRESS"):
            limit_curves(images(), ROUNDS, cluster=client)
    with pytest.raises(ClusterStopped, match=r"the connection to .* is lost"):
        limit_curves(images(), ROUNDS, cluster=client)


def test_too_little_memory_is_said_before_the_work(two_workers, monkeypatch):
    monkeypatch.setattr(remote_tiles, "available", lambda: 1e6)
    said = r"the rows of tiles on .* takes 1\.3 MB of memory and 1 MB are available; n up to \d+ would fit; more mach"
    with pytest.raises(TooLittleMemory, match=said):
        kernel_regime(data.sphere(n=500, d=8), SMALL_STEPS, matrix_free="float64", cluster=two_workers)
    regime = kernel_regime(data.sphere(n=300, d=8), SMALL_STEPS, matrix_free=True, cluster=two_workers)
    assert regime.tiles.dtype == "float64"
    with started(2, memory_limit="1MB") as cluster, Client(cluster, set_as_default=False) as client:
        with pytest.raises(TooLittleMemory, match=r"the rows of tiles on the worker inproc://.* and 0 B are available"):
            kernel_regime(data.sphere(n=300, d=8), SMALL_STEPS, matrix_free="float64", cluster=client)


def test_float32_is_taken_where_float64_does_not_fit_the_workers(two_workers, monkeypatch):
    n, d = 400, 4
    halves = 2 * (tiles.tiles_room(n, "float64") + 16 * n * d)  # what two workers need besides their rows
    room = [tiles.tiles_bytes(n, dtype) - tiles.tiles_room(n, dtype) + halves for dtype in ("float64", "float32")]
    monkeypatch.setattr(remote_tiles, "available", lambda: sum(room) / 2)
    regime = kernel_regime(data.sphere(n=n, d=d), SMALL_STEPS, matrix_free=True, cluster=two_workers)
    assert regime.tiles.dtype == "float32"


def test_a_worker_of_other_code_is_refused(two_workers, monkeypatch):
    monkeypatch.setattr(remote_tiles, "_worker", lambda: SimpleNamespace(code="other"))
    with pytest.raises(ClusterStopped, match="has another version of ntkfl or numpy; give it the same checkout"):
        limit_curves(images(), ROUNDS, cluster=two_workers)

    def broken():
        raise ModuleNotFoundError("No module named 'ntkfl'")

    monkeypatch.setattr(remote_tiles, "_worker", broken)
    with pytest.raises(ClusterStopped, match="cannot begin: ModuleNotFoundError: No module named 'ntkfl'; give"):
        limit_curves(images(), ROUNDS, cluster=two_workers)


def test_what_a_kernel_is_refused_for_comes_from_the_workers(two_workers):
    x = np.random.default_rng(0).standard_normal((40, 3))

    def uneven(x, z):
        return x @ (np.ones_like(x) if z is None else z).T

    def broken(x, z):
        raise KeyError("a kernel of mine")

    with pytest.raises(ValueError, match="the kernel is not symmetric"):
        DaskTiles.on(two_workers, uneven, x)
    with pytest.raises(ClusterStopped, match="a worker cannot compute its rows: KeyError: 'a kernel of mine'"):
        DaskTiles.on(two_workers, broken, x)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"matrix_free": False}, "a cluster with matrix_free = False"),
        ({"matrix_free": "auto"}, "a cluster with matrix_free = 'auto'"),
        ({"matrix_free": True, "memmap": "tiles.bin"}, "and a cluster, and tiles are in one place; leave out one"),
    ],
)
def test_a_cluster_is_for_tiles_in_memory(how, said, two_workers):
    with pytest.raises(ValueError, match=said):
        kernel_regime(images(), SMALL_STEPS, cluster=two_workers, **how)


DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", [gram.infinite, gram.deep])
@pytest.mark.parametrize("n", [1, 11, 12, 50])
def test_entries_products_and_bounds_are_those_of_tiles_here(device, dtype, kernel, n):
    rng = np.random.default_rng(n)
    x, v = rng.standard_normal((n, 5)), rng.standard_normal((n, 3))
    here, there = Tiles.of(kernel, x, dtype), DeviceTiles.on(torch.device(device), kernel, x, dtype)
    rows, columns = rng.permutation(n)[: n // 2 + 1], rng.permutation(n)
    assert np.array_equal(there[np.ix_(rows, columns)], here[np.ix_(rows, columns)])
    assert np.array_equal(there[rows], here[rows]) and there.dtype == here.dtype
    assert (there.norm, there.error, there.trace, there.largest_own) == (
        here.norm,
        here.error,
        here.trace,
        here.largest_own,
    )
    exact = (np.asarray(here).astype(np.longdouble) @ v).astype(float)
    assert np.linalg.norm(there @ v - exact) <= there.product_rounding * np.linalg.norm(v)
    assert here.product_rounding <= 2 * there.product_rounding < 1e-10 * there.norm


@pytest.mark.parametrize("device", DEVICES)
def test_runs_on_a_device_are_those_here(device):
    problem = data.digits(60, target="one-hot", clients=5, partition="shards:2", test=20)
    methods = [("fedavg", {}), ("scaffold", {}), ("fedavgm", {"momentum": 0.5})]
    here, there = (
        several_limit_curves(problem, [1, 5, 30], methods, tiles="float32", device=on) for on in (None, device)
    )
    for curve, other in zip(here, there, strict=True):
        for point, same in zip(curve.points, other.points, strict=True):
            assert same.bounded and abs(point.residual.value - same.residual.value) < 1e-13
            assert (point.train.value, point.test.value) == (same.train.value, same.test.value)


def test_a_device_that_is_not_there_or_too_small_is_refused(monkeypatch, tmp_path):
    problem, setup = ragged([30, 40]), Setup(eta_local=0.1)
    for how, said in (
        ({"device": "cuda:77"}, "cuda:77"),
        ({"device": "tpu"}, "device is 'tpu'; it must be cpu, cuda or cuda:NUMBER"),
        ({"device": "cpu", "memmap": tmp_path / "t"}, "and device is 'cpu', and tiles are in one place"),
        ({"device": "cpu", "matrix_free": False}, "device is 'cpu' with matrix_free = False"),
        ({"device": "cpu", "gram": gram.nystroem(problem.x, 5)}, "needs no tiles"),
    ):
        with pytest.raises(ValueError, match=said):
            kernel_regime(problem, setup, **({"matrix_free": True} | how))
    monkeypatch.setattr(remote_tiles, "room_on", lambda device, n, dtype: 1000.0)
    with pytest.raises(memory.TooLittleMemory, match=r"the tiles on cpu takes .* and 1 kB are available; n up to"):
        kernel_regime(problem, setup, matrix_free="float32", device="cpu")
