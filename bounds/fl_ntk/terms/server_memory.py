"""Rounds with server momentum: symbols of the second moments, their values, and the left sides."""

import numpy as np
import sympy as sp

from bounds.fl_ntk.cases.random_round import EQUAL, RandomRound
from bounds.fl_ntk.terms.round_map import MAP_SYMBOLS, H, map_constants
from bounds.symbols import n
from ntkfl.estimate import Estimate

s, b, noise = sp.Symbol("s", positive=True), sp.Symbol("b", nonnegative=True), sp.Symbol("sigma_w", nonnegative=True)
# 1 on the samples of each client, on the diagonal
OWN = tuple(sp.MatrixSymbol(f"E_{c + 1}", n, n) for c in range(len(EQUAL)))
C, X, U = (sp.MatrixSymbol(name, n, n) for name in ("C", "X", "U"))
SYMBOLS = (
    MAP_SYMBOLS
    | {
        H: "Gram matrix H_inf",
        C: "E r r' after a round, over every choice",
        X: "E r u' after a round, over every choice",
        U: "E u u' after a round, over every choice",
        s: "clients in a round",
        b: "momentum of the server",
        noise: "standard deviation of the noise on every weight of the mean",
    }
    | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)}
)
LEFT = ("E r(2) r(2)^T",) * 2 + ("E r(2) u(2)^T", "E u(2) u(2)^T")


def of_momentum(case: RandomRound) -> dict:
    """The values of SYMBOLS."""
    moments = zip((C, X, U), case.moments_of(case.with_memory(1)), strict=True)
    values, owner = map_constants(case, case.gram) | dict(moments), case.problem.owner
    values |= {e: np.diag((owner == c).astype(float)) for c, e in enumerate(OWN)}
    return values | {s: case.cohort, b: Estimate.exact(case.momentum), noise: Estimate.exact(case.noise)}


def measure(case: RandomRound) -> tuple[Estimate, ...]:
    """After two rounds: E r r' over every choice and by the library, E r u' and E u u' over every choice."""
    return case.after_two(case.with_memory(2), case.library(case.setup.eta_global))
