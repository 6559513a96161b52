"""X4: where outputs are linear in the weights, FedGuCci is FedAvg with two rescaled steps."""

from bounds import BEYOND, Change, Form, Kind, Source, Statement
from bounds.fedgucci.cases.linear_case import (
    BETA,
    NO_DECAY,
    ONE_ANCHOR,
    SQUARED_LOSS,
    LinearCase,
    beta,
    quartic_loss,
    small_case,
    weight_decay,
)
from bounds.fedgucci.families.linear_families import linear_families
from bounds.fedgucci.families.rescaled import EXTRA, LOCAL, SERVER, RescaledFedAvg, run_constants
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped, without

NOTE = (
    "the gradient of L + beta L_connect at w is (1 + beta/3)(A w - b) + (beta/6)(A w_a - b); in u = (w + c w_a) / (1 + "
    "c) it is the gradient of L alone, times (1 + beta/3)(1 + c). This needs outputs that are affine in the weights, "
    "the squared loss (with any factor), the full integral over alpha on the same samples, and server weights that sum "
    "to one; unequal clients, partial participation and any number of local steps are allowed. With an alpha drawn at "
    "random the equality holds in the mean only. The paper trains networks with cross-entropy and momentum and does "
    "not claim it. Source: Eqs (7), (11), (12) with N = 1"
)


def two_anchors() -> LinearCase:
    """From the second round on the previous global model is an anchor too."""
    return small_case(anchors=2)


STATEMENTS = (
    Statement(
        id="fedgucci/X4",
        title="FedGuCci(beta) is FedAvg with local step x (1 + beta/3), server step x (1 + beta/(6 + 2 beta))",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/connectivity.md#fedgucci-in-the-kernel-regime", note=NOTE),
        hypotheses=(ONE_ANCHOR, SQUARED_LOSS, NO_DECAY),
        forms={
            Form.NEW: RescaledFedAvg((LOCAL, SERVER), note="the two steps of the FedAvg run whose weights are compared")
        },
        constants=run_constants,
        measure=lambda case: case.global_weights,
        symbols=BETA,
        left_formula=("eta_l^{FedAvg}", "eta_g^{FedAvg}"),
        says_left="every global weight of every round of FedGuCci, with the connectivity loss integrated by an exact "
        "rule: in rationals on a few samples, in float64 on linearised networks",
        families=linear_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(beta / 3, beta / 2, "beta/2 for beta/3", Change.CONSTANT),
            replaced(EXTRA, beta / 6, "beta/6 for beta/(6 + 2 beta)", Change.FACTOR),
            sign_flipped(EXTRA, "the server's excess"),
            power(beta, 2),
            without(beta),
            replaced(LOCAL, SERVER * LOCAL / SERVER.subs(beta, 0), "local and server factor both local", Change.OTHER),
        ),
        necessity={"one-anchor": two_anchors, "squared-loss": quartic_loss, "no-weight-decay": weight_decay},
    ),
)
