"""Proved bounds of the largest loss on many segments from one network, without a search for kinks."""

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.network import TwoLayer

INTERVALS = 32
ROUNDING = 1e-12  # relative to the terms of a loss: sums of some hundred terms lose less


def absolute_loss_bounds(
    start: TwoLayer, ends: Float[np.ndarray, "N S"], x: Float[np.ndarray, "n l"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """For each of N segments from one network, a lower and an upper bound of the largest mean absolute loss on it.

    The lower one is the largest loss on a grid. Between two neighbouring grid points the loss exceeds the larger of its
    two values there by at most the outputs' distance from their chord. A neuron with pre-activation z and readout
    weight v adds |change of z| / 4 times |change of v| to this distance, and times max |v| where z changes its sign.

    `ends` holds the parameters in the order of `TwoLayer.vector`.
    """
    hidden, readout = np.split(np.asarray(ends, float), [start.hidden.size], axis=1)
    hidden, readout = hidden.reshape(-1, *start.hidden.shape), readout[:, None]
    alpha = np.linspace(0, 1, INTERVALS + 1)[:, None, None, None]
    z_change, v_change = x @ (hidden - start.hidden).swapaxes(1, 2), readout - start.readout
    z, v = x @ start.hidden.T + alpha * z_change, start.readout + alpha * v_change
    losses = np.abs((v * np.maximum(z, 0)).sum(axis=-1) - y).mean(axis=-1)
    active = np.maximum(z[:-1], z[1:]) > 0
    turning = active & (np.minimum(z[:-1], z[1:]) < 0)
    bends = active * np.abs(v_change) / INTERVALS + turning * np.maximum(np.abs(v[:-1]), np.abs(v[1:]))
    off_chord = (bends * np.abs(z_change)).sum(axis=-1).mean(axis=-1) / (4 * INTERVALS)
    largest = np.maximum(np.abs(hidden), np.abs(start.hidden)), np.maximum(np.abs(readout), np.abs(start.readout))
    size = ((np.abs(x) @ largest[0].swapaxes(1, 2)) * largest[1]).sum(axis=-1).mean(axis=-1) + np.abs(y).mean()
    above = (np.maximum(losses[:-1], losses[1:]) + off_chord).max(axis=0)
    return losses.max(axis=0) - ROUNDING * size, above + ROUNDING * size
