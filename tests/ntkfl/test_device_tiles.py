"""Tiles on a device of torch equal those of this process; the devices are the CPU and a GPU, if there is one."""

import numpy as np
import pytest
import torch
from linear_methods import ragged

from ntkfl import data, gram, kernel_regime, memory
from ntkfl.gram import remote_tiles, tiles
from ntkfl.gram.remote_tiles import DeviceTiles
from ntkfl.gram.tiles import Tiles
from ntkfl.limit_curves import several_limit_curves
from ntkfl.problem import Setup

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles are made small, so that matrices of tens of rows have several slabs of several tiles."""
    monkeypatch.setattr(tiles, "SLAB", 12)
    for module in (tiles, remote_tiles):
        monkeypatch.setattr(module, "TILE", 4)


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
