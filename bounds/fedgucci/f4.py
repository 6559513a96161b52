"""The tail bound for sums of uniform variables that the proofs rest on (before Eq (17))."""

import sympy as sp

from bounds import Change, Claim, Form, Kind, Source, Statement
from bounds.cases.bounded_sum import exact
from bounds.fedgucci.cases.uniform_sum import UNIFORM_SUMS
from bounds.mutants import power, replaced
from bounds.symbols import side
from bounds.vocabulary import FEDGUCCI

level, weight_square = sp.symbols("t a_2", positive=True)
RATE = level**2 / (side**2 * weight_square)


STATEMENTS = (
    Statement(
        id="fedgucci/F4",
        title="Tail of a weighted sum of uniform variables",
        kind=Kind.PROBABILITY,
        source=Source(
            FEDGUCCI,
            "display before Eq (17)",
            note="Hoeffding's inequality, constant 2. Uniform laws are strictly sub-Gaussian, "
            "sinh(s)/s <= exp(s^2/6) because 6^k k! <= (2k+1)!, so the constant 6 holds as well",
        ),
        forms={
            Form.STATED: Claim(2 * sp.exp(-2 * RATE)),
            Form.NEW: Claim(2 * sp.exp(-6 * RATE)),
        },
        constants=lambda case: {level: exact(case.t), side: exact(case.side), weight_square: exact(case.square)},
        measure=lambda case: case.probability(),
        symbols={level: "level t", weight_square: "|a|_2^2, the sum of the squared weights"},
        left_formula="Pr(|sum_i a_i X_i| > t)",
        says_left="P(|sum_i a_i X_i| > t) exactly, as a rational, from the corners of the cube",
        families=(UNIFORM_SUMS,),
        mutants=(
            replaced(level, 2 * level, "the level doubled", Change.CONSTANT),
            power(weight_square, sp.Rational(1, 8)),
            replaced(side, side / 2, "half the side", Change.CONSTANT),
        ),
    ),
)
