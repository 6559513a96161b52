"""One round: the step rho, the residual after it, how the outputs change, and how far neurons move by then."""

import sympy as sp

from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.symbols import K, N, eta_global, eta_local, lam, m, n, r0, r_t
from ntkfl.estimate import Estimate

STEP = eta_global * eta_local * K / N  # rho
REACH = sp.sqrt(n) * r0 / (sp.sqrt(m) * lam)  # how far neurons move while the residual contracts, up to a constant


def next_square(case: FederatedRun) -> Estimate:
    """|y - y(t+1)|^2 for t = 0..T-1."""
    return case.observed("residual_norm")[1:].squared()


def run_constants(case: FederatedRun) -> dict:
    """n, N, K, the steps, and |y - y(t)| for t = 0..T-1."""
    return run_values(case, n, N, K, eta_local, eta_global) | {r_t: case.observed("residual_norm")[:-1]}


def output_changes(case: FederatedRun) -> Estimate:
    """|y(t+1) - y(t)| for t = 0..T-1."""
    outputs = case.observed("outputs")
    return (outputs[1:] - outputs[:-1]).norm(-1)


def constants(case: FederatedRun) -> dict:
    """n, m, K, eta_l, r_0 and lambda_min(H(0)) of a run."""
    return run_values(case, n, m, K, eta_local, r0, lam)
