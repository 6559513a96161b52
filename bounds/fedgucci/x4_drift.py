"""X4 and client drift: the connectivity loss lengthens a client's way from the global model; by how much."""

from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fedgucci.cases.linear_case import BETA, NO_DECAY, SQUARED_LOSS, LinearCase, beta, small_case
from bounds.fedgucci.families.linear_families import linear_families
from bounds.fedgucci.families.rescaled import EXTRA
from bounds.mutants import power, replaced, scaled, sign_flipped

move = sp.Symbol("D", positive=True)


NO_OVERSHOOT = Hypothesis(
    "no-local-overshoot",
    "eta_l (1 + beta/3) lambda <= 1, lambda the largest curvature of a client's loss",
    lambda case: 1 - case.run.eta_local * (1 + case.beta / 3) * case.largest_curvature,
)


def one_sample(**changed) -> LinearCase:
    """One client, one sample of feature 1, label 1, one weight that starts at 0, two local steps; beta = 3."""
    one, client = np.ones(1), np.zeros(1, int)
    fields: dict[str, Any] = {"features": np.ones((1, 1)), "labels": one, "owner": client, "scale": one, "weights": one}
    return small_case(3.0, **(fields | {"start": np.zeros(1), "participants": ((0,),)} | changed))


def long_steps() -> LinearCase:
    """eta_l = .9: with beta = 3 the first step overshoots the label, and the second brings the client back."""
    return one_sample(eta_local=0.9)


def far_quartic() -> LinearCase:
    """The fourth power of a residual of 4: it has the slope 64, the square the slope 4."""
    return one_sample(degree=4, labels=np.array([4.0]), eta_local=0.05)


def decay_against_slope() -> LinearCase:
    """One step in which decay and slope nearly cancel; the connectivity loss raises the slope only."""
    return one_sample(decay=1.0, labels=np.array([1.9]), start=np.array([1.0]), local_steps=1)


STATEMENTS = (
    Statement(
        id="fedgucci/X4-drift",
        title="The connectivity loss moves a client farther from its anchor, by 1 + beta/(6 + 2 beta) to 1 + beta/2",
        kind=Kind.TWO_SIDED,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime",
            note="in a mode of curvature q the ratio of the moves is (1 + c) g((1 + beta/3) eta_l q) / g(eta_l q), "
            "where g(z) = 1 - (1 - z)^K is concave and increasing on [0, 1]. The upper bound, (1 + c)(1 + beta/3) = 1 "
            "+ beta/2, is attained with one step, the lower bound by clients that converge. With longer steps the "
            "ratio can be below 1 (.45 at eta_l q = .9, beta = 3, K = 2). A longer way from the global model does not "
            "imply a larger spread of the clients: the spread may fall. The paper's claim is about the barrier between "
            "clients",
        ),
        hypotheses=(SQUARED_LOSS, NO_DECAY, NO_OVERSHOOT),
        forms={Form.NEW: Claim((1 + beta / 2) * move, lower=(1 + EXTRA) * move)},
        constants=lambda case: case.steps | {move: case.client_moves(connected=False).norm(axis=1)},
        measure=lambda case: case.client_moves(connected=True).norm(axis=1),
        symbols=BETA
        | {move: "|w_c - w_0| of the client under FedAvg, after the same number of steps of the same size"},
        left_formula="|w_c^{FedGuCci} - w_0|",
        says_left="|w_c - w_0| of each client of FedGuCci after its local steps of the first round",
        families=partial(linear_families, reach=30),
        mutants=(
            scaled(sp.Rational(101, 100)),
            scaled(sp.Rational(9, 10)),
            replaced(EXTRA, beta / 6, "1 + beta/6 below", Change.FACTOR),
            replaced(beta / 2, beta / 3, "1 + beta/3 above", Change.CONSTANT),
            sign_flipped(beta / 2, "beta/2"),
            power(move, sp.Rational(1, 2)),
        ),
        necessity={
            "no-local-overshoot": long_steps,
            "squared-loss": far_quartic,
            "no-weight-decay": decay_against_slope,
        },
        uses=("fedgucci/X4",),
    ),
)
