"""Times of exact barriers, of a grid of 10,001 points and of a plane, and errors of the first two in long precision.

Run `python -m experiments.benchmarks.barrier` (about three minutes; `--units 512` for the smaller case alone).
"""

import argparse
import resource

import numpy as np

from experiments.benchmarks.candidate import timed
from ntkfl.connectivity import TwoLayer, loss_barrier, plane_losses, plane_through
from ntkfl.connectivity.paths.long_sums import LONG

SAMPLES, FEATURES, GRID = 1000, 20, 10_001
CACHED = 2**15  # gates computed at once: they stay in the processor's cache


def case(units: int, count: int = 2, seed: int = 0) -> tuple[list[TwoLayer], np.ndarray, np.ndarray]:
    """Permuted copies of one network on Gaussian inputs, with labels near its outputs: a barrier inside the segment."""
    rng = np.random.default_rng(seed)
    net = TwoLayer(rng.normal(size=(units, FEATURES)), rng.normal(size=units) / np.sqrt(units))
    orders = [np.arange(units), *(rng.permutation(units) for _ in range(count - 1))]
    x = rng.normal(size=(SAMPLES, FEATURES)) / np.sqrt(FEATURES)
    networks = [TwoLayer(net.hidden[order], net.readout[order]) for order in orders]
    return networks, x, net.outputs(x) + 0.1 * rng.normal(size=SAMPLES)


def on_grid(networks: list[TwoLayer], x: np.ndarray, y: np.ndarray, points: int) -> tuple[float, float]:
    """The largest excess of the mean squared error on a grid, and its alpha, in float64.

    The products U x are computed once; samples are taken in blocks that stay in the cache for all alphas.
    """
    first, second = networks
    rows = max(1, CACHED // len(first.hidden))
    alphas = np.linspace(0, 1, points)
    total = np.zeros(points)
    readouts = second.readout + alphas[:, None] * (first.readout - second.readout)
    for begin in range(0, len(x), rows):
        block, labels = x[begin : begin + rows], y[begin : begin + rows]
        start = block @ second.hidden.T
        rise = block @ first.hidden.T - start
        gate = np.empty_like(start)
        for k, alpha in enumerate(alphas):
            np.multiply(rise, alpha, out=gate)
            gate += start
            np.maximum(gate, 0, out=gate)
            residual = gate @ readouts[k] - labels
            total[k] += residual @ residual
    losses = total / len(x)
    excess = losses - (1 - alphas) * losses[0] - alphas * losses[-1]
    best = int(np.argmax(excess))
    return float(excess[best]), float(alphas[best])


def in_long_precision(networks: list[TwoLayer], x: np.ndarray, y: np.ndarray, alpha: float) -> float:
    """The excess at one alpha, by a plain evaluation in long precision that shares nothing with the pieces."""
    first, second = networks

    def loss(weight: np.longdouble) -> np.longdouble:
        hidden = weight * first.hidden.astype(LONG) + (1 - weight) * second.hidden.astype(LONG)
        readout = weight * first.readout.astype(LONG) + (1 - weight) * second.readout.astype(LONG)
        gate = np.maximum(x.astype(LONG) @ hidden.T, 0)
        return (((gate * readout).sum(axis=1) - y) ** 2).mean()

    at = LONG(alpha)
    return float(loss(at) - at * loss(LONG(1)) - (1 - at) * loss(LONG(0)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, nargs="*", default=[512, 4096], help="hidden units of the barrier's cases")
    for units in parser.parse_args().units:
        networks, x, y = case(units)
        exact, clock, processor = timed(loss_barrier, networks[0], networks[1], x, y)
        true = in_long_precision(networks, x, y, exact.at)
        (value, at), grid_clock, grid_processor = timed(on_grid, networks, x, y, GRID)
        off = float(exact.value.value) - true
        print(f"barrier, {SAMPLES} samples, {units} units, {exact.pieces} pieces")
        print(
            f"  exact  {exact.value.value:.15g} ± {exact.value.error:.1e} at {exact.at:.12g}: {clock:.2f} s, ", end=""
        )
        print(f"processor {processor:.2f} s; off a long-precision evaluation there by {off:.1e}")
        print(f"  grid   {value:.15g} at {at:.6g}, {GRID} points: {grid_clock:.2f} s, processor {grid_processor:.2f} s")
        print(
            f"  the grid misses {true - value:.1e} and takes {grid_processor / processor:.1f} times the processor time"
        )
    networks, x, y = case(1024, count=3)
    s, t = plane_through([network.vector() for network in networks]).axes(51)
    _, clock, processor = timed(plane_losses, networks, x, y, s, t)
    print(f"plane, 51 x 51 points, {SAMPLES} samples, 1024 units: {clock:.2f} s, processor {processor:.2f} s")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
