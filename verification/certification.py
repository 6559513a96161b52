"""Certify a network as drawn, after some rounds, or at the first checkpoint that certifies, by the best theorem."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from bounds.certificates import THEOREMS, Theorem, a_priori_certificate, expected, require_memory
from ntkfl.algorithm1.simulation import checkpoints
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights, require_problem, require_setup

Result = TypeVar("Result")


@dataclass(frozen=True)
class Certified:
    """The best of several theorems' certificates for the network after `round` rounds, and its theorem."""

    theorem: str
    round: int
    certificate: Any


def certify(
    problem: Problem,
    setup: Setup,
    weights: Weights | None = None,
    certificate: Callable[[Problem, Setup, Weights], Result] = a_priori_certificate,  # type: ignore[assignment]
) -> Result:
    """The result of a certificate for the network with these weights, before any training.

    Args:
        problem: data with scalar labels.
        setup: sizes, steps, and the seed where weights are drawn.
        weights: hidden (width, d) and signs (width,). Default: the weights that `simulate` draws from setup.seed.
        certificate: the theorem to run; default the a-priori convergence certificate fl-ntk/B.3-certificate.

    Raises:
        ValueError: the certificate refuses the network.
    """
    require_problem(problem)
    require_setup(setup)
    if weights is None:
        weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    return certificate(problem, setup, weights)


def best_certificate(
    problem: Problem, setup: Setup, weights: Weights, round_: int = 0, theorems: Mapping[str, Theorem] = THEOREMS
) -> Certified:
    """The certificate with the fastest contraction; if no theorem certifies, the result that comes closest.

    Args:
        problem: data with scalar labels.
        setup: sizes and steps.
        weights: the network to certify.
        round_: how many rounds it has been trained, for the report; default 0.
        theorems: the theorems to try, by name; default X.11 and X.12.
    """
    candidates = [Certified(name, round_, theorem(problem, setup, weights)) for name, theorem in theorems.items()]
    certified = [c for c in candidates if c.certificate.certified]
    if certified:
        return min(certified, key=lambda c: c.certificate.residual_factor)
    return min(reversed(candidates), key=lambda c: c.certificate.shortfall)


def certify_after(problem: Problem, setup: Setup, rounds: int, every: int) -> Certified:
    """The best certificate of the network after this many rounds; see `checkpoints`.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps; its rounds are not used.
        rounds: trained before the certificate.
        every: rounds between checkpoints; the last bits of the weights depend on it.
    """
    require_memory(problem)
    for reached, weights in checkpoints(problem, setup, rounds, every):
        if reached == rounds:
            return best_certificate(problem, setup, weights, reached)
    raise AssertionError("the last checkpoint is the one after all rounds")


def watch(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, float, Certified | None]]:
    """Train until a checkpoint certifies; yields (round, required radius over R, certificate or None).

    R is the radius of theorem X.12, and the quotient is computed in float64. The certificate is computed in balls, at
    the last checkpoint and at checkpoints where float64 expects X.12 to certify.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps; its rounds are not used.
        rounds: trained at most.
        every: rounds between checkpoints.
    """
    require_memory(problem)
    for reached, weights in checkpoints(problem, setup, rounds, every):
        forecast = expected(problem, setup, weights)
        shortfall = forecast.need / forecast.radius if forecast.rate < 1 else float("inf")
        judged = None
        if forecast.promising or reached == rounds:
            judged = best_certificate(problem, setup, weights, reached)
        yield reached, shortfall, judged
        if judged is not None and judged.certificate.certified:
            return
