"""X2: the output of the average of two networks less the average of their outputs, exactly."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.cube_networks import EPS, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import ALPHAS, ROUNDING, gap, kink_terms, pair, rounding, sides
from bounds.mutants import power, replaced, scaled, sign_flipped
from bounds.symbols import alpha
from ntkfl.estimate import Estimate

product, first_kinks, second_kinks = sp.symbols("P J_1 J_2", real=True)


def _constants(case: CubeNetworks) -> dict:
    (a, c), (first, second) = sides(case), pair(case)
    kinks = kink_terms(case, ALPHAS)
    change = np.maximum(a, 0) - np.maximum(c, 0)
    errors = 4 * rounding(case) + EPS
    return {
        alpha: ALPHAS[:, None],
        product: Estimate(change @ (first.readout - second.readout), errors, ROUNDING),
        first_kinks: Estimate(kinks @ first.readout, np.tile(errors, (len(ALPHAS), 1)), ROUNDING),
        second_kinks: Estimate(kinks @ second.readout, np.tile(errors, (len(ALPHAS), 1)), ROUNDING),
    }


STATEMENTS = (
    Statement(
        id="fedgucci/X2",
        title="The gap z is a parabola in alpha plus a term of the kinks",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#the-gap-on-a-segment",
            note="J is 0 on units that have the same sign in both networks: without kinks z is a parabola, largest at "
            "1/2",
        ),
        forms={Form.NEW: Claim(-alpha * (1 - alpha) * product - (alpha * first_kinks + (1 - alpha) * second_kinks))},
        constants=_constants,
        measure=lambda case: gap(case, ALPHAS),
        symbols={
            product: "(v_1 - v_2) . (relu(U_1 x) - relu(U_2 x))",
            first_kinks: "v_1 . J with J_i = min(alpha |a_i|, (1 - alpha) |c_i|) where a_i c_i < 0, else 0",
            second_kinks: "v_2 . J",
        },
        left_formula="f_alpha(x) - alpha f_1(x) - (1 - alpha) f_2(x)",
        says_left="f_alpha(x) - alpha f_1(x) - (1 - alpha) f_2(x) by evaluation, for every input and eleven alphas",
        families=lambda options: cube_families(options, trials=20),
        mutants=(
            scaled(sp.Rational(100_001, 100_000)),
            sign_flipped(product, "the parabola"),
            power(alpha, 2),
            replaced(first_kinks, 0, "kinks of w_1 dropped", Change.FACTOR),
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
        ),
    ),
)
