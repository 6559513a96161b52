"""Equations (47)-(50): mean network and mean output at one input, with drawn hidden layers."""

import sympy as sp

from bounds import FEDGUCCI, Claim, Form, Source
from bounds.fedgucci.families.cube_families import counted, gap_families, scattered, sharp_families
from bounds.fedgucci.premises.cube_bound import GROUP_GAP, MUTANTS, cube_bound
from bounds.fedgucci.premises.cube_symbols import MEAN_GAP, K, b, d_anc, h, side
from bounds.fedgucci.premises.cube_terms import IN_CUBE, group_deviation, mean_group_deviation
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.symbols import delta

PRINTED = sp.sqrt(2) / 2 * side * (side + d_anc) * b * sp.sqrt(h) * sp.log(4 * h * K**2 / delta)

STATEMENTS = (
    cube_bound(
        "fedgucci/F16",
        "Mean network against mean output of networks of a cube",
        Source(
            FEDGUCCI,
            "Eqs (47)-(50)",
            note="(48) repeats (47). K(K-1)h/2 row events give log(2hK(K-1)/delta) <= log(4hK^2/delta), and (K-1)/K <= "
            "1: the bound holds at a fixed x. It grows like log K^2, which the problem does not require. The new form "
            "is for the mean over any data on |x| <= b that are fixed before the draw, hence also for one x. By Jensen "
            "over clients and data, (1/K) sum_i E_x ((U_i - mean U)_r x)^2 <= d^2 b^2 log(12h/delta)/2 for all rows r, "
            "except with probability .034 delta; the v_i - v_anc make one sub-Gaussian sum (.953 delta). With C "
            "outputs there is one such sum for each, which by (J_C) of R1 adds sqrt((C-1)/(12K))",
        ),
        {
            Form.STATED: Claim(
                PRINTED,
                failure=delta,
                measure=lambda case: group_deviation(case)[0],
                left_formula="|z(x)|_2",
                families=lambda options: counted(sharp_families(options)),
            ),
            Form.NEW: Claim(MEAN_GAP, failure=delta),
        },
        hypotheses=(IN_CUBE, FAILURE_PROBABILITY),
        measure=mean_group_deviation,
        left_formula=GROUP_GAP,
        says_left="E_x |z(x)|_2; printed form: |z(x)| at the first input, which is fixed before the draw",
        families=lambda options: counted(gap_families(options)),
        mutants=MUTANTS,
        necessity={"in-the-cube": scattered},
        uses=("fedgucci/F15",),
    ),
)
