"""Equations (43)-(46): mean network and mean output at one input, for given hidden layers."""

import sympy as sp

from bounds import FEDGUCCI, Claim, Form, Source
from bounds.fedgucci.families.cube_families import counted, scattered, sharp_families
from bounds.fedgucci.premises.cube_bound import MUTANTS, cube_bound
from bounds.fedgucci.premises.cube_symbols import SYMBOLS, K, d_anc, side
from bounds.fedgucci.premises.cube_terms import IN_CUBE, cube_constants, group_deviation, mean_spread
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power
from bounds.symbols import delta

spread = sp.Symbol("a", positive=True)

STATEMENTS = (
    cube_bound(
        "fedgucci/F15",
        "Mean network against mean output, at one input",
        Source(
            FEDGUCCI,
            "Eqs (43)-(46)",
            note="(44) multiplies d_anc too by sqrt(log(4K/delta)/2). This needs a root of at least 1, that is delta "
            "<= 4K/e^2, which is true for K >= 2; for K = 1 the claim is empty. |.| of a vector is its l2 norm. There "
            "are K Hoeffding events, each of probability delta/(2K)",
        ),
        {Form.STATED: Claim((side + d_anc) * sp.sqrt(sp.log(4 * K / delta) / 2) * spread, failure=delta / 2)},
        constants=lambda case: cube_constants(case) | {spread: mean_spread(case)},
        measure=lambda case: group_deviation(case)[0],
        symbols=SYMBOLS | {spread: "(1/K) sum_i |(U_i - mean U) x|_2"},
        left_formula="|z(x)|_2",
        says_left="|z(x)| at the first input, which is fixed before the draw",
        hypotheses=(IN_CUBE, FAILURE_PROBABILITY),
        families=lambda options: counted(sharp_families(options)),
        necessity={"in-the-cube": scattered},
        mutants=tuple(power(spread, 2) if mutant.name.startswith("d to") else mutant for mutant in MUTANTS),
    ),
)
