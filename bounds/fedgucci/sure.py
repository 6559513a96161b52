"""The bound on the barrier that holds with probability one."""

import sympy as sp

from bounds.cases.loss_constant import LIPSCHITZ_LOSS
from bounds.fedgucci.families.corners import corner_families
from bounds.fedgucci.families.cube_families import loss_families
from bounds.fedgucci.premises.cube_bound import MUTANTS, cube_bound
from bounds.fedgucci.premises.cube_symbols import SURE, C, L, with_loss
from bounds.fedgucci.premises.cube_terms import IN_CUBE
from bounds.mutants import replaced, without
from bounds.statement import BEYOND, Change, Claim, Form, Kind, Source

STATEMENTS = (
    cube_bound(
        "fedgucci/sure",
        "Barrier between any two networks of a cube",
        Source(
            BEYOND,
            "docs/proofs/connectivity.md#the-sure-bound",
            note="no randomness is used: |V_i - V_anc|_F <= d sqrt(C h)/2, |V_anc J| <= |V_anc| |J| and E_x |(U_1 - "
            "U_2) x| <= d s sqrt(h l). With x uniform in the ball, s = b/sqrt(l+2) < b/sqrt(l), it is below the right "
            "side of Theorem 3.5 at the true d whenever sqrt(h) <= 2 sqrt(2) log(12h/delta): up to 1114 hidden units "
            "at delta = .1",
        ),
        {Form.NEW: Claim(with_loss(SURE))},
        kind=Kind.UPPER,
        hypotheses=(IN_CUBE, LIPSCHITZ_LOSS),
        families=lambda options: loss_families(options) + corner_families(options),
        mutants=(
            replaced(L, sp.Min(L, 1), "the constant 1 for every loss", Change.CONSTANT),
            replaced(L, L / 2, "half the loss's constant", Change.CONSTANT),
            without(C),
            *MUTANTS,
        ),
    ),
)
