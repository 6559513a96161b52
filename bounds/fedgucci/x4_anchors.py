"""X4 with several anchors: FedAvg with clients that start between the global model and the anchors' mean."""

from functools import partial

import sympy as sp

from bounds import BEYOND, Change, Form, Kind, Source, Statement
from bounds.fedgucci.cases.linear_case import BETA, NO_DECAY, SQUARED_LOSS, beta, quartic_loss, weight_decay
from bounds.fedgucci.families.linear_families import linear_families
from bounds.fedgucci.families.rescaled import EXTRA, LOCAL, SERVER, RescaledFedAvg, run_constants
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped

PULL = beta / (6 + 3 * beta)  # c / (1 + c)

STATEMENTS = (
    Statement(
        id="fedgucci/X4-anchors",
        title="With several anchors, FedGuCci(beta) is FedAvg with clients that start nearer to the anchors' mean",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime",
            note="clients start at s = (w_t + c a) / (1 + c) = w_t + beta/(6 + 3 beta) (a - w_t), where a is the mean "
            "of the anchors of Eq (11), and take steps times (1 + beta/3). The server adds (1 + c) times the mean of "
            "their displacements from s to w_t. The objective (12) is affine in the anchors, so only their mean "
            "counts. Since s is a mean of past models it acts as a negative momentum",
        ),
        hypotheses=(SQUARED_LOSS, NO_DECAY),
        forms={
            Form.NEW: RescaledFedAvg(
                (LOCAL, SERVER, PULL),
                note="the two steps of FedAvg, and the pull of the clients' start to the anchors' mean",
            )
        },
        constants=run_constants,
        measure=lambda case: case.global_weights,
        symbols=BETA,
        left_formula=("eta_l^{FedAvg}", "eta_g^{FedAvg}", "share of a in s"),
        says_left="every global weight of every round of FedGuCci with one to four anchors, in rationals or in float64",
        families=partial(linear_families, anchors=4),
        mutants=(
            MILLIONTH_MORE,
            replaced(PULL, EXTRA, "c for c / (1 + c)", Change.FACTOR),
            sign_flipped(PULL, "the pull"),
            replaced(PULL, sp.Integer(0), "no pull: plain FedAvg", Change.FACTOR),
            replaced(beta / 3, beta / 2, "beta/2 for beta/3", Change.CONSTANT),
            power(beta, 2),
        ),
        necessity={"squared-loss": quartic_loss, "no-weight-decay": weight_decay},
        uses=("fedgucci/X4",),
    ),
)
