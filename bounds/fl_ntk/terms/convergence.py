"""What the theorems on convergence ask for, and the pace at which it goes by them."""

import sympy as sp

from bounds.symbols import K, N, delta, eta_global, eta_local, kappa, lam, n, r0

STEP = lam / (1000 * kappa * n**2 * K)  # eta_l, with the constant of the proof
STATED_WIDTH = n**4 * sp.log(n / delta) / lam**4  # the O-constant taken as 1
PROVED_WIDTH = sp.Integer(64_000_000) * n**3 * r0**2 / lam**4
PACE = N / (lam * eta_local * eta_global * K)  # rounds
