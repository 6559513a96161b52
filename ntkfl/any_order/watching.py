"""Train until a round certifies for any order: by Algorithm 1, or with tuned momentum at the server until then."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ntkfl.algorithm1.checkpoints import checkpoints
from ntkfl.algorithm1.simulation import simulate
from ntkfl.any_order.certificate import LaterModels
from ntkfl.initialisation import draw
from ntkfl.limit.algorithm1_limit import algorithm1_limit
from ntkfl.problem import Problem, Setup, Weights

Found = TypeVar("Found", bound=LaterModels)


def tuned_momentum(problem: Problem, setup: Setup) -> tuple[float, float]:
    """Server step and momentum (eta_g, b) of the fastest heavy ball at infinite width, at these local steps.

    With nu the eigenvalues of H P: eta_g / N = (2 / (sqrt nu_1 + sqrt nu_n))^2 and b = ((sqrt k - 1)/(sqrt k + 1))^2,
    k = nu_n / nu_1; a round then contracts by sqrt b.

    Args:
        problem: data with scalar labels.
        setup: eta_local and local_steps.

    Returns: eta_g and b.

    Raises:
        ValueError: local steps beyond the stability limit, where no server step helps.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a server step that is replaced here
        slowest, fastest = np.sqrt(np.maximum(algorithm1_limit(problem, setup).nu, 0))[[0, -1]]
    if not slowest > 0:
        raise ValueError(f"eta_local {setup.eta_local:g} is beyond the stability limit: no server step contracts")
    step = float(problem.n_clients * (2 / (slowest + fastest)) ** 2)
    return step, float(((fastest - slowest) / (fastest + slowest)) ** 2)


def momentum_checkpoints(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, Weights]]:
    """The network of setup.seed, and those after every `every` rounds with the tuned heavy ball at the server.

    Args:
        problem: data with scalar labels.
        setup: width, sigma, seed, eta_local and local_steps; not its server step.
        rounds: how many are trained in all.
        every: rounds between checkpoints.

    Raises:
        ValueError: as `tuned_momentum` and `checkpoints`. FloatingPointError: as `simulate`.
    """
    if rounds < 0 or every < 1:
        raise ValueError(f"rounds is {rounds} and every is {every}; they must be at least 0 and at least 1")
    step, momentum = tuned_momentum(problem, setup)
    weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    yield 0, weights
    one, before = replace(setup, rounds=1, eta_global=step), weights.hidden
    for reached in range(1, rounds + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # momentum is stable up to twice the step that FedAvg is
            run = simulate(problem, one, weights, keep=[1], movements=False)
        after = run.weights[1] + momentum * (weights.hidden - before)
        before, weights = weights.hidden, Weights(after, weights.signs)
        if reached % every == 0 or reached == rounds:
            yield reached, weights


def watch_any_order(
    problem: Problem,
    setup: Setup,
    rounds: int,
    every: int,
    certify: Callable[[Problem, Weights], Found],
    *,
    momentum: bool = False,
) -> Iterator[tuple[int, Found]]:
    """Train on until a checkpoint certifies: each round looked at, and what is found there.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps; its rounds are not used.
        rounds: rounds trained at most.
        every: rounds from one look to the next.
        certify: `certify_any_order`, or `certify_method` with its setup and method.
        momentum: at the server, tuned, until a round certifies; what is certified does not have it.
    """
    for reached, weights in (momentum_checkpoints if momentum else checkpoints)(problem, setup, rounds, every):
        certificate = certify(problem, weights)
        yield reached, certificate
        if certificate.certified:
            return


def certify_after(
    problem: Problem,
    setup: Setup,
    rounds: int,
    every: int,
    certify: Callable[[Problem, Weights], Found],
    momentum: bool = False,
) -> Found:
    """What is found after so many rounds, trained as by `watch_any_order`.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps.
        rounds: after which the certificate is made.
        every: rounds of a leg, on which the last bits of the weights depend.
        certify: as of `watch_any_order`.
        momentum: at the server, tuned as by `tuned_momentum`.
    """
    for _, weights in (momentum_checkpoints if momentum else checkpoints)(problem, setup, rounds, every):
        last = weights
    return certify(problem, last)
