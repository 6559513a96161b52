"""The exact round map of FedAvg in the kernel regime: its symbols, and their values on a case."""

from typing import Any

import numpy as np
import sympy as sp

from bounds.cases.kernel_case import BITS, KernelCase
from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.symbols import K, N, T, eta_global, eta_local, n
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate

H = sp.MatrixSymbol("H", n, n)
D = sp.MatrixSymbol("D", n, n)  # the clients' blocks of H
start = sp.MatrixSymbol("r_0", n, 1)  # y(0) - y or y - y(0), as the statement says

IDENTITY = sp.Identity(n)
RESPONSE = D**-1 * (IDENTITY - (IDENTITY - eta_local * D) ** K)  # P
MAP_SYMBOLS = {H: "Gram matrix of the frozen patterns, H(0)", D: "the client blocks of H, zero elsewhere"}
ROUND_MAP = IDENTITY - eta_global / N * H * RESPONSE  # M
COEFFICIENTS = H**-1 * (IDENTITY - ROUND_MAP**T) * start  # c_T on the samples' features, start being y - y(0)
MOVEMENT = COEFFICIENTS.T * H * COEFFICIENTS  # how far training moves the network, squared


def map_constants(case: Any, h: Estimate | np.ndarray) -> dict:
    """The symbols of the round map of a Gram matrix H, (n, n): H, its client blocks, steps and counts."""
    owner = case.problem.owner
    return run_values(case, eta_local, eta_global, N, K) | {H: h, D: h * (owner[:, None] == owner)}


def exact_gram(case: KernelCase) -> Estimate:
    """H = L L^T of a case without a width, enclosed, (n, n)."""
    with precision(BITS):
        return enclosure(case.gram)


def residuals(case: FederatedRun) -> Estimate:
    """y(t) - y for t = 0..T, (n, T+1)."""
    off = case.observed("outputs") - case.problem.y
    return Estimate.stacked((off[t] for t in case.rounds), axis=1)
