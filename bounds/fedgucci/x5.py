"""X5: the power of the cube's side that the barrier goes with."""

import sympy as sp

from bounds import Claim, Form, Kind, Source, Statement
from bounds.fedgucci.cases.side_ladder import SIDE_LADDERS
from bounds.mutants import shifted
from bounds.vocabulary import BEYOND

STATEMENTS = (
    Statement(
        id="fedgucci/X5",
        title="The barrier goes like d^2, and like d at U_anc = 0",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#powers-of-the-side",
            note="the right side of Theorem 3.5 goes like d d_anc for small d. With anchor rows away from 0 both "
            "parts of z are of second order, the product of the layers' differences and the kinks (R3); at U_anc = 0 "
            "a unit switches on a share of the inputs that does not fall with d. 1.86 was seen on d = .2 "
            "to .0125, where the larger sides are not yet small against the rows",
        ),
        forms={Form.NEW: Claim((sp.Integer(2), sp.Integer(1)), note="exponents in d: unit rows; U_anc = 0")},
        measure=lambda ladder: tuple(ladder.exponent(at_origin=zero) for zero in (False, True)),
        left_formula=(
            "exponent in d, anchor rows of length 1, of sup_alpha E_x |z_x(alpha)|",
            "exponent in d, anchor rows all 0, of sup_alpha E_x |z_x(alpha)|",
        ),
        says_left="log-log slope over a ladder of sides of sup over alpha of E_x |z_x(alpha)|, exact for each pair",
        families=(SIDE_LADDERS,),
        mutants=tuple(shifted(sp.Rational(quarters, 4)) for quarters in (-2, -1, 1, 2)),
        uses=("fedgucci/R3",),
    ),
)
