"""Entezari's conjecture: wide networks have no barrier once their units are permuted."""

import sympy as sp

from bounds import Claim, Form, Kind, Outcome, Provenance, Source, Statement
from bounds.alignment.cases import TRAINED_PAIRS
from bounds.ladders.slopes import slope
from bounds.mutants import shifted

STATEMENTS = (
    Statement(
        id="alignment/conjecture",
        title="Up to a permutation of the units, the barrier vanishes with the width (a conjecture)",
        kind=Kind.UPPER,
        source=Source(
            "Entezari, Sedghi, Saukh, Neyshabur (ICLR 2022)",
            "Conjecture 1",
            note="open. The conjecture gives no rate, so the test is whether the barrier after weight matching falls "
            "with the width, that is, has an exponent below 0. This barrier is an upper bound on the smallest barrier "
            "over all orders of the units. No such test settles a limit at infinite width",
            read=Provenance.REPORTED,
        ),
        forms={Form.STATED: Claim(sp.Integer(0), recorded=Outcome.OPEN)},
        measure=lambda case: slope(case.sizes, case.aligned),
        left_formula="exponent in h of B_{loss}(w_1, w_{aligned})",
        says_left="log-log slope over the widths of the exact barrier of cross-entropy, on the training images, "
        "between networks trained from two starts, after weight matching; with its interval of 99%",
        mutants=(shifted(-2),),
        families=(TRAINED_PAIRS,),
        uses=("alignment/optimality",),
    ),
)
