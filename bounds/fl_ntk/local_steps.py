"""Local steps with momentum, of different sizes and of different numbers, in the kernel regime."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import OTHER_METHODS, Training, engine_residuals, final_residuals
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.state_maps import start
from bounds.fl_ntk.x_1 import IDENTITY, MAP_SYMBOLS, D, H, map_constants
from bounds.fl_ntk.x_14 import MOMENTUM, OF_MOMENTUM, beta, shares
from bounds.mutants import index_shifted, power, replaced, scaled
from bounds.statement import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.symbols import T, eta_global, eta_local, n

FACTORS = (1.0, 0.25)

factor = sp.Symbol("phi", positive=True)
second, normalised = sp.MatrixSymbol("E", n, n), sp.MatrixSymbol("S_nova", n, n)

SCHEDULE = eta_local * (1 + factor) * IDENTITY - factor * eta_local**2 * D
UNEVEN = eta_local * IDENTITY + second * (eta_local * IDENTITY - eta_local**2 * D)
AFTER = (
    (IDENTITY - eta_global * H * shares * OF_MOMENTUM) ** T * start,
    (IDENTITY - eta_global * H * shares * SCHEDULE) ** T * start,
    (IDENTITY - eta_global * H * shares * UNEVEN) ** T * start,
    (IDENTITY - H * normalised * UNEVEN) ** T * start,
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


def _constants(case: FederatedRun) -> dict:
    size, owner = case.problem.n, case.problem.owner
    sizes, steps = np.bincount(owner), np.array(_client_steps(case))
    return map_constants(case, case.initial_gram) | {
        shares: np.diag(sizes[owner] / size),
        normalised: np.diag((sizes @ steps / size * sizes / steps / size)[owner]),
        second: np.diag((steps[owner] == 2).astype(float)),
        beta: MOMENTUM,
        factor: FACTORS[1],
        start: engine_residuals(case, _trainings(case)[0])[:, :1],
        T: case.setup.rounds,
    }


STATEMENTS = (
    Statement(
        id="fl-ntk/local-steps",
        title="Local momentum, schedules and clients with unequal steps in the kernel regime",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "note on theorems beyond the papers, section A",
            note="two local steps, for which the response f(q) of a client is a polynomial of degree 1; clients 0, 2, "
            "... take one of them only in the unequal parts. FedNova goes sum p_c K_c times sum (p_c / K_c) Delta_c",
        ),
        hypotheses=(at_most(400), POSITIVE_SPECTRUM),
        forms={Form.REPAIRED: Claim(AFTER * 2, note="momentum, a schedule, unequal steps, FedNova with these")},
        constants=_constants,
        measure=lambda case: final_residuals(case, _trainings(case)),
        symbols=MAP_SYMBOLS
        | {
            shares: "n_c/n of each sample's client, on the diagonal",
            normalised: "the same times sum_c p_c K_c over K_c",
            second: "1 for samples whose client takes a second step, on the diagonal",
            beta: "momentum of the clients",
            factor: "of the second step's size",
            start: "y(0) - y",
        },
        says_left="y(T) - y, T = 5, under each: of the linearised network trained by the engine, and of the library's "
        "kernel regime",
        draws=(OTHER_METHODS,),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            power(eta_local, sp.Rational(1, 2)),
            index_shifted(T, 1),
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(factor, 1, "steps of one size", Change.FACTOR),
            replaced(second, IDENTITY, "two steps of every client", Change.FACTOR),
            replaced(normalised, shares, "FedNova that does not divide by the steps", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/averaging-maps"),
    ),
)
