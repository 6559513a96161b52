"""Equations (51)-(52): how moving one end of a low-loss segment changes the losses on the segment."""

import sympy as sp

from bounds import Change, Claim, Form, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.fedgucci.cases.curved_valley import VALLEYS, CurvedValley
from bounds.mutants import power, replaced, without
from bounds.vocabulary import FEDGUCCI

eps, gamma, shift = sp.symbols("epsilon gamma Delta", positive=True)
NEAR_ZERO = 1e-24  # the float nearest to a minimiser has a loss of about 1e-32
PRINTED = eps + gamma * shift**2
MOVED = (sp.sqrt(eps) + sp.sqrt(gamma / 2) * shift) ** 2

MINIMISER = Hypothesis(
    "minimiser",
    "w_anc,i minimises L_i: its loss is at most 1e-24",
    lambda case: NEAR_ZERO - float(case.at_moved_anchor.hi),
)


def planar_counterexample() -> CurvedValley:
    """A valley that bends up to the straight line between a model and the minimiser nearest to the anchor."""
    return CurvedValley((4.0, 1.0), 200.0, 6.0, (0.0, 0.0), (200.0, 0.0), (200.0, 1.0))


STATEMENTS = (
    Statement(
        id="fedgucci/F17",
        title="Replacing the anchor by a client's own minimiser",
        kind=Kind.UPPER,
        source=Source(
            FEDGUCCI,
            "Eqs (51)-(52); (52)-(53) of the KDD text",
            note="(51) is checked as printed, with Delta = |w_anc - w_anc,i|. (52) puts Definition 3.7's Gamma = max_i "
            "|w_i* - w*| in place of Delta. The two are equal only if the anchor is the global minimum w*, and the "
            "theorem asks nothing of its anchor: with another anchor Gamma may be 0 and Delta any number, and d_* and "
            "F18 inherit this gap. The client's loss L_i is read on both sides (the index is missing in print; with "
            "the global loss L = w^2/2, w_i = 0, w_anc = 1, w_anc,i = 2 gives 2 > 1.5). Derived again from the text: "
            "gamma-smoothness gives L_i(p) <= L_i(q) + grad L_i(q).(p - q) + gamma |p - q|^2/2 for points p, q of the "
            "two segments at most Delta apart; the gradient is not 0 away from the minimum, and (51) has no term for "
            "it. The inequality holds in one dimension, and for a convex L_i whose minimiser is w_anc,i; in the plane "
            "it does not. The repaired form is for L_i >= 0 that is gamma-smooth everywhere: then |grad L_i| <= sqrt(2 "
            "gamma L_i). Each point of the new segment is at most Delta from its old place, and so has sqrt(L_i) <= "
            "sqrt(epsilon) + sqrt(gamma/2) Delta; this needs no minimiser. It implies the printed bound where Delta >= "
            "2 sqrt(2 epsilon/gamma). The loss of the witness is linear from |y + c| = 6 on, so that it is smooth on "
            "the whole plane, with gamma = 1.0177. Proof: docs/proofs/connectivity.md#groups",
        ),
        forms={
            Form.STATED: Claim(
                PRINTED,
                recorded=Outcome.VIOLATED,
                nature=Nature.SUBSTANCE,
                hypotheses=(MINIMISER,),
                witness=planar_counterexample,
                reading="the KDD text and the scan agree in every sign",
                consequence="from a low barrier to the common anchor a low barrier to the client's own minimiser "
                "follows only with a term of first order in the heterogeneity; a term of second order alone is not "
                "enough",
            ),
            Form.REPAIRED: Claim(MOVED),
        },
        constants=lambda case: {eps: case.old_supremum, gamma: case.smoothness, shift: case.shift},
        measure=lambda case: case.new_supremum,
        symbols={
            eps: "sup over alpha of L_i(alpha w_i + (1 - alpha) w_anc)",
            gamma: "Lipschitz constant of the gradient of L_i",
            shift: "|w_anc - w_anc,i|, the distance of the client's minimum from the anchor",
        },
        left_formula="sup_alpha L_i(alpha w_i + (1 - alpha) w_{anc,i})",
        says_left="sup over alpha of L_i(alpha w_i + (1 - alpha) w_anc,i), enclosed by branch and bound in balls",
        families=(VALLEYS,),
        mutants=(
            power(shift, sp.Rational(1, 2)),
            without(gamma),
            replaced(MOVED, eps + gamma * shift**2 / 2, "gradient term dropped", Change.FACTOR),
        ),
    ),
)
