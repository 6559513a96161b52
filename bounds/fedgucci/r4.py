"""R4: a bound on the group barrier of networks drawn in a cube that does not grow with their number."""

import sympy as sp

from bounds import BEYOND, Claim, Form, Source
from bounds.fedgucci.families.cube_families import group_families
from bounds.fedgucci.premises.cube_bound import GROUP_BARRIER, GROUP_GAP, cube_bound
from bounds.fedgucci.premises.cube_symbols import MORE_OUTPUTS, SPREAD, K, L, d_anc, side
from bounds.fedgucci.premises.cube_terms import group_loss, mean_group_deviation
from bounds.symbols import delta

TAIL = MORE_OUTPUTS + sp.sqrt(sp.log(2 / delta) / 6)
WITHOUT_K, WITH_K = (SPREAD / 2 * (d_anc / 2 + side * tail) for tail in (TAIL, TAIL / sp.sqrt(K)))

STATEMENTS = (
    cube_bound(
        "fedgucci/R4",
        "Group barrier of networks of a cube, whatever their number",
        Source(
            BEYOND,
            "docs/proofs/connectivity.md#groups",
            note="(1/K) sum |U_i - mean U|_F^2 <= h l d^2/4 surely (Popoviciu). So the anchor's term is at most E1 "
            "d_anc/4. The other terms are one sub-Gaussian sum, averaged over x by Jensen; with C outputs there is one "
            "sum for each, by (J_C) of R1 at p = delta. Of the three right sides the first does not contain K; the "
            "second has the factor 1/sqrt K of a sum of K independent V_i - V_anc; the third, for the barrier, is the "
            "second times the loss's constant. s^2 = lambda_max(E x x^T) for any data that are fixed before the draw; "
            "for x uniform in the ball s = b/sqrt(l+2). The left side itself may rise or fall with K",
        ),
        {Form.NEW: Claim((WITHOUT_K, WITH_K, L * WITH_K), failure=delta)},
        measure=lambda case: (*(mean_group_deviation(case),) * 2, group_loss(case)),
        left_formula=(GROUP_GAP, GROUP_GAP, GROUP_BARRIER),
        says_left="left 1 and 2: E_x |z(x)|_2, z the output of the mean network less the mean output; left 3: the "
        "group barrier of the case's loss",
        families=group_families,
    ),
)
