"""Maps of a state (residual, memory), and the residual after T rounds from powers of these maps."""

from typing import Any

import numpy as np
import sympy as sp

from bounds.fl_ntk.terms.local_methods import OF_PROX, beta, mu, shares
from bounds.fl_ntk.terms.round_map import IDENTITY, RESPONSE, D, H, start
from bounds.symbols import K, N, T, eta_global, eta_local, n

first, second = sp.MatrixSymbol("E_1", 2 * n, n), sp.MatrixSymbol("E_2", 2 * n, n)

NOTHING = sp.ZeroMatrix(n, n)


def product(*factors: Any) -> sp.MatrixExpr:
    """The product of state maps. Unlike `*`, which takes seconds, it does not expand the factors."""
    return sp.MatMul(*factors).doit(deep=False)


def state_map(now: Any, kept: Any, remembers: Any, remembered: Any) -> sp.MatrixExpr:
    """The map [[now, kept], [remembers, remembered]] of (r, memory)."""
    parts = ((first, now, first), (first, kept, second), (second, remembers, first), (second, remembered, second))
    return sp.MatAdd(*(product(to, part, taken.T) for to, part, taken in parts if part != NOTHING))


SERVER = eta_global * H * shares * RESPONSE
MAP = IDENTITY - SERVER  # M
LENGTH = eta_local * K
LATER = D**-1 * (LENGTH * IDENTITY - RESPONSE)  # eta_l times the sum over k < K of the responses to k steps
CONTROL = IDENTITY - (RESPONSE + LATER * H / N) / LENGTH

HEAVY_BALL = state_map((1 + beta) * IDENTITY - SERVER, -beta * IDENTITY, IDENTITY, NOTHING)
NESTEROV = state_map((1 + beta) * MAP, -beta * MAP, IDENTITY, NOTHING)
SCAFFOLD = state_map(
    IDENTITY - eta_global / N * H * RESPONSE, -eta_global * LENGTH / N * H * CONTROL, RESPONSE / LENGTH, CONTROL
)
FEDDYN = state_map(
    IDENTITY - 2 / N * H * OF_PROX, H / (N * mu) - 2 / N * H * OF_PROX, -mu * OF_PROX, IDENTITY - mu * OF_PROX
)
TWICE, ONCE = (first + second) * start, first * start  # the starts (r_0, r_0) and (r_0, 0)
SEEN = (1 + beta) * first.T - beta * second.T  # the extrapolated point of Nesterov's step
AFTER = {
    name: product(seen, sp.MatPow(whole, T), begun)
    for name, seen, whole, begun in (
        ("heavy ball", first.T, HEAVY_BALL, TWICE),
        ("Nesterov", SEEN, NESTEROV, TWICE),
        ("SCAFFOLD", first.T, SCAFFOLD, ONCE),
        ("FedDyn", first.T, FEDDYN, ONCE),
    )
}


def halves(size: int) -> dict:
    """The values of `first` and `second`, which put a vector of this size into the first or second half of a state."""
    return {first: np.eye(2 * size)[:, :size], second: np.eye(2 * size)[:, size:]}
