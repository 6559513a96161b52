"""Certify a concrete network: draw it if none is given, and run a certificate on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bounds.fl_ntk.certificate import a_priori_certificate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights

Result = TypeVar("Result")


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
