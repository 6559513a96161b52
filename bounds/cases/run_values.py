"""The values of the standard symbols on a run of Algorithm 1."""

from collections.abc import Callable
from typing import Any

import sympy as sp

from bounds.federated_run import FederatedRun
from bounds.symbols import K, N, T, eta_global, eta_local, kappa, lam, m, n, r0, rho, sigma, t
from ntkfl.estimate import Estimate


def condition_number(run: FederatedRun) -> Estimate:
    """Largest over smallest eigenvalue of H(0), certified."""
    lowest, highest = run.smallest_eigenvalue, run.largest_eigenvalue
    return Estimate.between(highest.lo / lowest.hi, highest.hi / lowest.lo, lowest.method, lowest.rigour)


VALUES: dict[sp.Symbol, Callable[[FederatedRun], Any]] = {
    n: lambda run: run.problem.n,
    N: lambda run: run.problem.n_clients,
    m: lambda run: run.setup.width,
    sigma: lambda run: run.setup.sigma,
    K: lambda run: run.setup.local_steps,
    T: lambda run: run.setup.rounds,
    eta_local: lambda run: run.setup.eta_local,
    eta_global: lambda run: run.setup.eta_global,
    rho: lambda run: run.rho,
    lam: lambda run: run.smallest_eigenvalue,
    kappa: condition_number,
    r0: lambda run: run.initial_residual,
    t: lambda run: run.rounds[1:],
}


def run_values(run: Any, *symbols: sp.Symbol) -> dict[sp.Symbol, Any]:
    """The values of these symbols: sizes and steps, lambda and kappa of H(0), |y - y(0)|, t = 1..T."""
    return {symbol: VALUES[symbol](run) for symbol in symbols}
