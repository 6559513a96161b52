"""A round of FedAvg: its step rho, the change of the outputs, and its exact map in the kernel regime."""

from typing import Any

import numpy as np
import sympy as sp

from bounds.cases.kernel_case import BITS, KernelCase
from bounds.federated_run import FederatedRun, run_values
from bounds.symbols import K, N, T, eta_global, eta_local, lam, m, n, r0, r_t
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate, Rigour

STEP = eta_global * eta_local * K / N  # rho
# a bound, up to a constant, on the movement of neurons while the residual contracts
REACH = sp.sqrt(n) * r0 / (sp.sqrt(m) * lam)

H = sp.MatrixSymbol("H", n, n)
D = sp.MatrixSymbol("D", n, n)  # the clients' blocks of H
start = sp.MatrixSymbol("r_0", n, 1)  # y(0) - y or y - y(0), as the symbols of each statement say

IDENTITY = sp.Identity(n)
RESPONSE = D**-1 * (IDENTITY - (IDENTITY - eta_local * D) ** K)  # P
MAP_SYMBOLS = {H: "Gram matrix of the frozen patterns, H(0)", D: "the client blocks of H, zero elsewhere"}
ROUND_MAP = IDENTITY - eta_global / N * H * RESPONSE  # M
# c_T, the coefficients on the samples' features, for start = y - y(0)
COEFFICIENTS = H**-1 * (IDENTITY - ROUND_MAP**T) * start
MOVEMENT = COEFFICIENTS.T * H * COEFFICIENTS  # the squared movement of the network by training

# Kernel, round map and labels as matrices of size s, for formulas in which n is a number.
size = sp.Symbol("s", positive=True)  # the size of the matrices, whose value is n
SIZED_LABELS = sp.MatrixSymbol("y", size, 1)
SIZED_H, SIZED_D, SIZED_IDENTITY, SIZED_MAP = (part.subs(n, size) for part in (H, D, IDENTITY, ROUND_MAP))


def times(factor: float, x: Estimate) -> Estimate:
    """x times a float whose error is at most four roundings."""
    return x * Estimate(factor, 4 * np.finfo(float).eps * abs(factor), "rounding bound", Rigour.ENCLOSED)


def map_constants(case: Any, h: Estimate | np.ndarray) -> dict:
    """The values of the symbols in the round map of a Gram matrix H, (n, n).

    The symbols are H, its client blocks, the step sizes and the counts.
    """
    owner = case.problem.owner
    return run_values(case, eta_local, eta_global, N, K) | {H: h, D: h * (owner[:, None] == owner)}


def exact_gram(case: KernelCase) -> Estimate:
    """H = L L^T of a case without a width, (n, n), as an enclosure."""
    with precision(BITS):
        return enclosure(case.gram)


def residuals(case: FederatedRun) -> Estimate:
    """y(t) - y for t = 0..T, (n, T+1)."""
    off = case.observed("outputs") - case.problem.y
    return Estimate.stacked((off[t] for t in case.rounds), axis=1)


def next_square(case: FederatedRun) -> Estimate:
    """|y - y(t+1)|^2 for t = 0..T-1."""
    return case.observed("residual_norm")[1:].squared()


def run_constants(case: FederatedRun) -> dict:
    """The values of n, N, K, the step sizes, and |y - y(t)| for t = 0..T-1."""
    return run_values(case, n, N, K, eta_local, eta_global) | {r_t: case.observed("residual_norm")[:-1]}


def output_changes(case: FederatedRun) -> Estimate:
    """|y(t+1) - y(t)| for t = 0..T-1."""
    outputs = case.observed("outputs")
    return (outputs[1:] - outputs[:-1]).norm(-1)


def constants(case: FederatedRun) -> dict:
    """The values of n, m, K, eta_l, r_0 and lambda_min(H(0)) of a run."""
    return run_values(case, n, m, K, eta_local, r0, lam)
