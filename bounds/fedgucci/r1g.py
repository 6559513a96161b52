"""R1g: the transitivity bound for the mean over any data of bounded length."""

import sympy as sp

from bounds import BEYOND, Claim, Form, Source
from bounds.fedgucci.premises.cube_bound import cube_bound
from bounds.fedgucci.premises.cube_symbols import LOG, MORE_OUTPUTS, b, d_anc, h, side, with_loss
from bounds.symbols import delta

R1G = side * b * sp.sqrt(h * LOG) / 2 * (d_anc / 2 + side * (1 + MORE_OUTPUTS + sp.sqrt(LOG / 6)))

STATEMENTS = (
    cube_bound(
        "fedgucci/R1g",
        "Barrier between two networks of a cube, any data of bounded length",
        Source(
            BEYOND,
            "docs/proofs/connectivity.md#two-networks-of-a-cube",
            note="for any law of x on |x| <= b that is fixed before the draw, also for a single point. With y = "
            "log(12Ch/delta), E_x ((U_1 - U_2)_i x)^2 <= d^2 b^2 y for all rows i except with probability .034 delta. "
            "R1's tail with p = 2 exp(-y) = delta/(6Ch) at N = ceil(sqrt(Ch)) <= Ch places of two readouts costs "
            "delta/3. As 1 + sqrt((C-1)/12) + sqrt(y/6) <= sqrt(2Cy) for y >= log 12, R1g implies Eq (32), for C "
            "outputs as in F9, under E_x and sup over alpha; so it implies Theorem 3.5 as the proof states it",
        ),
        {Form.NEW: Claim(with_loss(R1G), failure=delta)},
        uses=("fedgucci/R1",),
    ),
)
