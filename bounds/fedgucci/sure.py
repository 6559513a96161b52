"""The bound on the barrier that holds with probability one."""

from __future__ import annotations

import sympy as sp

from bounds.fedgucci.cube_bound import cube_bound
from bounds.fedgucci.cube_terms import IN_CUBE, SPREAD, d_anc, h, side
from bounds.formula import Formula
from bounds.statement import BEYOND, Form, Kind, Source

SURE = SPREAD / 2 * (side * sp.sqrt(h) / 2 + d_anc / 2)

STATEMENTS = (
    cube_bound(
        "fedgucci/sure",
        "Barrier between any two networks of a cube",
        Source(
            BEYOND,
            "sure bound of the ledger",
            note="no randomness is used: |v_i - v_anc| <= d sqrt(h)/2 and E_x |(U_1 - U_2) x| <= d s sqrt(h l). With x "
            "uniform in the ball, s = b/sqrt(l+2) < b/sqrt(l), it is below the right side of Theorem 3.5 at the true d "
            "whenever sqrt(h) <= 2 sqrt(2) log(12h/delta): up to 1114 hidden units at delta = .1",
        ),
        {Form.REPAIRED: Formula(SURE)},
        kind=Kind.UPPER,
        hypotheses=(IN_CUBE,),
    ),
)
