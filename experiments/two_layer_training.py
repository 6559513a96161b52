"""Training both layers of a two-layer ReLU classifier, alone or by federated averaging, with the connectivity loss."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.connectivity.network import TwoLayer, between, combination

NODES = (0.5 - np.sqrt(0.15), 0.5, 0.5 + np.sqrt(0.15))  # the 3-point Gauss rule on [0, 1]
SHARES = (5 / 18, 8 / 18, 5 / 18)


def initial_network(h: int, features: int, outputs: int, rng: np.random.Generator) -> TwoLayer:
    """Gaussian layers of variance 2/features and 1/h."""
    readout = rng.standard_normal((outputs, h)) / np.sqrt(h)
    return TwoLayer(rng.standard_normal((h, features)) * np.sqrt(2 / features), readout)


def trained(
    network: TwoLayer,
    x: Float[np.ndarray, "n l"],
    classes: np.ndarray,
    *,
    steps: int,
    rate: float,
    anchor: TwoLayer | None = None,
    weight: float = 0.0,
) -> TwoLayer:
    """The network after gradient descent on cross-entropy + weight * the loss's mean on the segment to the anchor.

    `anchor` and `weight` are FedGuCci's in Eq (8). The integral over alpha is by Gauss's rule of three points, with the
    exact gradient of that sum.

    Raises:
        ValueError: a weight without an anchor. FloatingPointError: the rate is too large.
    """
    if weight and anchor is None:
        raise ValueError(f"weight is {weight:g} and there is no anchor; the connectivity loss needs one")
    for _ in range(steps):
        interruption.check()
        hidden, readout = _gradient(network, x, classes)
        if weight and anchor is not None:
            for alpha, share in zip(NODES, SHARES, strict=True):
                parts = _gradient(between(network, anchor, alpha), x, classes)
                hidden, readout = (
                    total + weight * share * alpha * part for total, part in zip((hidden, readout), parts, strict=True)
                )
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is reported below
            moved = network.hidden - rate * hidden, network.readout - rate * readout
        if not all(np.isfinite(part).all() for part in moved):
            raise FloatingPointError(f"training overflowed: a rate of {rate:g} is too large")
        network = TwoLayer(*moved)
    return network


def federated_clients(
    start: TwoLayer,
    clients: Sequence[tuple[Float[np.ndarray, "n l"], np.ndarray]],
    *,
    rounds: int,
    local_steps: int,
    rate: float,
    weight: float = 0.0,
) -> tuple[TwoLayer, list[TwoLayer]]:
    """The anchor and the clients' networks of the last of these rounds of federated averaging.

    In each round every client trains the server's network on its own data, and the server averages the clients'
    networks, each weighted by its share of the data. The anchor is the network at the start of the round.

    Raises:
        ValueError: no round. FloatingPointError: the rate is too large.
    Source: FedGuCci, Algorithm 1 with N = 1 anchor and every client in every round.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; it must be a positive integer")
    total, networks = sum(len(x) for x, _ in clients), [start]
    for round_ in range(rounds):
        anchor = combination(networks, [len(x) / total for x, _ in clients]) if round_ else start
        networks = [
            trained(anchor, x, classes, steps=local_steps, rate=rate, anchor=anchor, weight=weight)
            for x, classes in clients
        ]
    return anchor, networks


def _gradient(network: TwoLayer, x: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the mean cross-entropy, for both layers."""
    sides = x @ network.hidden.T
    active = np.maximum(sides, 0)
    outputs = active @ network.readout.T
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(x)), classes] -= 1
    shares /= len(x)
    return ((shares @ network.readout) * (sides > 0)).T @ x, shares.T @ active
