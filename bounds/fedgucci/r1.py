"""R1: the transitivity bound for the mean over data and all alpha at once, by the data's second moment."""

import sympy as sp

from bounds import BEYOND, Claim, Form, Source
from bounds.fedgucci.premises.cube_bound import cube_bound
from bounds.fedgucci.premises.cube_symbols import MORE_OUTPUTS, SPREAD, VECTOR_TAIL, N, d_anc, side, with_loss
from bounds.symbols import delta

R1 = SPREAD / 2 * (d_anc / 2 + side * (1 + MORE_OUTPUTS + sp.sqrt(sp.log(4 * N / delta) / 6)))

STATEMENTS = (
    cube_bound(
        "fedgucci/R1",
        "Barrier between two networks of a cube, second moment of the data known",
        Source(
            BEYOND,
            "docs/proofs/connectivity.md#two-networks-of-a-cube",
            note="x uniform in the ball has E x x^T = b^2/(l+2) I; the proof uses the second moment "
            "alone, so s^2 = lambda_max(E x x^T) gives it for any data fixed before the draw, samples included. "
            "Surely E_x |(U_1 - U_2) x| <= E1 = d s sqrt(h l). The terms of v_1 - v_anc and v_2 - v_anc: tails "
            "are averaged over x by Jensen. alpha runs over a net of ceil(sqrt(C h)) midpoints; between them "
            "the terms change by at most d E1/2, since |V_1 - V_anc| + |V_2 - V_anc| <= d sqrt(C h). Taking "
            "both as one sub-Gaussian sum would need log(2N/delta)/12 in place of log(4N/delta)/6. "
            + VECTOR_TAIL
            + " Here p = delta/(2N), "
            "sigma <= (d/sqrt 12)(1 - alpha)|(U_1 - U_2) x|, given U_1 and U_2",
        ),
        {Form.NEW: Claim(with_loss(R1), failure=delta)},
    ),
)
