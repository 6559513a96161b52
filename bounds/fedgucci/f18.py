"""Theorem 3.8 (B.3): the group barrier under heterogeneous clients."""

from __future__ import annotations

import sympy as sp

from bounds.fedgucci.cube_bound import MUTANTS, cube_bound
from bounds.fedgucci.cube_terms import (
    SYMBOLS,
    K,
    S,
    b,
    d_anc,
    d_eps,
    group_draws,
    h,
    mean_group_deviation,
    side,
)
from bounds.fedgucci.f16 import ROWS
from bounds.fedgucci.sure import SURE
from bounds.formula import Formula, Nature
from bounds.statement import FEDGUCCI, Form, Source
from bounds.symbols import delta

STATED = sp.sqrt(2 * h) * b / (2 * (1 - delta) ** (2 / S)) * d_eps * (d_eps + d_anc) * sp.log(4 * h * K**2 / delta)

STATEMENTS = (
    cube_bound(
        "fedgucci/F18",
        "Transitivity of group connectivity under data heterogeneity",
        Source(
            FEDGUCCI,
            "Theorem 3.8 (B.3), Eqs (10), (38)",
            note="d_* stands for d_{epsilon + gamma Gamma^2} (the appendix prints epsilon + Gamma, a loss plus a "
            "length). The step (51) that brings gamma Gamma^2 is not true (F17), and gamma is infinite for this "
            "architecture on a domain with a dead row; no draw violates the conclusion, since (50) at the true d is "
            "loose by a factor of 100 to 10000. The domain is taken as the cube with the level above every loss in "
            "it, so d_* = d. Repaired: R4's way at the true d, any data on |x| "
            "<= b, no gamma, no Gamma and no growth with K; where d is to be traded for a volume of low loss, R5 does "
            "it without gamma and Gamma",
        ),
        {
            Form.STATED: Formula(
                STATED,
                failure=delta,
                nature=Nature.PROOF_GAP,
                trivial=SURE,
                consequence="the dependence on gamma and Gamma is not established; the barrier of the group is bounded "
                "without them, and without growth in the number of clients",
            ),
            Form.REPAIRED: Formula(
                ROWS * (d_anc / 2 + side * sp.sqrt(sp.log(sp.Rational(21, 10) / delta) / (6 * K))), failure=delta
            ),
        },
        measure=mean_group_deviation,
        symbols=SYMBOLS | {d_eps: "S-th root of the volume of the networks with a loss below the level d_* refers to"},
        says_left="E_x |z(x)|, which the group barrier of the clients' mean loss does not exceed",
        draws=group_draws,
        mutants=MUTANTS,
        uses=("fedgucci/F16", "fedgucci/F17", "fedgucci/R4", "fedgucci/R5"),
    ),
)
