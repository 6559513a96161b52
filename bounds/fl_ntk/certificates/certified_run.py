"""Runs with their certificate of B.3-certificate, and their measured residuals and movements."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import sympy as sp

from bounds import Hypothesis
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.certificates.certificate import a_priori_certificate
from bounds.fl_ntk.certificates.certificate_record import Certificate
from ntkfl.estimate import Estimate

rate = sp.Symbol("q", positive=True)  # 1 - beta rho lambda
need = sp.Symbol("need", positive=True)  # the bound of the certificate on the movement


def certified(says: str, certificate: Callable[[Any], Any]) -> Hypothesis:
    """The hypothesis that a case is certified."""
    return Hypothesis("certified", says, lambda case: 0.0 if certificate(case).certified else -1.0)


@lru_cache(maxsize=4)
def certificate(case: FederatedRun) -> Certificate:
    """The certificate of B.3-certificate from a run's initial weights. It is kept for later calls."""
    return a_priori_certificate(case.problem, case.setup, case.weights)


def residuals_and_movements(case: FederatedRun) -> tuple[Estimate, ...]:
    """|y - y(t)|^2 for t >= 1, and the movements of all global and of all local weight vectors."""
    return case.observed("residual_norm")[1:].squared(), case.observed("movement"), case.observed("local_movement")
