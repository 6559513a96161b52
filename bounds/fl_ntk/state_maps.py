"""Methods that remember, in the kernel regime: the residual after T rounds is a power of a map of the state."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import Training
from bounds.fl_ntk.terms.method_maps import method_maps, start
from bounds.fl_ntk.x_1 import IDENTITY, RESPONSE, D, H
from bounds.fl_ntk.x_14 import MOMENTUM, OF_PROX, PULL, beta, mu, shares
from bounds.mutants import replaced
from bounds.statement import Change
from bounds.symbols import K, N, T, eta_global, eta_local, n

first, second = sp.MatrixSymbol("E_1", 2 * n, n), sp.MatrixSymbol("E_2", 2 * n, n)

NOTHING = sp.ZeroMatrix(n, n)


def product(*factors: Any) -> sp.MatrixExpr:
    """Their product, the factors as they are: `*` would multiply them out anew, which takes seconds here."""
    return sp.MatMul(*factors).doit(deep=False)


def state_map(now: Any, kept: Any, remembers: Any, remembered: Any) -> sp.MatrixExpr:
    """The map [[now, kept], [remembers, remembered]] of (r, memory).

    Args:
        now, kept: to r, from r and from the memory. remembers, remembered: to the memory, from the same.
    """
    parts = ((first, now, first), (first, kept, second), (second, remembers, first), (second, remembered, second))
    return sp.MatAdd(*(product(to, part, taken.T) for to, part, taken in parts if part != NOTHING))


SERVER = eta_global * H * shares * RESPONSE
MAP = IDENTITY - SERVER  # M
LENGTH = eta_local * K
LATER = D**-1 * (LENGTH * IDENTITY - RESPONSE)  # sum of the responses of fewer steps
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
SEEN = (1 + beta) * first.T - beta * second.T  # the point that Nesterov's step extrapolates to
AFTER = {
    name: product(seen, sp.MatPow(each, T), begun)
    for name, seen, each, begun in (
        ("heavy ball", first.T, HEAVY_BALL, TWICE),
        ("Nesterov", SEEN, NESTEROV, TWICE),
        ("SCAFFOLD", first.T, SCAFFOLD, ONCE),
        ("FedDyn", first.T, FEDDYN, ONCE),
    )
}


def _trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate = {"server_rate": case.setup.eta_global}
    return (
        Training("fedavgm", rate | {"momentum": MOMENTUM}),
        Training("fedavgm", rate | {"momentum": MOMENTUM, "nesterov": True}),
        Training("scaffold", rate),
        Training("feddyn", {"alpha": PULL}),
    )


def halves(size: int) -> dict:
    """What puts a vector of this size into the first, and into the second half of a state."""
    return {first: np.eye(2 * size)[:, :size], second: np.eye(2 * size)[:, size:]}


def _values(case: FederatedRun) -> dict:
    return {beta: MOMENTUM, mu: PULL} | halves(case.problem.n)


STATEMENTS = (
    method_maps(
        "state-maps",
        "Server momentum, SCAFFOLD and FedDyn in the kernel regime: powers of a map of the state",
        note="heavy ball on (r(t), r(t-1)), from (r_0, r_0); Nesterov on the same of the points before they are "
        "extrapolated, which is not what clients get and what is evaluated; SCAFFOLD (option II, equal weights) on "
        "(r, b), the control of client c being -Phi_c'b_c, and FedDyn (equal weights, as the training engine runs "
        "it) on (r, d), its dual being Phi_c'd_c, both from (r_0, 0). Server momentum takes weights n_c/n",
        after=AFTER,
        trainings=_trainings,
        values=_values,
        symbols={
            beta: "momentum of the server",
            mu: "FedDyn's pull",
            first: "takes r to the state (r, 0)",
            second: "takes what is remembered to the state (0, m)",
        },
        mutants=(
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(mu, 2 * mu, "twice the pull", Change.CONSTANT),
            replaced(CONTROL, IDENTITY, "controls that keep what they were", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
