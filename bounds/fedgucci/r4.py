"""R4: the group barrier of networks drawn in a cube, without their number."""

from __future__ import annotations

import sympy as sp

from bounds.fedgucci.cube_bound import cube_bound
from bounds.fedgucci.cube_terms import SPREAD, K, d_anc, group_draws, mean_group_deviation, side
from bounds.formula import Formula
from bounds.statement import BEYOND, Form, Source
from bounds.symbols import delta

LOG = sp.log(2 / delta)
SAYS_GROUP = "E_x |z(x)|, z the output of the mean network less the mean output; the group barrier does not exceed it"

STATEMENTS = (
    cube_bound(
        "fedgucci/R4",
        "Group barrier of networks of a cube, whatever their number",
        Source(
            BEYOND,
            "R4 of the ledger",
            note="(1/K) sum |U_i - mean U|_F^2 <= h l d^2/4 surely (Popoviciu), so the anchor's term is at most E1 "
            "d_anc/4 and the others are one sub-Gaussian sum, averaged over x by Jensen. Two parts: without K, and "
            "with the 1/sqrt K that the sum of K independent v_i - v_anc brings. s^2 = lambda_max(E x x^T): any data "
            "fixed before the draw, x uniform in the ball being s = b/sqrt(l+2). The quantity itself may rise or fall "
            "with K",
        ),
        {
            Form.REPAIRED: Formula(
                (
                    SPREAD / 2 * (d_anc / 2 + side * sp.sqrt(LOG / 6)),
                    SPREAD / 2 * (d_anc / 2 + side * sp.sqrt(LOG / (6 * K))),
                ),
                failure=delta,
            )
        },
        measure=lambda case: (mean_group_deviation(case),) * 2,
        says_left=SAYS_GROUP,
        draws=group_draws,
    ),
)
