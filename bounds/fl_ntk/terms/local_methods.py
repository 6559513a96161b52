"""FedProx and local momentum in the kernel regime: their symbols, and how clients respond to their residuals."""

from __future__ import annotations

import sympy as sp

from bounds.fl_ntk.terms.round_map import IDENTITY, D, H
from bounds.symbols import K, eta_global, eta_local, n

PULL, MOMENTUM = 0.7, 0.6

mu, beta = sp.symbols("mu beta", positive=True)
shares = sp.MatrixSymbol("S", n, n)

DRAWN = D + mu * IDENTITY
OF_PROX = DRAWN**-1 * (IDENTITY - (IDENTITY - eta_local * DRAWN) ** K)
OF_MOMENTUM = eta_local * ((2 + beta) * IDENTITY - eta_local * D)
FEDPROX = IDENTITY - eta_global * H * shares * OF_PROX  # its round map
