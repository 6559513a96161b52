"""Local momentum, local steps of different sizes, and clients with different numbers of steps, in the kernel regime."""

import numpy as np
import sympy as sp

from bounds import Change
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import Training
from bounds.fl_ntk.premises import TWO_LOCAL_STEPS
from bounds.fl_ntk.terms.local_methods import MOMENTUM, OF_MOMENTUM, beta, shares
from bounds.fl_ntk.terms.method_maps import method_maps
from bounds.fl_ntk.terms.round_map import IDENTITY, D, H, start
from bounds.mutants import replaced
from bounds.symbols import T, eta_global, eta_local, n

FACTORS = (1.0, 0.25)

factor = sp.Symbol("phi", positive=True)
second, normalised = sp.MatrixSymbol("E", n, n), sp.MatrixSymbol("S_nova", n, n)


def _after() -> tuple[sp.MatrixExpr, ...]:
    """The residual after T rounds of each method."""
    schedule = eta_local * (1 + factor) * IDENTITY - factor * eta_local**2 * D
    uneven = eta_local * IDENTITY + second * (eta_local * IDENTITY - eta_local**2 * D)
    return (
        (IDENTITY - eta_global * H * shares * OF_MOMENTUM) ** T * start,
        (IDENTITY - eta_global * H * shares * schedule) ** T * start,
        (IDENTITY - eta_global * H * shares * uneven) ** T * start,
        (IDENTITY - H * normalised * uneven) ** T * start,
    )


def _client_steps(case: FederatedRun) -> tuple[int, ...]:
    """1, 2, 1, 2, ..."""
    return tuple(1 + client % 2 for client in range(case.problem.n_clients))


def _trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate, uneven = {"server_rate": case.setup.eta_global}, _client_steps(case)
    return (
        Training("fedavg", rate, momentum=MOMENTUM),
        Training("fedavg", rate, step_factors=FACTORS),
        Training("fedavg", rate, client_steps=uneven),
        Training("fednova", {}, client_steps=uneven),
    )


def _values(case: FederatedRun) -> dict:
    size, owner = case.problem.n, case.problem.owner
    sizes, steps = np.bincount(owner), np.array(_client_steps(case))
    return {
        normalised: np.diag((sizes @ steps / size * sizes / steps / size)[owner]),
        second: np.diag((steps[owner] == 2).astype(float)),
        beta: MOMENTUM,
        factor: FACTORS[1],
    }


STATEMENTS = (
    method_maps(
        "local-steps",
        "Local momentum, schedules and clients with unequal steps in the kernel regime",
        note="there are two local steps, so that a client's response f(q) is a polynomial of degree 1. With unequal "
        "steps, clients 0, 2, ... take only one step. FedNova moves by sum p_c K_c times sum (p_c / K_c) Delta_c",
        methods=("momentum", "a schedule", "unequal steps", "FedNova with these"),
        after=_after,
        trainings=_trainings,
        values=_values,
        symbols={
            normalised: "n_c/n times sum_b p_b K_b over K_c, on the diagonal",
            second: "1 for samples whose client takes a second step, on the diagonal",
            beta: "momentum of the clients",
            factor: "size of the second step over that of the first",
        },
        mutants=(
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(factor, 1, "steps of one size", Change.FACTOR),
            replaced(second, IDENTITY, "two steps of every client", Change.FACTOR),
            replaced(normalised, shares, "FedNova that does not divide by the steps", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/averaging-maps"),
        hypotheses=(TWO_LOCAL_STEPS,),
    ),
)
