"""Theorem C.4: the Rademacher complexity bounds how much worse the population is than the sample."""

from __future__ import annotations

import sympy as sp

from bounds.fl_ntk.cases.finite_class import FiniteClass, FiniteClassDraw
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import replaced, sign_flipped
from bounds.options import Options
from bounds.statement import FL_NTK, Change, Claim, Form, Kind, Source, Statement
from bounds.symbols import delta, n, rho

complexity, c = sp.symbols("R_S c", positive=True)
REMAINDER = 3 * c * sp.sqrt(sp.log(2 / delta) / (2 * n))


def _constants(case: FiniteClass) -> dict:
    return {complexity: case.rademacher, rho: case.loss.slope, c: case.loss.cap, n: case.n, delta: case.delta}


def _draws(options: Options) -> tuple[FiniteClassDraw, ...]:
    """One function with rare mistakes, where R_S = 0; large classes; small ones with every sign enumerated."""

    def family(name: str, functions: int, sizes: tuple, mistakes: tuple, trials: int) -> FiniteClassDraw:
        trials = options.trials or trials
        return FiniteClassDraw(name, functions, sizes, mistakes, trials, 5 if trials <= 20 else 20)

    return (
        family("one function, rare mistakes", 1, (10, 100), (0.0005, 0.002), 300),
        family("64 functions, n = 80..200", 64, (80, 200), (0.3, 0.5), 60),
        family("8 functions, every sign", 8, (6, 12), (0.1, 0.5), 100),
    )


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
        says_left="max_f L_D(f) - L_S(f) over every function of the class, L_D the mean over the whole population",
        draws=_draws,
        mutants=(
            sign_flipped(complexity, "the complexity"),
            sign_flipped(c, "the remainder"),
            replaced(c, 0, "remainder dropped", Change.FACTOR),
        ),
    ),
)
