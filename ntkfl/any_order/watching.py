"""Training until the any-order certificate holds, by Algorithm 1 (FL-NTK's form of FedAvg) or with tuned momentum at
the server.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar

import numpy as np

from ntkfl import interruption
from ntkfl.algorithm1.simulation import checkpoints, in_legs, overflowed, simulate
from ntkfl.any_order.certificate import LaterModels, without_biases
from ntkfl.connectivity.network import AffineTwoLayer, TwoLayer
from ntkfl.initialisation import draw
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.messages import labels_differ
from ntkfl.problem import Problem, Setup, Weights, require_features

Network: TypeAlias = Weights | TwoLayer | AffineTwoLayer
Found = TypeVar("Found", bound=LaterModels)


def tuned_momentum(problem: Problem, setup: Setup) -> tuple[float, float]:
    """The server step eta_g and the momentum b for which the heavy-ball method is fastest at infinite width, with these
    local steps.

    Let nu_1 be the smallest and nu_n the largest eigenvalue of H P, where one round of FedAvg maps a residual r to (I -
    (eta_g / N) H P) r. Then eta_g / N = (2 / (sqrt nu_1 + sqrt nu_n))^2 and b = ((sqrt k - 1)/(sqrt k + 1))^2, where k
    = nu_n / nu_1. A round then contracts by sqrt b.

    Args:
        problem: data with scalar labels.
        setup: eta_local and local_steps.

    Returns: eta_g and b.

    Raises:
        ValueError: local steps beyond the stability limit, where no server step helps.
    """
    slowest, fastest = np.sqrt(np.maximum(algorithm1_limit(problem, setup).nu, 0))[[0, -1]]
    if not slowest > 0:
        raise ValueError(f"eta_local {setup.eta_local:g} is beyond the stability limit: no server step contracts")
    step = float(problem.n_clients * (2 / (slowest + fastest)) ** 2)
    return step, float(((fastest - slowest) / (fastest + slowest)) ** 2)


def momentum_checkpoints(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, Weights]]:
    """The network of setup.seed, at the start and after every `every` rounds with tuned momentum at the server.

    Args:
        problem: data with scalar labels.
        setup: width, sigma, seed, eta_local and local_steps; its server step is not used.
        rounds: number of rounds to train.
        every: rounds between checkpoints.

    Raises:
        ValueError: as `tuned_momentum` and `checkpoints`. FloatingPointError: as `simulate`.
    """
    step, momentum = tuned_momentum(problem, setup)
    alone = replace(setup, rounds=1, eta_global=step)

    def train(state: tuple[Weights, np.ndarray], leg: range) -> tuple[Weights, np.ndarray]:
        weights, before = state
        for _ in leg:
            # with momentum, server steps are stable up to twice the largest stable step of FedAvg
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                run = simulate(problem, alone, weights, keep=[1], movements=False)
            after = run.weights[1] + momentum * (weights.hidden - before)
            before, weights = weights.hidden, Weights(after, weights.signs)
        return weights, before

    start = draw(setup.width, problem.d, setup.seed, setup.sigma)
    for reached, (weights, _) in in_legs((start, start.hidden), train, rounds, every):
        yield reached, weights


def loss_checkpoints(
    problem: Problem, setup: Setup, loss: ConvexLoss, rounds: int, every: int, start: Network | None = None
) -> Iterator[tuple[int, Network]]:
    """The network at the start and after every `every` rounds of Algorithm 1 on the sum of the losses.

    Hidden weights and hidden biases are trained; the readout and the biases of the outputs are not trained.

    Args:
        problem: data, with as many labels for each sample as the network has outputs.
        setup: width, sigma, seed and steps.
        loss: the loss of an output and its label.
        rounds: number of rounds to train.
        every: rounds between checkpoints.
        start: the network to train on from; default: the network of setup.seed, which has one output.

    Raises:
        ValueError: rounds below 0, every below 1, labels of another number than outputs. FloatingPointError: the run
            overflowed.
    """
    given = draw(setup.width, problem.d, setup.seed, setup.sigma) if start is None else start
    data, plain, _ = without_biases(problem, given)
    require_features(data, plain.hidden.shape[1])
    readout = np.atleast_2d(plain.signs / np.sqrt(len(plain.hidden)) if isinstance(plain, Weights) else plain.readout)
    labels = problem.y.reshape(problem.n, -1)
    if len(readout) != labels.shape[1]:
        raise ValueError(labels_differ(len(readout), problem.name, labels.shape[1]))
    shift = given.output_bias if isinstance(given, AffineTwoLayer) and given.output_bias is not None else 0.0

    def train(hidden: np.ndarray, leg: range) -> np.ndarray:
        for reached in leg:
            interruption.check()
            total = np.zeros_like(hidden)
            for members in problem.members:
                x, own = data.x[members], hidden
                for _ in range(setup.local_steps):
                    z = x @ own.T
                    slope = loss.slope(np.maximum(z, 0) @ readout.T + shift, labels[members])
                    own = own - setup.eta_local * ((z >= 0) * (slope @ readout)).T @ x
                total += own - hidden
            hidden = hidden + setup.eta_global / problem.n_clients * total
            if not np.isfinite(hidden).all():
                raise overflowed(setup, reached)
        return hidden

    legs = in_legs(plain.hidden, train, rounds, every)
    return ((reached, _with_hidden(given, hidden)) for reached, hidden in legs)


def _with_hidden(network: Network, hidden: np.ndarray) -> Network:
    """The network whose form without biases (`without_biases`) has these hidden weights."""
    if isinstance(network, Weights):
        return Weights(hidden, network.signs)
    if isinstance(network, AffineTwoLayer) and network.bias is not None:
        return replace(network, hidden=hidden[:, :-1], bias=hidden[:, -1])
    return replace(network, hidden=hidden)


def trained_checkpoints(
    problem: Problem,
    setup: Setup,
    rounds: int,
    every: int,
    momentum: bool = False,
    loss: ConvexLoss = SQUARES,
    start: Network | None = None,
) -> Iterator[tuple[int, Network]]:
    """Checkpoints of Algorithm 1, on squares with or without tuned momentum, or on another loss without momentum.

    Args:
        problem: data; with scalar labels unless a start is given.
        setup: sizes, seed and steps.
        rounds: number of rounds to train.
        every: rounds between checkpoints.
        momentum: whether the server has tuned momentum; for squares only.
        loss: the loss of an output and its label; default squares.
        start: the network to train on from, without momentum; default: the network of setup.seed.

    Raises:
        ValueError: momentum with a start. Also as `loss_checkpoints`.
    """
    if momentum and start is not None:
        raise ValueError("momentum is tuned for networks that are drawn; leave it out, or the start")
    if loss is not SQUARES or start is not None:
        return loss_checkpoints(problem, setup, loss, rounds, every, start)
    return (momentum_checkpoints if momentum else checkpoints)(problem, setup, rounds, every)


def watch_any_order(
    problem: Problem,
    setup: Setup,
    rounds: int,
    every: int,
    certify: Callable[[Problem, Network], Found],
    *,
    momentum: bool = False,
    loss: ConvexLoss = SQUARES,
    start: Network | None = None,
) -> Iterator[tuple[int, Found]]:
    """Train until the certificate of a checkpoint holds; yields the number of each round that was tried, and its
    certificate.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps; its rounds are not used.
        rounds: the largest number of rounds to train.
        every: number of rounds between two attempts to certify.
        certify: `certify_any_order`, or `certify_method` with its setup and method.
        momentum: whether the server has tuned momentum until a certificate holds. The training that is certified has no
            momentum.
        loss: the loss of the training; default squares.
        start: the network to train on from, without momentum; default: the network of setup.seed.
    """
    for reached, weights in trained_checkpoints(problem, setup, rounds, every, momentum, loss, start):
        certificate = certify(problem, weights)
        yield reached, certificate
        if certificate.certified:
            return


def certify_after(
    problem: Problem,
    setup: Setup,
    rounds: int,
    every: int,
    certify: Callable[[Problem, Network], Found],
    *,
    momentum: bool = False,
    loss: ConvexLoss = SQUARES,
    start: Network | None = None,
) -> Found:
    """The certificate after the given number of rounds, trained as by `watch_any_order`.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps.
        rounds: number of rounds before the certificate.
        every: number of rounds that are computed in one call; the last bits of the weights depend on this number.
        certify: as in `watch_any_order`.
        momentum: whether the server has the momentum of `tuned_momentum`.
        loss: the loss of the training; default squares.
        start: as in `watch_any_order`; default None.
    """
    for _, weights in trained_checkpoints(problem, setup, rounds, every, momentum, loss, start):
        last = weights
    return certify(problem, last)
