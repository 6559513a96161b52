"""Theorem C.4: the Rademacher complexity bounds how much worse the population is than the sample."""

import sympy as sp

from bounds import Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.finite_class import FINITE_CLASSES, FiniteClass
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import replaced, sign_flipped
from bounds.symbols import delta, n, rho
from bounds.vocabulary import FL_NTK

complexity, c = sp.symbols("R_S c", positive=True)
REMAINDER = 3 * c * sp.sqrt(sp.log(2 / delta) / (2 * n))


def _constants(case: FiniteClass) -> dict:
    return {complexity: case.rademacher, rho: case.loss.slope, c: case.loss.cap, n: case.n, delta: case.delta}


STATEMENTS = (
    Statement(
        id="fl-ntk/C.4",
        title="Population loss against sample loss, by Rademacher complexity",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Theorem C.4",
            note="a standard result, quoted from ADH+19a, Theorem B.1; rho is the Lipschitz constant here, not "
            "eta_g eta_l K/N, and R_S is that of the sample at hand. For an infinite class the left side is a "
            "supremum that cannot be evaluated; on finite classes and populations every term can",
        ),
        hypotheses=(FAILURE_PROBABILITY,),
        forms={Form.STATED: Claim(2 * rho * complexity + REMAINDER, failure=delta)},
        constants=_constants,
        measure=lambda case: case.largest_gap,
        symbols={
            rho: "Lipschitz constant of the loss in its first argument",
            complexity: "R_S(F) = E max_f sum_i e_i f(x_i) / n over random signs e",
            c: "largest value of the loss",
        },
        left_formula="max_f (L_D(f) - L_S(f))",
        says_left="max_f L_D(f) - L_S(f) over every function of the class, L_D the mean over the whole population",
        families=FINITE_CLASSES,
        mutants=(
            sign_flipped(complexity, "the complexity"),
            sign_flipped(c, "the remainder"),
            replaced(c, 0, "remainder dropped", Change.FACTOR),
        ),
    ),
)
