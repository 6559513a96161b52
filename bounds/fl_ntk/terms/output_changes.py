"""How the outputs change in a round, and what bounds of it are made of."""

from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.symbols import K, N, eta_global, eta_local, n, r_t
from ntkfl.estimate import Estimate


def run_constants(case: FederatedRun) -> dict:
    """n, N, K, the steps, and |y - y(t)| for t = 0..T-1."""
    return run_values(case, n, N, K, eta_local, eta_global) | {r_t: case.observed("residual_norm")[:-1]}


def output_changes(case: FederatedRun) -> Estimate:
    """|y(t+1) - y(t)| for t = 0..T-1."""
    outputs = case.observed("outputs")
    return (outputs[1:] - outputs[:-1]).norm(-1)
