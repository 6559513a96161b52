"""Assumption 3.2: a loss that is 1-Lipschitz in the outputs and smooth in the weights."""

import sympy as sp

from bounds import Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.cases.loss_constant import lipschitz_constant
from bounds.fedgucci.cases.circle_neuron import CIRCLE_UNITS, CircleNeuron
from bounds.fedgucci.cases.loss_steepness import ALL_LOSSES, SCALAR_LOSSES
from bounds.formula import evaluate
from bounds.mutants import power, replaced, scaled, without
from bounds.symbols import b
from bounds.vocabulary import FEDGUCCI

lipschitz, readout, length, gamma = sp.symbols("c_L v u gamma", positive=True)


def short_row() -> CircleNeuron:
    """|u| = 1/64: sixty-four times the curvature of |u| = 1."""
    return CircleNeuron(readout=1.0, length=1 / 64)


STATEMENTS = (
    Statement(
        id="fedgucci/F2-lipschitz",
        title="The loss is 1-Lipschitz in the outputs",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Assumption 3.2, first part",
            note="an assumption, and met with the constant 1 by the logistic and the absolute loss of a scalar "
            "network, which is the one the theorems have; by any Lipschitz loss in another unit. Beside it the "
            "constant that each loss has, which every bound on a barrier takes here as L: cross-entropy, the loss of "
            "the experiments, has sqrt 2 in the l2 norm of the logits (a supremum, not taken), so that with it every "
            "bound is multiplied by sqrt 2, |z| read as the l2 norm of the vector of gaps, and the bounds for C "
            "outputs are taken (F9, R1, R1g, sure, R4); the squared loss has none on an unbounded set, 2R on |f - y| "
            "<= R",
        ),
        forms={
            Form.STATED: Claim(sp.Integer(1), families=(SCALAR_LOSSES,)),
            Form.NEW: Claim(lipschitz),
        },
        constants=lambda case: {lipschitz: lipschitz_constant(case.loss, case.reach)},
        measure=lambda case: case.steepest(),
        symbols={lipschitz: "1 for absolute and logistic, sqrt 2 for cross-entropy, 2R for squared"},
        left_formula="sup_{f,f',y} |L(f,y) - L(f',y)| / |f - f'|_2",
        says_left="the largest |L(f) - L(f')| / |f - f'|_2: a quotient that is taken, and a bound on the gradient",
        families=(ALL_LOSSES,),
        mutants=(
            scaled(sp.Rational(1001, 1000)),
            power(lipschitz, 2),
            without(lipschitz),
            replaced(lipschitz, 2 * lipschitz, "twice the constant", Change.CONSTANT),
        ),
    ),
    Statement(
        id="fedgucci/F2-smooth",
        title="The expected loss is smooth in the weights",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Assumption 3.2, second part",
            note="an assumption: printed is that the loss is gamma-smooth, with no number for gamma. Checked is "
            "whether one gamma serves all weights: here the one that serves |u| = 1, b v/pi; any other fails in the "
            "same way at |u| < b v/(pi gamma). For a law of x without a preferred direction the gradient in u depends "
            "on u/|u| alone, so the curvature is v E relu(x_1)/|u| and no gamma serves near a dead row; on finite "
            "data the loss has kinks. Theorem 3.5 uses smoothness nowhere (Lemma 3.3 needs continuity alone), Theorem "
            "3.8 in (51). Repaired: the constant on |u| >= r, attained at |u| = r",
        ),
        forms={
            Form.STATED: Claim(
                gamma,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISSING_HYPOTHESIS,
                witness=short_row,
                reading="words, alike in both versions",
                consequence="assume rows of at least some length r: a ReLU network is smooth only on such weights, "
                "and a bound that contains gamma (Theorem 3.8) is infinite on a domain with a dead row",
            ),
            Form.REPAIRED: Claim(readout * b / (sp.pi * length)),
        },
        constants=lambda case: {
            readout: case.readout,
            length: case.length,
            b: case.radius,
            gamma: evaluate(readout * b / sp.pi, {readout: case.readout, b: case.radius}),
        },
        measure=lambda case: case.curvature(),
        symbols={
            readout: "readout weight v > 0",
            length: "|u|, of the hidden weight",
            b: "|x|, on a circle",
            gamma: "one constant for all weights; here b v/pi, the smallest that serves |u| = 1",
        },
        left_formula="|grad E L(u') - grad E L(u)| / |u' - u|",
        says_left="|grad E L(u') - grad E L(u)| / |u' - u| for u turned, the gradients as integrals over half circles",
        families=(CIRCLE_UNITS,),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            power(length, 2),
            without(readout),
            power(b, 2),
            replaced(sp.pi, 2 * sp.pi, "twice the circle", Change.CONSTANT),
        ),
    ),
)
