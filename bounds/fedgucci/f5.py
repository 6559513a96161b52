"""Eqs (18) to (20): the part of the gap from the random readout, at a fixed input and alpha."""

import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.cube_networks import CubeNetworks
from bounds.fedgucci.cases.segment_terms import distance_of_sides, pair
from bounds.fedgucci.families.fixed_input import HALF_WAY, fixed_input_families, relu_change
from bounds.fedgucci.premises.cube_terms import IN_CUBE
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced
from bounds.symbols import alpha, delta, side
from ntkfl.estimate import Estimate

k = sp.Symbol("k", positive=True)
moved, sides_apart = sp.symbols("q_r q", positive=True)
TAIL = side * sp.sqrt(sp.log(2 * k / delta) / 2)


def _constants(case: CubeNetworks) -> dict:
    return {
        alpha: HALF_WAY,
        side: case.side,
        delta: case.delta,
        k: 6,
        moved: relu_change(case).norm(),
        sides_apart: distance_of_sides(case)[0],
    }


def _measure(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    moved = HALF_WAY * (Estimate.exact(pair(case)[0].readout) - case.anchor.readout)
    return (abs(moved @ relu_change(case)),) * 2


STATEMENTS = (
    Statement(
        id="fedgucci/F5",
        title="The random readout's part of the gap",
        kind=Kind.PROBABILITY,
        source=Source(
            FEDGUCCI,
            "Eqs (18), (19) and (20)",
            note="holds for one input and one alpha that are fixed before the draw, given U_1 and U_2, with v_1 "
            "independent of both; k = 6 as in the paper. Both right sides fail together, with probability at most "
            "delta/k",
        ),
        hypotheses=(FAILURE_PROBABILITY, IN_CUBE),
        forms={Form.STATED: Claim((alpha * TAIL * moved, alpha * (1 - alpha) * TAIL * sides_apart), failure=delta / k)},
        constants=_constants,
        measure=_measure,
        symbols={
            k: "number of events of the union bound, 6",
            moved: "|relu(g) - relu(U_1 x)|_2, g = alpha U_1 x + (1 - alpha) U_2 x",
            sides_apart: "|(U_2 - U_1) x|_2",
        },
        left_formula=("alpha |(v_1 - v_anc)^T (relu(g_alpha(x)) - relu(U_1 x))|",) * 2,
        says_left="alpha |(v_1 - v_anc) . (relu(g) - relu(U_1 x))| at the first input and alpha = 1/2",
        families=fixed_input_families,
        mutants=(
            power(side, 6),
            replaced(sp.log(2 * k / delta), delta**2 / 10**4, "the logarithm's argument turned round", Change.OTHER),
            replaced(alpha, alpha / 100, "alpha a hundredth", Change.CONSTANT),
        ),
    ),
)
