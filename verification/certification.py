"""Certify concrete networks: as drawn or after some rounds, by the theorem that says most, or as soon as one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bounds.fl_ntk.certificate import a_priori_certificate
from bounds.fl_ntk.stable_step_certificate import expected, stable_step_certificate
from ntkfl.algorithm1 import simulate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights

Result = TypeVar("Result")
Theorem = Callable[[Problem, Setup, Weights], Any]  # a record: certified, residual_factor, shortfall, to_dict, str

THEOREMS: Mapping[str, Theorem] = {
    "fl-ntk/X.11 (B.3')": a_priori_certificate,
    "fl-ntk/X.12": stable_step_certificate,
}


@dataclass(frozen=True)
class Certified:
    """What the best of several theorems finds for the network after `round` rounds, as its record `found`."""

    theorem: str
    round: int
    found: Any


def certify(
    problem: Problem,
    setup: Setup,
    weights: Weights | None = None,
    certificate: Callable[[Problem, Setup, Weights], Result] = a_priori_certificate,  # type: ignore[assignment]
) -> Result:
    """What a certificate finds for the network with these weights, before any training.

    Args:
        weights: hidden (width, d) and signs (width,). Default: those that `simulate` draws from setup.seed.
        certificate: the theorem to run; default the a-priori convergence certificate fl-ntk/B.3-certificate.

    Raises:
        ValueError: what the certificate refuses.
    """
    if weights is None:
        weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    return certificate(problem, setup, weights)


def best_certificate(
    problem: Problem, setup: Setup, weights: Weights, round_: int = 0, theorems: Mapping[str, Theorem] = THEOREMS
) -> Certified:
    """The certificate of fastest contraction; if none certifies, the one that came closest."""
    found = [Certified(name, round_, theorem(problem, setup, weights)) for name, theorem in theorems.items()]
    certified = [c for c in found if c.found.certified]
    if certified:
        return min(certified, key=lambda c: c.found.residual_factor)
    return min(reversed(found), key=lambda c: c.found.shortfall)


def checkpoints(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, Weights]]:
    """The network of setup.seed and, trained in legs of `every` rounds, those after every leg up to `rounds`.

    The last leg is shorter where `every` does not divide `rounds`. Legs are part of what reproduces the weights to the
    last bit: each starts from the float64 weights that the one before has left.

    Raises:
        ValueError: rounds negative or every not positive. FloatingPointError: as `simulate`.
    """
    if rounds < 0 or every < 1:
        raise ValueError(f"rounds is {rounds} and every is {every}; they must be at least 0 and at least 1")
    weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    yield 0, weights
    for reached in range(0, rounds, every):
        leg = min(every, rounds - reached)
        run = simulate(problem, replace(setup, rounds=leg), weights, keep=[leg], movements=False)
        weights = Weights(run.weights[leg], weights.signs)
        yield reached + leg, weights


def certify_after(problem: Problem, setup: Setup, rounds: int, every: int) -> Certified:
    """The best certificate of the network after this many rounds; see `checkpoints`."""
    for reached, weights in checkpoints(problem, setup, rounds, every):
        if reached == rounds:
            return best_certificate(problem, setup, weights, reached)
    raise AssertionError("the last checkpoint is the one after all rounds")


def watch(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, float, Certified | None]]:
    """Train on until a checkpoint certifies: (round, need / R expected in float64, what balls found there or None).

    Balls judge a checkpoint only where float64 expects the theorem X.12 to certify, and the last one.
    """
    for reached, weights in checkpoints(problem, setup, rounds, every):
        hope = expected(problem, setup, weights)
        shortfall = hope.need / hope.radius if hope.rate < 1 else float("inf")
        judged = None
        if hope.promising or reached == rounds:
            judged = best_certificate(problem, setup, weights, reached)
        yield reached, shortfall, judged
        if judged is not None and judged.found.certified:
            return
