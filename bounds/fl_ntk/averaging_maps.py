"""FedProx, IMA and cyclic training in the kernel regime: the residual after T rounds by the map of a round."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.method_training import OTHER_METHODS, Training, engine_residuals, final_residuals
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.state_maps import (
    MAP,
    NOTHING,
    first,
    second,
    start,
    state_map,
)
from bounds.fl_ntk.x_1 import IDENTITY, MAP_SYMBOLS, RESPONSE, H, map_constants
from bounds.fl_ntk.x_14 import OF_PROX, PULL, mu, shares
from bounds.mutants import index_shifted, power, replaced, scaled
from bounds.statement import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.symbols import T, eta_global, eta_local, n

earlier = sp.MatrixSymbol("L", n, n)

FEDPROX = IDENTITY - eta_global * H * shares * OF_PROX
TURNS = IDENTITY + eta_global * RESPONSE * earlier
CYCLIC = IDENTITY - eta_global * H * TURNS**-1 * RESPONSE
HALVES = state_map(MAP / 2, MAP / 2, IDENTITY, NOTHING)  # of the last two models, of which the mean is sent out
AFTER = (
    FEDPROX**T * start,
    CYCLIC**T * start,
    (first.T + second.T) / 2 * HALVES ** (T - 1) * (first + second) * MAP * start,
)


def _trainings(case: FederatedRun) -> tuple[Training, ...]:
    rate = {"server_rate": case.setup.eta_global}
    return Training("fedprox", rate | {"mu": PULL}), Training("cyclic", rate), Training("fedavg", rate, window=2)


def _constants(case: FederatedRun) -> dict:
    size, owner = case.problem.n, case.problem.owner
    return map_constants(case, case.initial_gram) | {
        shares: np.diag(np.bincount(owner)[owner] / size),
        earlier: case.initial_gram * (owner[:, None] > owner),
        mu: PULL,
        first: np.eye(2 * size)[:, :size],
        second: np.eye(2 * size)[:, size:],
        start: engine_residuals(case, _trainings(case)[0])[:, :1],
        T: case.setup.rounds,
    }


STATEMENTS = (
    Statement(
        id="fl-ntk/averaging-maps",
        title="FedProx, cyclic training and IMA in the kernel regime: powers of a map",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "note on theorems beyond the papers, section A",
            note="FedProx and FedAvg under IMA with weights n_c/n. In cyclic training client c meets the residual that "
            "the clients before it have left: its coefficients m_c = g P_c (r - L m)_c, so that (I + g P L) m = g P r. "
            "IMA sends out the mean of the last two models, of one after the first round",
        ),
        hypotheses=(at_most(400), POSITIVE_SPECTRUM),
        forms={Form.REPAIRED: Claim(AFTER * 2, note="FedProx, cyclic, IMA")},
        constants=_constants,
        measure=lambda case: final_residuals(case, _trainings(case)),
        symbols=MAP_SYMBOLS
        | {
            shares: "n_c/n of each sample's client, on the diagonal",
            earlier: "H(0) between a client's samples and those of the clients before it",
            mu: "FedProx's pull",
            first: "takes r to the state (r, 0)",
            second: "takes the residual of the model before to the state (0, r)",
            start: "y(0) - y",
        },
        says_left="y(T) - y, T = 5, under each method: of the linearised network trained by the engine, and of the "
        "library's kernel regime",
        draws=(OTHER_METHODS,),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            power(eta_local, sp.Rational(1, 2)),
            index_shifted(T, 1),
            replaced(mu, 2 * mu, "twice the pull", Change.CONSTANT),
            replaced(earlier, 2 * earlier, "turns that count twice for those who follow", Change.FACTOR),
            replaced(second, 2 * second, "a window whose older model counts twice", Change.FACTOR),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/state-maps"),
    ),
)
