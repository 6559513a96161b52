"""Lemma A.1, Bernstein's inequality: as the scan reads, the lemma bounds the wrong tail."""

from fractions import Fraction

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.cases.bounded_sum import BOUNDED_SUMS, BoundedSum, exact
from bounds.mutants import power, replaced, sign_flipped

V, M, t = sp.symbols("V M t", positive=True)
TAIL = sp.exp(-(t**2 / 2) / (V + M * t / 3))

STATEMENTS = (
    Statement(
        id="fl-ntk/A.1",
        title="Bernstein's inequality for bounded independent sums",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Lemma A.1",
            note="the scan reads Pr[sum <= t]; every use (B.5, B.8, B.11, C.7) is of Pr[sum >= t], the classical form. "
            "Nothing suggests that the paper prints another form",
        ),
        hypotheses=(Hypothesis("positive-t", "t > 0", lambda case: float(case.t)),),
        forms={
            Form.STATED: Claim(
                TAIL,
                recorded=Outcome.VIOLATED,
                nature=Nature.SCAN,
                measure=lambda case: case.probability(above=False),
                left_formula="Pr(sum_i X_i <= t)",
                witness=lambda: BoundedSum(1, Fraction(1, 2), Fraction(1), Fraction(1)),
                note="the left side is Pr[sum <= t], as the scan reads",
                reading="the lemma occurs once; the four places that apply it read '>' or '>=', which is right",
                consequence="none: every use in the paper is of the upper tail, for which the bound is right",
            ),
            Form.REPAIRED: Claim(TAIL),
        },
        constants=lambda case: {V: exact(case.count * case.variance), M: exact(case.bound), t: exact(case.t)},
        measure=lambda case: case.probability(above=True),
        symbols={V: "sum of the variances", M: "bound on |X_i|", t: "threshold"},
        left_formula="Pr(sum_i X_i >= t)",
        says_left="the exact binomial tail, as a rational number",
        families=(BOUNDED_SUMS,),
        necessity={"positive-t": lambda: BoundedSum(1, Fraction(1, 2), Fraction(1), Fraction(-1))},
        mutants=(
            replaced(V, 0, "variance dropped", Change.FACTOR),
            power(t, sp.Rational(3, 2)),
            sign_flipped(M * t / 3, "M t / 3"),
        ),
    ),
)
