"""Equations (51)-(52): what moving one end of a low-loss segment does to the losses on it."""

import sympy as sp

from bounds.fedgucci.cases.curved_valley import VALLEYS, CurvedValley
from bounds.mutants import power, replaced, without
from bounds.statement import FEDGUCCI, Change, Claim, Form, Hypothesis, Kind, Nature, Outcome, Source, Statement

eps, gamma, Gamma = sp.symbols("epsilon gamma Gamma", positive=True)
NEAR_ZERO = 1e-24  # a minimiser that is a float has a loss of some 1e-32
PRINTED = eps + gamma * Gamma**2
MOVED = (sp.sqrt(eps) + sp.sqrt(gamma / 2) * Gamma) ** 2

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
            "Eqs (51)-(52)",
            note="read with the client's loss L_i on both sides (the index is missing in print; with the global loss "
            "L = w^2/2 at w_i = 0, w_anc = 1, w_anc,i = 2 already gives 2 > 1.5). Smoothness gives a gradient term as "
            "well, which is missing. In one dimension, and for a convex L_i with w_anc,i its minimiser, the inequality "
            "holds; in the plane it does not. Repaired for L_i >= 0 that is gamma-smooth everywhere: "
            "|grad L_i| <= sqrt(2 gamma L_i), so each point of the new segment, at most Gamma from its old place, has "
            "sqrt(L_i) <= sqrt(epsilon) + sqrt(gamma/2) Gamma; no minimiser is needed. The printed bound follows from "
            "it where Gamma >= 2 sqrt(2 epsilon/gamma). Our notes' example is quadratic with gamma its largest "
            "Hessian norm on a rectangle (1.0047); here the loss is linear from |y + c| = 6 on, so that it is smooth "
            "on the whole plane, with gamma = 1.0177",
        ),
        forms={
            Form.STATED: Claim(
                PRINTED,
                recorded=Outcome.VIOLATED,
                nature=Nature.SUBSTANCE,
                hypotheses=(MINIMISER,),
                witness=planar_counterexample,
                consequence="a low barrier to the common anchor does not carry over to the client's own minimiser with "
                "a term of second order in the heterogeneity alone; a term of first order has to be added",
            ),
            Form.REPAIRED: Claim(MOVED),
        },
        constants=lambda case: {eps: case.old_supremum, gamma: case.smoothness, Gamma: case.shift},
        measure=lambda case: case.new_supremum,
        symbols={
            eps: "sup over alpha of L_i(alpha w_i + (1 - alpha) w_anc)",
            gamma: "Lipschitz constant of the gradient of L_i",
            Gamma: "|w_anc - w_anc,i|",
        },
        says_left="sup over alpha of L_i(alpha w_i + (1 - alpha) w_anc,i), enclosed by branch and bound in balls",
        draws=(VALLEYS,),
        mutants=(
            power(Gamma, sp.Rational(1, 2)),
            without(gamma),
            replaced(MOVED, eps + gamma * Gamma**2 / 2, "gradient term dropped", Change.FACTOR),
        ),
    ),
)
