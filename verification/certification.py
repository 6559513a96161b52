"""Certificates of a network, by whichever of several theorems proves the fastest contraction.

The module also looks for the smallest width, or the largest step, at which a network has a certificate.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bounds.certificates import THEOREMS, Theorem, a_priori_certificate, expected, require_memory
from ntkfl.algorithm1.simulation import checkpoints
from ntkfl.initialisation import draw
from ntkfl.messages import refusing
from ntkfl.problem import Problem, Setup, Weights, require_problem, require_setup
from verification.judging.boundary import boundary

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
        certificate: the function that computes the certificate; default the a-priori convergence certificate
            fl-ntk/B.3-certificate.

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
    """The certificate with the fastest contraction, of several theorems' certificates for one network.

    If no theorem certifies the network, the result that comes closest to a certificate is returned.

    Args:
        problem: data with scalar labels.
        setup: sizes and steps.
        weights: the network to certify.
        round_: how many rounds the network has been trained, for the report; default 0.
        theorems: functions that compute a certificate, by the name of the theorem. Default: fl-ntk/X.11 (the a-priori
            certificate) and fl-ntk/X.12 (the stable-step certificate).
    """
    candidates = [Certified(name, round_, theorem(problem, setup, weights)) for name, theorem in theorems.items()]
    certified = [c for c in candidates if c.certificate.certified]
    if certified:
        return min(certified, key=lambda c: c.certificate.residual_factor)
    return min(reversed(candidates), key=lambda c: c.certificate.shortfall)


def certify_after(problem: Problem, setup: Setup, rounds: int, every: int) -> Certified:
    """The best certificate of the network after `rounds` rounds of training, as `checkpoints` trains it.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps; its rounds are not used.
        rounds: how many rounds the network is trained before it is certified.
        every: rounds between checkpoints; the last bits of the weights depend on it.
    """
    require_memory(problem)
    for reached, weights in checkpoints(problem, setup, rounds, every):
        if reached == rounds:
            return best_certificate(problem, setup, weights, reached)
    raise AssertionError("the last checkpoint is the one after all rounds")


def watch(problem: Problem, setup: Setup, rounds: int, every: int) -> Iterator[tuple[int, float, Certified | None]]:
    """Train a network until it is certified at a checkpoint, and yield the result of every checkpoint.

    Each result is (round, quotient, certificate or None). The theorem fl-ntk/X.12 has a radius R and a number `need`,
    which bounds the movement of the neurons. If rounds contract and `need` is at most R, then by this theorem every
    neuron stays within R of its start. The quotient is need / R, computed in float64; it is infinite if float64 shows
    no contraction. The certificate is computed in ball arithmetic, whose errors are proved. The certificate is computed
    at the last checkpoint, and at checkpoints where the numbers in float64 suggest that X.12 certifies.

    Args:
        problem: data with scalar labels.
        setup: sizes, seed and steps; its rounds are not used.
        rounds: the largest number of rounds that are trained.
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


SMALLEST_WIDTH, LARGEST_WIDTH = 16, 2**20
SMALLEST_STEP, LARGEST_STEP = 1e-6, 64.0  # in units of 1 / (largest squared norm of a row), the scale of stable steps
FIRST_WIDTH = 4096
RATIO = 1.1  # the search ends when a certified value and a failing value differ by this factor

# called with a value that was tried and its certificate; None if training overflowed
Progress = Callable[[float, Certified | None], None]


@refusing({"fails": "it is failing_value"})
@dataclass(frozen=True)
class Searched:
    """Where a search ended.

    Args:
        setup: the setting with the smallest width (or largest step) at which the network is certified. If no certified
            value was found, the setting with the largest width (or smallest step) that was tried without overflow.
        certified: the certificate with this setup.
        failing_value: the next smaller width (or larger step) that was tried, at which the network is not certified.
            None if the end of the range was reached.
    """

    setup: Setup
    certified: Certified
    failing_value: float | None


def searched(
    problem: Problem,
    setup: Setup,
    after: int = 0,
    every: int = 50,
    *,
    steps: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """The smallest width, or the largest eta_local, at which the network is certified after a given number of rounds.

    Args:
        problem: data with scalar labels.
        setup: the setting where the search begins; its other numbers do not change.
        after: how many rounds the network is trained before it is certified; default 0.
        every: rounds between checkpoints; the last bits of the weights depend on it. Default 50.
        steps: look for the largest eta_local instead of the smallest width.
        progress: a function that is called with each value tried and its certificate; default None.

    Raises:
        FloatingPointError: training overflowed at every value.
    """
    certificates: list[tuple[Setup, Certified]] = []

    def certifies(value: float) -> bool:
        chosen = replace(setup, eta_local=value) if steps else replace(setup, width=round(value))
        certified: Certified | None = None
        with suppress(FloatingPointError):
            certified = certify_after(problem, chosen, after, every)
            certificates.append((chosen, certified))
        if progress:
            progress(chosen.eta_local if steps else chosen.width, certified)
        return certified is not None and certified.certificate.certified

    unit = 1 / float((problem.x**2).sum(axis=1).max())
    edge = boundary(
        certifies,
        setup.eta_local if steps else min(setup.width, FIRST_WIDTH),
        harder=2.0 if steps else 0.5,
        easiest=SMALLEST_STEP * unit if steps else LARGEST_WIDTH,
        hardest=LARGEST_STEP * unit if steps else SMALLEST_WIDTH,
        ratio=RATIO,
    )
    if not certificates:
        raise FloatingPointError("training overflowed at every value tried; take smaller steps")
    certified = [pair for pair in certificates if pair[1].certificate.certified]
    best = min(certified or certificates[-1:], key=lambda pair: -pair[0].eta_local if steps else pair[0].width)
    return Searched(*best, edge.failed if steps or edge.failed is None else round(edge.failed))
