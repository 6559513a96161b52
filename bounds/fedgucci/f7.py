"""Eqs (24) to (27): |(U_2 - U_1) x| for the hidden layers of two networks that are drawn in the cube."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Claim, Form, Kind, Source, Statement
from bounds.cases.cube_networks import CubeNetworks
from bounds.fedgucci.cases.segment_terms import ROUNDING, distance_of_sides, mean_of
from bounds.fedgucci.families.fixed_input import fixed_input_families
from bounds.fedgucci.premises.cube_terms import IN_CUBE
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power
from bounds.symbols import b, delta, h, l, side
from ntkfl.estimate import Estimate

k = sp.Symbol("k", positive=True)
moment, length = sp.symbols("M_x x", positive=True)


def _constants(case: CubeNetworks) -> dict:
    x = case.x if case.x.shape[1] <= len(case.x) else case.x.T  # x x' has the same largest eigenvalue as x' x
    largest = float(np.linalg.eigvalsh(x.T @ x / len(case.x))[-1])
    return {
        side: case.side,
        h: case.h,
        l: case.l,
        k: 6,
        delta: case.delta,
        b: case.b,
        length: Estimate.exact(case.x[0]).norm(),
        moment: Estimate(largest, 1e-13 * case.b**2, ROUNDING),
    }


def _mean_distance(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """The mean of |(U_2 - U_1) x| over the inputs, and the largest."""
    apart = distance_of_sides(case)
    mean = mean_of(apart)
    return mean, Estimate.stacked([mean, apart[int(np.argmax(apart.value))]])


HOEFFDING = sp.sqrt(h * sp.log(2 * h * k / delta))

STATEMENTS = (
    Statement(
        id="fedgucci/F7",
        title="|(U_2 - U_1) x| of networks drawn in the cube",
        kind=Kind.PROBABILITY,
        source=Source(
            FEDGUCCI,
            "Eqs (24) to (27)",
            note="(27) prints an equality though |x| < b; an upper bound is meant. It is right for one fixed input, "
            "with 2 l variables in each row and a union bound over h rows. The new bounds have no logarithm and no "
            "failure probability: one bounds the mean over the inputs by their second moment (for x uniform in the "
            "ball the largest eigenvalue is b^2/(l+2)), one bounds the value at each input",
        ),
        hypotheses=(FAILURE_PROBABILITY, IN_CUBE),
        forms={
            Form.STATED: Claim(
                (side * length * HOEFFDING, side * b * HOEFFDING),
                failure=delta / k,
                measure=lambda case: (distance_of_sides(case)[0],) * 2,
                left_formula=("|(U_2 - U_1) x|",) * 2,
            ),
            Form.NEW: Claim((side * sp.sqrt(h * l * moment), side * b * sp.sqrt(h * l))),
        },
        constants=_constants,
        measure=_mean_distance,
        symbols={
            k: "number of events of the union bound, 6",
            length: "|x| of the first input",
            moment: "largest eigenvalue of the mean of x x^T over the inputs",
        },
        left_formula=("E_x |(U_2 - U_1) x|", "max_x |(U_2 - U_1) x|"),
        says_left="|(U_2 - U_1) x| for the first input; new form: the mean over the inputs, and the largest value",
        families=fixed_input_families,
        mutants=(
            power(h, -1),
            power(side, 3),
            power(l, -1),
        ),
    ),
)
