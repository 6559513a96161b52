"""Families with a region of low loss, whose size is d_epsilon, and the premise of Theorems 3.5 and 3.8 about it."""

from dataclasses import replace

import numpy as np

from bounds import Family, Hypothesis, Options
from bounds.fedgucci.cases.low_loss_cube import LowLossCube, low_loss_cubes
from ntkfl.connectivity.network import TwoLayer

CONNECTED = Hypothesis(
    "connected-to-anchor",
    "with probability 1 - delta at least, the loss stays below epsilon on the segment from a network to the anchor",
    lambda case: case.connected_share - (1 - case.delta),
)


def low_loss_families(options: Options, *, own: bool = False) -> tuple[Family, ...]:
    """Families of two small shapes; none for the user's data, whose dimension is too high to sample volumes.

    own: each network belongs to its own client.
    """
    if options.data is not None:
        return ()
    trials, count = min(options.trials or 5, 5), 3 if own else 2
    return tuple(low_loss_cubes(shape, 0.5, count=count, own=own, trials=trials) for shape in ((2, 2), (1, 4)))


# Cubes almost as wide as Omega, with a region of low loss so small that the right side is mostly below 1.
WIDE_CUBES = tuple(replace(low_loss_cubes(shape, 3.0, level=0.15), most=5) for shape in ((2, 2), (1, 3)))


def hardly_connected() -> LowLossCube:
    """One unit, f = v u, label 9/4: the losses of w = (1, 3) and (3, 1) are 3/4, far above epsilon = 10^-6."""
    anchor, x = TwoLayer(np.array([[1.5]]), np.array([1.5])), np.array([[1.0]])
    networks = tuple(TwoLayer(np.array([[u]]), np.array([4 - u])) for u in (1.0, 3.0))
    return LowLossCube(anchor, networks, 3.0, x, anchor.outputs(x), 0.1, epsilon=1e-6, domain=4.0)
