"""One round of the residual: the step rho, and the squared residual after it."""

from bounds.federated_run import FederatedRun
from bounds.symbols import K, N, eta_global, eta_local
from ntkfl.estimate import Estimate

STEP = eta_global * eta_local * K / N  # rho


def next_square(case: FederatedRun) -> Estimate:
    """|y - y(t+1)|^2 for t = 0..T-1."""
    return case.observed("residual_norm")[1:].squared()
