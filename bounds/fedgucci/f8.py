"""The union bound and Eqs (28) to (32): the gap at one input and one alpha."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Form, Kind, Options, Source, Statement
from bounds.cases.cube_networks import CubeFamily
from bounds.fedgucci.cases.segment_terms import gap
from bounds.fedgucci.families.fixed_input import HALF_WAY, fixed_input_families
from bounds.fedgucci.premises.cube_terms import IN_CUBE
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced, sign_flipped
from bounds.symbols import alpha, anchor_norm, b, delta, h, side


def gap_bound(events: int, anchor_terms: int) -> sp.Expr:
    tail = side * sp.sqrt(sp.log(2 * events / delta) / 2)
    apart = side * b * sp.sqrt(h * sp.log(2 * events * h / delta))
    return alpha * (1 - alpha) * apart * (2 * tail + anchor_terms * anchor_norm)


def printed_bound(events: int) -> sp.Expr:
    return sp.sqrt(2 * h) / 2 * b * (side**2 + side * anchor_norm) * sp.log(2 * events * h / delta)


def families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families, and one unit at a zero anchor with a large readout, where a kink has probability 1/2."""
    one = CubeFamily(h=1, l=1, side=1.0, n=1, at_origin=True, anchor_norm=10.0, trials=options.trials or 60)
    return fixed_input_families(options) + ((one,) if options.data is None else ())


STATEMENTS = (
    Statement(
        id="fedgucci/F8",
        title="The gap between networks drawn in the cube, at one input and one alpha",
        kind=Kind.PROBABILITY,
        source=Source(
            FEDGUCCI,
            "Eqs (28) to (32), k = 6",
            note="(31) and (32) read sqrt(hb), where (30) gives sqrt(h) b, which the KDD version prints. Both (30) and "
            "(32) are checked. There are three events: one for v_1, one for v_2, and one for (U_2 - U_1) x. So k = 3 "
            "is enough, and the two terms of the anchor's readout count once (F6)",
        ),
        hypotheses=(FAILURE_PROBABILITY, IN_CUBE),
        forms={
            Form.STATED: Claim((gap_bound(6, 2), printed_bound(6)), failure=delta),
            Form.NEW: Claim((gap_bound(3, 1), printed_bound(3)), failure=delta),
        },
        constants=lambda case: {
            side: case.side,
            anchor_norm: case.anchor_norm,
            b: case.b,
            h: case.h,
            delta: case.delta,
            alpha: HALF_WAY,
        },
        measure=lambda case: (abs(gap(case, np.array([HALF_WAY]))[0][0]),) * 2,
        left_formula=("|f_alpha(x) - alpha f_1(x) - (1 - alpha) f_2(x)|",) * 2,
        says_left="|f_alpha(x) - alpha f_1(x) - (1 - alpha) f_2(x)| at the first input and alpha = 1/2",
        families=families,
        mutants=(
            power(side, 12),
            sign_flipped(side, "the side"),
            replaced(alpha, alpha / 2000, "alpha a two-thousandth", Change.CONSTANT),
        ),
        uses=("fedgucci/F5", "fedgucci/F6", "fedgucci/F7"),
    ),
)
