"""Compare tiles on a device with tiles in this process: `python docs/tiles_on_a_device.py cuda 8000 60000`.

The comparison takes some minutes. Tiles are blocks of the kernel matrix. For each number of samples, which are drawn
around ten centres and dealt to 100 clients, the script prints a line of JSON. The line has the device's seconds for the
build, for a product with ten columns, and for 100 rounds of three methods. Up to 10,000 samples this process computes
the same. The two results of a product or a residual then may differ by at most the sum of their error bounds. If they
differ by more, the exit status is 1. The script needs numpy, scipy, numba, torch, jaxtyping and python-flint.
"""

import argparse
import json
import time
from collections.abc import Sequence

import numpy as np

from ntkfl import Problem, gram
from ntkfl.exact_dynamics import device_named
from ntkfl.gram.remote_tiles import DeviceTiles
from ntkfl.gram.tiles import Tiles
from ntkfl.limit_curves import LimitCurves, several_limit_curves

FEATURES, CLASSES, CLIENTS, TIMES = 784, 10, 100, 10
BOTH_WAYS = 10_000  # largest number of samples for which this process computes the same
METHODS = [("fedavg", {}), ("scaffold", {}), ("fedavgm", {"momentum": 0.9})]


def drawn(n: int) -> Problem:
    """A problem of n unit rows around ten centres, with one-hot labels.

    The clients have nearly equal numbers of samples, and there are n/6 test samples.
    """
    rng = np.random.default_rng(0)
    centres, count = rng.standard_normal((CLASSES, FEATURES)), n + n // 6
    classes = rng.integers(0, CLASSES, count)
    x = centres[classes] + 2 * rng.standard_normal((count, FEATURES))
    x, y = x / np.linalg.norm(x, axis=1, keepdims=True), np.eye(CLASSES)[classes]
    return Problem(x[:n], y[:n], np.arange(n) % min(CLIENTS, n), x[n:], y[n:], name=f"{n} rows around ten centres")


def curves(problem: Problem, rounds: int, device: str | None) -> tuple[list[LimitCurves], float]:
    """The runs of all methods, and their seconds on the clock."""
    begun = time.perf_counter()
    runs = several_limit_curves(problem, [1, rounds], METHODS, tiles="float32", device=device)
    return runs, time.perf_counter() - begun


def measured(n: int, name: str, rounds: int) -> dict:
    """The times on the device with n samples, and the differences from this process, divided by the bounds of both."""
    problem, device = drawn(n), device_named(name)
    assert device is not None
    v = np.random.default_rng(1).standard_normal((n, CLASSES))
    begun = time.perf_counter()
    there = DeviceTiles.on(device, gram.infinite, problem.x, "float32")
    build, seconds = time.perf_counter() - begun, []
    for _ in range(TIMES):
        begun = time.perf_counter()
        image = there @ v
        seconds.append(time.perf_counter() - begun)
    product = float(np.median(seconds))
    row = {"n": n, "device": str(device), "build": build, "product": product}
    row["gigabytes_a_second"] = sum(slab.nbytes for slab in there.slabs) / product / 1e9
    if n <= BOTH_WAYS:
        here = Tiles.of(gram.infinite, problem.x, "float32")
        allowed = (here.product_rounding + there.product_rounding) * np.linalg.norm(v)
        row["product_off"] = float(np.linalg.norm(here @ v - image) / allowed)
        del here
    del there
    runs, row["runs"] = curves(problem, rounds, name)
    row["rounds"] = rounds
    for run in runs:
        row[run.method] = run.points[-1].to_dict()
    if n <= BOTH_WAYS:
        same, row["runs_here"] = curves(problem, rounds, None)
        pairs = [
            (a.residual, b.residual)
            for x, y in zip(runs, same, strict=True)
            for a, b in zip(x.points, y.points, strict=True)
        ]
        row["residual_off"] = max(float(abs(a.value - b.value) / (a.error + b.error)) for a, b in pairs)
    return row


def main(words: Sequence[str] | None = None) -> int:
    """Measure the sizes that the command line names. Returns 1 if device and process differ, otherwise 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", help="cuda, cuda:1 or cpu")
    parser.add_argument("samples", nargs="+", type=int)
    parser.add_argument("--rounds", type=int, default=100)
    given, differs = parser.parse_args(words), False
    for n in given.samples:
        row = measured(n, given.device, given.rounds)
        differs |= max(row.get("product_off", 0.0), row.get("residual_off", 0.0)) > 1
        print(json.dumps(row), flush=True)
    return int(differs)


if __name__ == "__main__":
    raise SystemExit(main())
