"""Train a network of any depth by Algorithm 1 (FL-NTK's form of FedAvg) until a certificate for training in any order
holds.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ntkfl import interruption
from ntkfl.algorithm1.simulation import in_legs, overflowed
from ntkfl.gram.finite_width import in_float64
from ntkfl.limit.convex_loss import SQUARES, ConvexLoss
from ntkfl.networks import simulate_network
from ntkfl.problem import Problem, Setup, finite_array
from ntkfl.smooth_networks.certificate import NetworkCertificate, require_memory
from ntkfl.smooth_networks.reading import layers_of
from ntkfl.smooth_networks.rounds import RoundsCertificate

if TYPE_CHECKING:
    from ntkfl.training.model import Model
    from ntkfl.training.models.wide_networks import WideNetwork

READOUT = "readout.weight"
Certificate = TypeVar("Certificate", bound=NetworkCertificate | RoundsCertificate)


def network_checkpoints(
    problem: Problem,
    setup: Setup,
    network: "WideNetwork",
    rounds: int,
    every: int,
    start: Mapping[str, Any] | None = None,
    loss: ConvexLoss = SQUARES,
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The parameters at the start and after every `every` rounds of Algorithm 1.

    Args:
        problem: data.
        setup: width, seed and steps; its rounds are not used.
        network: a fully connected network ("fc") of `ntkfl.networks.wide`.
        rounds: number of rounds to train.
        every: rounds between checkpoints.
        start: parameters by name, with setup.width neurons in the last hidden layer; default: the parameters that
            setup.seed draws.
        loss: the loss whose sum is trained on; default squares.

    Raises:
        ValueError: rounds below 0, or every below 1, or a start that does not fit; also as `simulate_network`.
            TooLittleMemory: the certificate of such a network does not fit. FloatingPointError: the run overflowed.
    """
    problem = problem.one_axis()
    outputs = require_network_memory(problem, network, setup.width)
    model = network.model(problem.x.shape[1:], setup.width, outputs)

    def train(params: Mapping[str, Any], leg: range) -> Mapping[str, Any]:
        if loss is not SQUARES:
            return _trained_on(loss, problem, setup, model, params, leg)
        run = simulate_network(problem, replace(setup, rounds=len(leg)), model, params, keep=[len(leg)])
        return run.weights[len(leg)]

    if start is None:
        return in_legs(model.initial(setup.seed), train, rounds, every)
    layers_of(network, start, problem.d)  # refuses names or shapes of other networks
    given = {name: finite_array(name, value) for name, value in start.items()}
    if outputs is None and len(given[READOUT]) == 1:
        given[READOUT] = given[READOUT].reshape(-1)
    return in_legs(given, train, rounds, every)


def _trained_on(
    loss: ConvexLoss, problem: Problem, setup: Setup, model: "Model", params: Mapping[str, Any], leg: range
) -> Mapping[str, Any]:
    """The parameters after this number of rounds of Algorithm 1 on the sum of the losses.

    Raises:
        FloatingPointError: the run overflowed.
    """
    import torch

    x, server = torch.tensor(problem.x), in_float64(params)
    for reached in leg:
        interruption.check()
        total = {name: torch.zeros_like(value) for name, value in server.items()}
        for members in problem.members:
            own = server
            for _ in range(setup.local_steps):
                own = {name: value.detach().requires_grad_() for name, value in own.items()}
                outputs = model.outputs(own, x[torch.as_tensor(members)])
                slope = torch.as_tensor(loss.slope(outputs.detach().numpy(), problem.y[members]))
                gradients = torch.autograd.grad(outputs, list(own.values()), slope)
                own = {
                    name: value.detach() - setup.eta_local * gradient
                    for (name, value), gradient in zip(own.items(), gradients, strict=True)
                }
            total = {name: total[name] + own[name] - server[name] for name in server}
        rate = setup.eta_global / problem.n_clients
        server = {name: value + rate * total[name] for name, value in server.items()}
        if not all(bool(torch.isfinite(value).all()) for value in server.values()):
            raise overflowed(setup, reached)
    return {name: np.asarray(value) for name, value in server.items()}


def require_network_memory(problem: Problem, network: "WideNetwork", width: int) -> int | None:
    """Refuse a certificate that is too large for memory, before weights are drawn.

    Returns the number of outputs, or None for a network with one output.

    Args:
        problem: data.
        network: the network.
        width: number of neurons of a layer.

    Raises:
        TooLittleMemory: the certificate does not fit.
    """
    problem = problem.one_axis()
    outputs = problem.y.shape[1] if problem.y.ndim > 1 else None
    require_memory(_sizes(network, problem.x.shape[1:], width, outputs), problem)
    return outputs


def _sizes(
    network: "WideNetwork", shape: tuple[int, ...], width: int, outputs: int | None
) -> Iterator[tuple[int, int, int]]:
    """The arguments of `require_memory` for the network's weights, before they are drawn."""
    pixels = prod(shape) if network.kind == "conv" else 1  # pixels of one channel
    for name, size in network.sizes(shape, width, outputs).items():
        if name.endswith(".weight"):
            entries, convolves = prod(size), len(size) > 2
            neurons = size[0] if len(size) > 1 else 1
            yield entries, neurons * (pixels if convolves else 1), (entries + pixels * entries // neurons) * convolves


def watch_network(
    problem: Problem,
    setup: Setup,
    network: "WideNetwork",
    rounds: int,
    every: int,
    certify: Callable[["WideNetwork", Mapping[str, Any], Problem], Certificate],
    start: Mapping[str, Any] | None = None,
    loss: ConvexLoss = SQUARES,
) -> Iterator[tuple[int, Certificate]]:
    """Train until the certificate of a checkpoint holds; yields the number of each round that was tried, and its
    certificate.

    Args:
        problem: data.
        setup: steps and seed, as in `network_checkpoints`.
        network: the network that is trained.
        rounds: the largest number of rounds to train.
        every: rounds between checkpoints.
        certify: `certify_network`, or `certify_rounds` with its setup.
        start: parameters to train on from, as in `network_checkpoints`; default: the parameters that setup.seed draws.
        loss: the loss whose sum is trained on; default squares.
    """
    for reached, params in network_checkpoints(problem, setup, network, rounds, every, start, loss):
        certificate = certify(network, params, problem)
        yield reached, certificate
        if certificate.certified:
            return
