"""Theorem C.11: the population loss of the trained network."""

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Hypothesis, Kind, Limit, Nature, Outcome, Source, Statement
from bounds.fl_ntk.cases.generalisation_case import Loss, SphereDistribution, TrainedOnSample, sample_families
from bounds.fl_ntk.premises import BOUNDED, FAILURE_PROBABILITY, LIPSCHITZ, NON_DEGENERATE, UNIT_ROWS
from bounds.fl_ntk.terms.generalisation import MAIN, PREMISE, constants, index, quadratic
from bounds.mutants import power, replaced
from bounds.symbols import delta, lam, n

REST = 5 / sp.sqrt(n) + 3 * sp.sqrt(sp.log(6 * index * (index + 1) / delta) / (2 * n))

ZERO_AT_LABEL = Hypothesis("zero-at-label", "l(y, y) = 0 for every y", lambda case: -case.loss.at_label)
BOUNDED_LABELS = Hypothesis(
    "bounded-labels", "|y| <= 1", Limit("max |y|", lambda case: case.largest_label, at_most=1.0)
)


def constant_loss() -> TrainedOnSample:
    """A linear target, learnt well, and the constant loss 1."""
    return TrainedOnSample(SphereDistribution(), 120, Loss(slope=0.0, floor=1.0), seed=0, delta=0.5, in_balls=True)


def _steep_loss() -> TrainedOnSample:
    """A loss that counts an output as wrong unless it is right to a millionth."""
    return TrainedOnSample(SphereDistribution(), 200, Loss(slope=1e6), seed=0, delta=0.5)


def _long_rows() -> TrainedOnSample:
    """Random signs at points of length 1000: y^T H^-1 y is a millionth of its value on the unit sphere."""
    return TrainedOnSample(SphereDistribution(signal=0.0, noise=1.0, length=1000.0), 300, Loss(), seed=0, delta=0.5)


STATEMENTS = (
    Statement(
        id="fl-ntk/C.11",
        title="Generalisation of the trained network",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Theorem C.11",
            note="the proof concludes a small training loss from small training residuals; this needs l(y,y) = 0, "
            "which is nowhere assumed. The constant loss 1 is 1-Lipschitz with values in [0,1] and has L_D = 1, while "
            "the bound tends to 0. The repaired form assumes l(y,y) = 0, |y| = O(1) and unit rows. The O() is written "
            "out with the proof's own constants. The proof takes the union over i up to a fixed O(sqrt(n)/lambda). "
            "Here the ball of radius i has the failure probability delta/(3 i (i+1)), which allows the i that the data "
            "need, ceil(sqrt(Q)), and gives the same ln(6 i (i+1)/delta). (A union bound with equal shares does not "
            "allow an i_max that depends on the data, as ceil(B+1) does; for B <= 1 both give ln(12/delta)). "
            "Misprints: Pr[E_1] <= eps/3 for delta/3, Pr[E_4] <= 1 - delta/9 for delta/9. The step to 2/sqrt n needs "
            "sigma below lambda/(n polylog), and drops the term (2 log/m)^(1/4)",
        ),
        hypotheses=(FAILURE_PROBABILITY, NON_DEGENERATE, LIPSCHITZ, BOUNDED),
        forms={
            Form.STATED: Claim(
                MAIN + REST,
                failure=delta,
                premise=PREMISE,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISSING_HYPOTHESIS,
                witness=constant_loss,
                reading="no sign is in question: both theorems require only a 1-Lipschitz loss with values in [0, 1]; "
                "Arora et al., whose theorem this one follows, require l(y,y) = 0 as well",
                consequence="assume l(y, y) = 0 (as the usual losses have), bounded labels and unit rows",
            ),
            Form.REPAIRED: Claim(
                MAIN + REST,
                failure=delta,
                premise=PREMISE,
                hypotheses=(ZERO_AT_LABEL, BOUNDED_LABELS, UNIT_ROWS),
                note="not proved here; checked at infinite width, where the premise on m is no restriction. At delta = "
                ".01 and y = x_1/2 the bound is below the trivial bound 1 from n of about 150 on. For random signs it "
                "stays above 1 at every n, because y^T H^-1 y >= |y|^4 / y^T H y, whose mean is 2n or more",
            ),
        },
        constants=constants,
        measure=lambda case: case.population_loss,
        symbols={
            quadratic: "y^T H_inf^-1 y",
            index: "the smallest integer that is at least 1 and at least sqrt(Q)",
            lam: "smallest eigenvalue of H_inf",
        },
        left_formula="L_D(f_T)",
        says_left="the loss of the infinite-width predictor after T rounds on 2000 held-out samples",
        families=sample_families,
        mutants=(
            power(n, 2),
            replaced(MAIN, -MAIN, "main term subtracted", Change.SIGN),
            replaced(REST, -REST, "remainder subtracted", Change.SIGN),
        ),
        necessity={"zero-at-label": constant_loss, "1-Lipschitz": _steep_loss, "unit-rows": _long_rows},
        uses=("fl-ntk/C.4", "fl-ntk/C.5", "fl-ntk/C.7-norm", "fl-ntk/B.3"),
    ),
)
