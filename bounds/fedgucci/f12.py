"""Eqs (7) and (8): the connectivity loss, and the objective that contains it."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Kind, Source, Statement
from bounds.cases.cube_networks import CubeNetworks
from bounds.fedgucci.cases.segment_terms import ROUNDING, crossings, loss_at, mean_square, pair
from bounds.fedgucci.families.cube_families import small_families
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from ntkfl.connectivity.barrier import connectivity_loss
from ntkfl.connectivity.paths.segment import Segment, squared_error
from ntkfl.estimate import Estimate

outer_low, middle, outer_high, own_loss, beta = sp.symbols("Q_- Q_0 Q_+ L beta", positive=True)
BETA = 0.7
NODES = np.array([-np.sqrt(3 / 5), 0.0, np.sqrt(3 / 5)])


def _constants(case: CubeNetworks) -> dict:
    """For each of the three Gauss points, the sum over the pieces of width times loss."""
    edges = crossings(case)
    left, widths = edges[:-1], np.diff(edges)
    sums = widths @ mean_square(case, left[:, None] + widths[:, None] * (NODES + 1) / 2)
    own = loss_at(case, 1.0)
    error = 20 * (own.error + loss_at(case, 0.0).error) + (len(widths) + 8) * 4e-16 * sums.max()
    quadrature = zip((outer_low, middle, outer_high), sums, strict=True)
    return {s: Estimate(value, error, ROUNDING) for s, value in quadrature} | {own_loss: own, beta: BETA}


def _measure(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    loss = connectivity_loss(*pair(case), case.x, case.y)
    at_first = float(squared_error(Segment(*pair(case), case.x), case.y).at(1.0))
    total = at_first + BETA * float(loss.value)
    return loss, Estimate(total, 2 * float(loss.error) + 4e-16 * total, loss.method, loss.rigour)


GAUSS = (5 * outer_low + 8 * middle + 5 * outer_high) / 18

CONNECTION = "L_{connect}(w_1, w_2)"

STATEMENTS = (
    Statement(
        id="fedgucci/F12",
        title="The connectivity loss is exact with three Gauss points in each piece",
        kind=Kind.EQUALITY,
        source=Source(FEDGUCCI, "Eqs (7) and (8)"),
        note="a definition. Between two kinks (where a unit changes its sign) the squared loss is quartic in "
        "alpha, so three Gauss points, exact to degree 5, make no error; a single rule of 5 points on [0, 1] is "
        "off by 1e-4. One uniform alpha for each batch gives an unbiased estimate",
        stated=Claim((GAUSS, own_loss + beta * GAUSS)),
        constants=_constants,
        measure=_measure,
        symbols={
            outer_low: "sum over the pieces of width times L at the first Gauss point",
            middle: "sum over the pieces of width times L at the piece's middle",
            outer_high: "sum over the pieces of width times L at the third Gauss point",
            own_loss: "L(w_1); w_1 is the network that is trained, w_2 the anchor",
            beta: "weight of the connectivity loss",
        },
        left_formula=(CONNECTION, f"L(w_1) + beta {CONNECTION}"),
        says_left="left 1: the integral of the pieces' polynomials over [0, 1]; left 2: L(w_1) plus beta times this "
        "integral",
        families=small_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(outer_low, outer_high, "the last Gauss point twice", Change.INDEX),
            replaced(middle, (outer_low + outer_high) / 2, "the middle dropped", Change.FACTOR),
            power(beta, 2),
            sign_flipped(beta, "the connectivity loss"),
        ),
        uses=("fedgucci/X1",),
    ),
)
