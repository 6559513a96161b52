"""FedProx and local momentum in the kernel regime: symbols, and the clients' responses to their residuals."""

import numpy as np
import sympy as sp

from bounds.fl_ntk.terms.round_map import IDENTITY, D, H
from bounds.symbols import K, eta_global, eta_local, n
from ntkfl.problem import Problem

PULL, MOMENTUM = 0.7, 0.6

mu, beta = sp.symbols("mu beta", positive=True)
shares = sp.MatrixSymbol("S", n, n)

DRAWN = D + mu * IDENTITY
OF_PROX = DRAWN**-1 * (IDENTITY - (IDENTITY - eta_local * DRAWN) ** K)
OF_MOMENTUM = eta_local * ((2 + beta) * IDENTITY - eta_local * D)
FEDPROX = IDENTITY - eta_global * H * shares * OF_PROX  # the round map of FedProx


def shares_of(problem: Problem) -> np.ndarray:
    """The value of `shares`, (n, n). Its diagonal has n_c/n for the client c of each sample."""
    return np.diag(np.bincount(problem.owner)[problem.owner] / problem.n)
