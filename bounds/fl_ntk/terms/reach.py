"""How far neurons move while the residual contracts, up to a constant, and the values of its symbols."""

import sympy as sp

from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.symbols import K, eta_local, lam, m, n, r0

REACH = sp.sqrt(n) * r0 / (sp.sqrt(m) * lam)


def constants(case: FederatedRun) -> dict:
    """n, m, K, eta_l, r_0 and lambda_min(H(0)) of a run."""
    return run_values(case, n, m, K, eta_local, r0, lam)
