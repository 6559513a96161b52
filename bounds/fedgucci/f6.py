"""Eqs (21) to (23): the part of the gap from the anchor's readout."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Form, Kind, Options, Source, Statement
from bounds.cases.cube_networks import EPS, CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import ALPHAS, ROUNDING, distance_of_sides, kink_terms, pair, sides
from bounds.mutants import power, replaced
from bounds.symbols import alpha, anchor_norm
from ntkfl.estimate import Estimate

crossing, sides_apart = sp.symbols("q_x q", positive=True)


def _constants(case: CubeNetworks) -> dict:
    return {
        alpha: ALPHAS[:, None],
        anchor_norm: case.anchor_norm,
        sides_apart: distance_of_sides(case),
        crossing: distance_of_sides(case, crossing_only=True),
    }


def _rounding(case: CubeNetworks, active: np.ndarray) -> np.ndarray:
    """Rounding of v_anc . t, (A, n), where |t_i| <= |u_i| |x| for `active` units (A, n, h), and t_i = 0 for others."""
    rows = np.maximum(*(np.linalg.norm(net.hidden, axis=1) for net in pair(case)))
    sizes = active @ (rows * np.abs(case.anchor.readout))
    return 4 * (case.l + case.h + 8) * EPS * np.linalg.norm(case.x, axis=1) * sizes


def _as_printed(case: CubeNetworks) -> Estimate:
    a, c = sides(case)
    share = ALPHAS[:, None, None]
    change = np.maximum(share * a + (1 - share) * c, 0) - np.maximum(a, 0)
    value = ALPHAS[:, None] * np.abs(change @ case.anchor.readout)
    return Estimate(value, _rounding(case, np.ones(change.shape)), ROUNDING)


def _measure(case: CubeNetworks) -> Estimate:
    """|v_anc . J|, the two terms of the anchor's readout together."""
    kinks = kink_terms(case, ALPHAS)
    return Estimate(np.abs(kinks @ case.anchor.readout), _rounding(case, kinks > 0), ROUNDING)


def wide_cube_families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families, and one unit at a zero anchor, where the bound is nearly attained."""
    one = CubeFamily(h=1, l=2, side=1.0, n=16, at_origin=True, trials=options.trials or 40)
    return cube_families(options, trials=20) + ((one,) if options.data is None else ())


STATEMENTS = (
    Statement(
        id="fedgucci/F6",
        title="The anchor's readout's part of the gap",
        kind=Kind.UPPER,
        source=Source(
            FEDGUCCI,
            "Eqs (21), (22) and (23)",
            note="for any two networks. The new form combines both terms of the anchor's readout before it bounds "
            "them, which gives half of the paper's sum of two bounds; and only units whose sign differs between the "
            "networks count",
        ),
        forms={
            Form.STATED: Claim(
                alpha * (1 - alpha) * anchor_norm * sides_apart,
                left_formula="alpha |v_anc^T (relu(g_alpha(x)) - relu(U_1 x))|",
                measure=_as_printed,
            ),
            Form.NEW: Claim(alpha * (1 - alpha) * anchor_norm * crossing),
        },
        constants=_constants,
        measure=_measure,
        symbols={
            sides_apart: "|(U_2 - U_1) x|_2",
            crossing: "|(U_2 - U_1) x|_2 over the units with (U_1 x)_i (U_2 x)_i < 0",
        },
        left_formula="|v_anc^T (alpha relu(U_1 x) + (1 - alpha) relu(U_2 x) - relu(g_alpha(x)))|",
        says_left="alpha |v_anc . (relu(g) - relu(U_1 x))|, g = g_alpha(x) = (alpha U_1 + (1 - alpha) U_2) x; new "
        "form: |v_anc . J|, J = alpha relu(U_1 x) + (1 - alpha) relu(U_2 x) - relu(g); for every input and eleven "
        "alphas",
        families=wide_cube_families,
        mutants=(
            replaced(1 - alpha, (1 - alpha) / 2, "half the share of w_2", Change.CONSTANT),
            power(alpha, 2),
            power(crossing, 2),
        ),
    ),
)
