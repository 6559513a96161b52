"""The benchmark's own ways of computing a barrier: a grid and long precision, against the exact one."""

import numpy as np

from experiments.benchmarks.barrier import case, in_long_precision, on_grid, timed
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.connectivity.network import between


def test_the_grid_is_that_of_plain_evaluations_and_lies_below_the_exact_barrier():
    networks, x, y = case(8)
    value, at = on_grid(networks, x, y, 21)
    alphas = np.linspace(0, 1, 21)
    losses = np.array([np.mean((between(*networks, a).outputs(x) - y) ** 2) for a in alphas])
    excess = losses - (1 - alphas) * losses[0] - alphas * losses[-1]
    assert np.isclose(value, excess.max(), rtol=1e-12) and at == alphas[np.argmax(excess)]
    exact, clock, processor = timed(loss_barrier, *networks, x, y)
    assert value < exact.value.value and clock > 0 and processor > 0
    assert exact.value.lo <= in_long_precision(networks, x, y, exact.at) <= exact.value.hi


def test_the_networks_are_permuted_copies():
    networks, x, _ = case(8, count=3)
    assert all(np.allclose(net.outputs(x), networks[0].outputs(x), rtol=1e-12) for net in networks)
    assert len({net.readout.tobytes() for net in networks}) == 3
