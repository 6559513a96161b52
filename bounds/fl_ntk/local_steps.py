"""Local steps with momentum, of different sizes and of different numbers, in the kernel regime."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from bounds.cases.measured_regime import EPS
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.engine_residuals import MethodsDraw, engine_residuals
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.state_maps import ROUNDINGS, beta, shares, start
from bounds.fl_ntk.x_1 import IDENTITY, MAP_SYMBOLS, D, H, map_constants
from bounds.mutants import index_shifted, power, replaced, scaled
from bounds.statement import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.symbols import T, eta_global, eta_local, n
from ntkfl.estimate import Estimate
from ntkfl.problem import Setup

BETA, FACTORS = 0.6, (1.0, 0.25)

factor = sp.Symbol("phi", positive=True)
second, normalised = sp.MatrixSymbol("E", n, n), sp.MatrixSymbol("S_nova", n, n)

MOMENTUM = eta_local * (2 + beta) * IDENTITY - eta_local**2 * D
SCHEDULE = eta_local * (1 + factor) * IDENTITY - factor * eta_local**2 * D
UNEVEN = eta_local * IDENTITY + second * (eta_local * IDENTITY - eta_local**2 * D)
AFTER = (
    (IDENTITY - eta_global * H * shares * MOMENTUM) ** T * start,
    (IDENTITY - eta_global * H * shares * SCHEDULE) ** T * start,
    (IDENTITY - eta_global * H * shares * UNEVEN) ** T * start,
    (IDENTITY - H * normalised * UNEVEN) ** T * start,
)


def _client_steps(case: FederatedRun) -> tuple[int, ...]:
    """1, 2, 1, 2, ..."""
    return tuple(1 + client % 2 for client in range(case.problem.n_clients))


def _ways(case: FederatedRun) -> tuple[tuple[str, dict, dict[str, Any]], ...]:
    """Method, options and local steps of each part."""
    rate, uneven = {"server_rate": case.setup.eta_global}, {"client_steps": _client_steps(case)}
    return (
        ("fedavg", rate, {"momentum": BETA}),
        ("fedavg", rate, {"factors": FACTORS}),
        ("fedavg", rate, uneven),
        ("fednova", {}, uneven),
    )


def _constants(case: FederatedRun) -> dict:
    size, owner = case.problem.n, case.problem.owner
    sizes, steps = np.bincount(owner), np.array(_client_steps(case))
    method, options, how = _ways(case)[0]
    return map_constants(case) | {
        shares: np.diag(sizes[owner] / size),
        normalised: np.diag((sizes @ steps / size * sizes / steps / size)[owner]),
        second: np.diag((steps[owner] == 2).astype(float)),
        beta: BETA,
        factor: FACTORS[1],
        start: engine_residuals(case, method, options, **how)[:, :1],
        T: case.setup.rounds,
    }


def _measure(case: FederatedRun) -> tuple[Estimate, ...]:
    from ntkfl import kernel_regime  # torch is slow to load

    setup, h = case.setup, case.initial_gram
    alone = Setup(eta_local=setup.eta_local, local_steps=setup.local_steps)
    outputs = case.weights.outputs(case.problem.x)
    trained, known = [], []
    for method, options, how in _ways(case):
        trained.append(engine_residuals(case, method, options, **how)[:, setup.rounds])
        steps = {"step_factors" if name == "factors" else name: value for name, value in how.items()}
        regime = kernel_regime(case.problem, alone, h.value, method, options, **steps)
        value = -regime.residual(setup.rounds, outputs)
        error = ROUNDINGS * EPS * case.problem.n * (1 + float(np.abs(value).max())) + float(h.error.max())
        known.append(Estimate(value, np.full(value.shape, error), "rounding, generous"))
    return (*trained, *known)


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
        measure=_measure,
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
        draws=lambda options: (MethodsDraw(min(6, options.trials or 6)),),
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
