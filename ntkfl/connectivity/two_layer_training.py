"""Training both layers of a two-layer ReLU classifier, alone or with the connectivity loss to an anchor."""

import numpy as np
from jaxtyping import Float, Int

from ntkfl import interruption
from ntkfl.connectivity.losses import CROSS_ENTROPY, checked_labels
from ntkfl.connectivity.network import TwoLayer, between, checked_inputs
from ntkfl.messages import require_size

NODES = (0.5 - np.sqrt(0.15), 0.5, 0.5 + np.sqrt(0.15))  # nodes and weights of the Gauss rule of three points on [0, 1]
SHARES = (5 / 18, 8 / 18, 5 / 18)


def draw_two_layer(units: int, features: int, outputs: int, rng: np.random.Generator) -> TwoLayer:
    """A random two-layer ReLU network.

    Args:
        units: number of hidden units, h.
        features: number of inputs, l.
        outputs: number of outputs, C.
        rng: numpy's random generator; the readout is drawn before the hidden weights.

    Returns: a network with N(0, 2/l) hidden weights and an N(0, 1/h) readout of shape (C, h).

    Raises:
        ValueError: one of the numbers is below 1.
    Source: for the hidden weights, He et al., arXiv:1502.01852.
    """
    for name, number in (("units", units), ("features", features), ("outputs", outputs)):
        require_size(name, number)
    readout = rng.standard_normal((outputs, units)) / np.sqrt(units)
    return TwoLayer(rng.standard_normal((units, features)) * np.sqrt(2 / features), readout)


def train_two_layer(
    network: TwoLayer,
    x: Float[np.ndarray, "n l"],
    y: Int[np.ndarray, " n"],
    *,
    steps: int,
    rate: float,
    anchor: TwoLayer | None = None,
    weight: float = 0.0,
) -> TwoLayer:
    """Gradient descent on cross-entropy, alone or with FedGuCci's connectivity loss to an anchor.

    The connectivity loss is the mean of the loss on the segment to the anchor. This mean is computed by a Gauss rule of
    three points.

    Args:
        network: the network at the start, with two outputs or more.
        x: inputs, shape (n, l).
        y: the class of each input, 0..C-1, shape (n,).
        steps: number of full-batch steps.
        rate: the learning rate, on the mean loss.
        anchor: a network of the same shape; default none.
        weight: beta, the factor of the connectivity loss; default 0.

    Returns: the network after the steps.

    Raises:
        ValueError: inputs, labels or the anchor do not fit, or there is a weight without an anchor.
            FloatingPointError: the rate is too large.
    Source: FedGuCci, Eq (8); fedgucci/F12.
    """
    x = checked_inputs(network, x)
    y = checked_labels(CROSS_ENTROPY, y, len(x), network.n_outputs)
    if weight and anchor is None:
        raise ValueError(f"weight is {weight:g} and there is no anchor; the connectivity loss needs one")
    for _ in range(steps):
        interruption.check()
        hidden, readout = _gradient(network, x, y)
        if weight and anchor is not None:
            for alpha, share in zip(NODES, SHARES, strict=True):
                parts = _gradient(between(network, anchor, alpha), x, y)
                hidden, readout = (
                    total + weight * share * alpha * part for total, part in zip((hidden, readout), parts, strict=True)
                )
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is reported after the steps
            moved = network.hidden - rate * hidden, network.readout - rate * readout
        if not all(np.isfinite(part).all() for part in moved):
            raise FloatingPointError(f"training overflowed: a rate of {rate:g} is too large")
        network = TwoLayer(*moved)
    return network


def _gradient(network: TwoLayer, x: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the mean cross-entropy with respect to the weights of both layers."""
    sides = x @ network.hidden.T
    active = np.maximum(sides, 0)
    outputs = active @ network.readout.T
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(x)), classes] -= 1
    shares /= len(x)
    return ((shares @ network.readout) * (sides > 0)).T @ x, shares.T @ active
