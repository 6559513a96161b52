"""Theorem B.3 without a bound on the labels: large ones make the pattern flip, and Eq (7) fails in the first round."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedRun, federated_draws
from bounds.fl_ntk.eq1 import squared
from bounds.fl_ntk.eq8 import STEP, round_constants
from bounds.fl_ntk.opposed_points import OpposedDraw, opposed_run
from bounds.fl_ntk.paper_steps import long_row_in_the_premise
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, UNIT_ROWS
from bounds.formula import Formula, Nature
from bounds.mutants import power, replaced, scaled
from bounds.statement import FL_NTK, Form, Hypothesis, Kind, Outcome, Source, Statement
from bounds.symbols import K, delta, lam, r0, t

BOUNDED_LABELS = Hypothesis(
    "bounded-labels",
    "max_i |y_i| <= 1: the proof's |y_i| = O(1), with the constant 1",
    lambda case: 1 - float(np.abs(case.problem.y).max()),
)


def _constants(case: FederatedRun) -> dict:
    return round_constants(case) | {r0: case.initial_residual, t: case.rounds[1:], delta: 0.1}


def _draws(options) -> tuple:
    """Default families at eta_l = .03, and the points of the counterexample with labels 1."""
    small = (OpposedDraw(1.0),) if options.data is None else ()
    return federated_draws(options, label="eta_l=.03", movements=True, eta_local=0.03) + small


CONTRACTION = (1 - STEP * lam / 2) ** t * r0**2

STATEMENTS = (
    Statement(
        id="fl-ntk/B.3-unbounded-labels",
        title="Linear convergence needs bounded labels",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Theorem B.3, Eq (7)",
            note="|y_i| = O(1) is used inside Lemma B.8 and Claim C.8 and is in no statement: a hypothesis left out "
            "by oversight. For every width a large enough label breaks (7), for it decides how far one step moves the "
            "weights: two points at an angle of 2.5 and y = (Y, Y) with Y far above sqrt(m)/eta_l break it in the "
            "first round, in every draw of the network, at the steps of the proof and a width beyond "
            "lambda^-4 n^4 log(n/delta). The ledger has a larger case: n = 4, m = 4000, y ~ 1e4, eta_l = .4, by "
            "round 800",
        ),
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM),
        form_hypotheses={Form.REPAIRED: (BOUNDED_LABELS,)},
        forms={
            Form.STATED: Formula(
                CONTRACTION,
                failure=delta,
                nature=Nature.MISSING_HYPOTHESIS,
                consequence=("scale labels to size O(1); targets that grow with the width or with n are not covered"),
            ),
            Form.REPAIRED: Formula(
                CONTRACTION, failure=delta, note="the width that the proof asks for then depends on the bound"
            ),
        },
        recorded={Form.STATED: Outcome.VIOLATED, Form.REPAIRED: Outcome.HOLDS},
        witness={Form.STATED: lambda: opposed_run(0, None)},
        constants=_constants,
        measure=lambda case: squared(case.observed("residual_norm")[1:]),
        says_left="|y - y(t)|^2 of the simulated run, t = 1..T",
        draws=_draws,
        form_draws={Form.STATED: lambda options: (OpposedDraw(None),)},
        mutants=(
            replaced(lam, 40 * lam, "lambda times 40"),
            replaced(K, 40 * K, "forty times the local steps"),
            scaled(sp.Rational(1, 1000)),
            power(r0, sp.Rational(1, 8)),
        ),
        necessity={"bounded-labels": lambda: opposed_run(0, None), "unit-rows": long_row_in_the_premise},
        uses=("fl-ntk/B.3", "fl-ntk/B.8"),
    ),
)
