"""X4 inside a round: a client that has converged overshoots its labels by a fixed share of its first residual."""

from functools import partial

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.fedgucci.cases.linear_case import BETA, NO_DECAY, SQUARED_LOSS, LinearCase, beta, quartic_loss, weight_decay
from bounds.fedgucci.families.linear_families import linear_families
from bounds.fedgucci.families.rescaled import EXTRA, LOCAL
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced
from bounds.statement import Mutant
from bounds.symbols import K, n
from ntkfl.estimate import Estimate

G = sp.MatrixSymbol("G", n, n)
r = sp.MatrixSymbol("r", n, 1)
IDENTITY = sp.Identity(n)


def _constants(case: LinearCase) -> dict:
    run = case.run
    client = run.participants[0][0]
    phi = run.features[np.asarray(run.owner) == client]
    gram = float(run.scale[client]) * (Estimate.exact(phi) @ phi.T)
    return case.steps | {G: gram, r: case.client_residual(trained=False)[:, None]}


STATEMENTS = (
    Statement(
        id="fedgucci/X4-overshoot",
        title="After k local steps a client's residual is -c r + (1 + c) (I - eta_l (1 + beta/3) G)^k r",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime",
            note="r = f - y of the global model on the client's samples, c = beta/(6 + 2 beta) < 1/2. A client that "
            "converges ends at the residual r' = -c r, which minimises r'^2 + beta (r'^2 + r' r + r^2)/3, its loss "
            "plus beta times the mean loss on the line to the anchor. If f = 0 at the start, its outputs end at (1 + "
            "c) y, which is 1.125 y at beta = 1",
        ),
        hypotheses=(SQUARED_LOSS, NO_DECAY),
        forms={Form.NEW: Claim((1 + EXTRA) * (IDENTITY - LOCAL * G) ** K * r - EXTRA * r)},
        constants=_constants,
        measure=lambda case: case.client_residual(trained=True),
        symbols=BETA
        | {
            G: "phi phi^T of the client's samples, times the scale of its loss",
            r: "f - y of the global model on these samples, at the start of the round",
        },
        left_formula="f^{(K)} - y",
        says_left="f - y of a client of FedGuCci on its own samples after its local steps of the first round",
        families=partial(linear_families, reach=30),
        mutants=(
            MILLIONTH_MORE,
            index_shifted(K, 1),
            replaced(beta / 3, beta / 2, "beta/2 for beta/3", Change.CONSTANT),
            Mutant("sign of the overshoot flipped", lambda expression: expression + 2 * EXTRA * r, Change.SIGN),
            power(beta, 2),
        ),
        necessity={
            "squared-loss": quartic_loss,
            "no-weight-decay": weight_decay,
        },
        uses=("fedgucci/X4",),
    ),
)
