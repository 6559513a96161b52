"""The exact barrier between two networks, against the largest excess of the loss on a grid of points between them."""

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload

FEATURES, GRID = 20, 10_001
CACHED = 2**15  # number of hidden activations computed at once, few enough to stay in the processor's cache


def permuted_copies(units: int, samples: int, count: int = 2):
    """Permuted copies of one network, with Gaussian inputs and labels near the network's outputs.

    The copies fit the labels equally well, so that a barrier lies between them.
    """
    from ntkfl.connectivity import TwoLayer

    rng = np.random.default_rng(0)
    net = TwoLayer(rng.normal(size=(units, FEATURES)), rng.normal(size=units) / np.sqrt(units))
    orders = [np.arange(units), *(rng.permutation(units) for _ in range(count - 1))]
    x = rng.normal(size=(samples, FEATURES)) / np.sqrt(FEATURES)
    networks = [TwoLayer(net.hidden[order], net.readout[order]) for order in orders]
    return networks, x, net.outputs(x) + 0.1 * rng.normal(size=samples)


def _ours(sizes: Sizes) -> Call:
    from ntkfl.connectivity import loss_barrier

    (first, second), x, y = permuted_copies(sizes["units"], sizes["n"])
    return lambda: loss_barrier(first, second, x, y).value.value


def _on_grid(sizes: Sizes) -> Call:
    """Evaluate the loss on a grid of points between the networks, each given by the weight alpha of one network.

    The products of hidden weights and inputs are computed once. Samples are taken in blocks that stay in the cache for
    all values of alpha.
    """
    (first, second), x, y = permuted_copies(sizes["units"], sizes["n"])
    rows, alphas = max(1, CACHED // len(first.hidden)), np.linspace(0, 1, GRID)
    readouts = second.readout + alphas[:, None] * (first.readout - second.readout)

    def work():
        total = np.zeros(GRID)
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
        return (losses - (1 - alphas) * losses[0] - alphas * losses[-1]).max()

    return work


def _in_long_precision(sizes: Sizes) -> Call:
    """The excess of the loss at the alpha of the exact barrier, evaluated plainly in long precision.

    This evaluation shares no code with the computation of the exact barrier.
    """
    from ntkfl.connectivity import loss_barrier
    from ntkfl.rounding import LONG

    (first, second), x, y = permuted_copies(sizes["units"], sizes["n"])
    at = LONG(loss_barrier(first, second, x, y).at)

    def loss(weight: np.longdouble) -> np.longdouble:
        hidden = weight * first.hidden.astype(LONG) + (1 - weight) * second.hidden.astype(LONG)
        readout = weight * first.readout.astype(LONG) + (1 - weight) * second.readout.astype(LONG)
        gate = np.maximum(x.astype(LONG) @ hidden.T, 0)
        return (((gate * readout).sum(axis=1) - y) ** 2).mean()

    return lambda: float(loss(at) - at * loss(LONG(1)) - (1 - at) * loss(LONG(0)))


WORKLOAD = Workload(
    name="exact-barrier",
    says="barrier of the squared loss between permuted copies of a network of so many units, n samples of 20 features",
    sizes=({"n": 1000, "units": 512}, {"n": 1000, "units": 4096}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate(f"grid of {GRID} points", _on_grid, tolerance=1e-6),
        Candidate("one evaluation in long precision", _in_long_precision),
    ),
    along="units",
    tolerance=1e-11,
)
