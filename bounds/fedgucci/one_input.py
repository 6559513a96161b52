"""Statements on the gap at one input and one alpha, and on its parts: Eqs (18) to (32)."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Kind, Options, Source, Statement
from bounds.cases.cube_networks import EPS, CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import (
    ALPHAS,
    ROUNDING,
    distance_of_sides,
    end_preactivations,
    gap,
    kink_terms,
    mean_of,
    pair,
)
from bounds.fedgucci.premises.cube_terms import IN_CUBE
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced, sign_flipped
from bounds.symbols import alpha, anchor_norm, b, delta, h, l, side
from ntkfl.estimate import Estimate

HALF_WAY = 0.5


def relu_change(case: CubeNetworks) -> Estimate:
    """relu(g) - relu(U_1 x), (h,), at the first input and alpha = 1/2, where g = alpha U_1 x + (1 - alpha) U_2 x.

    The difference is exactly 0 for units that are surely off.
    """
    a, c = (side[0] for side in end_preactivations(case))
    rows = np.maximum(*(np.linalg.norm(net.hidden, axis=1) for net in pair(case)))
    error = 4 * (case.l + 8) * EPS * np.linalg.norm(case.x[0]) * rows
    middle = HALF_WAY * a + (1 - HALF_WAY) * c
    on = np.maximum(a, middle) > -error
    change = np.maximum(middle, 0) - np.maximum(a, 0)
    return Estimate(change * on, error * on, ROUNDING)


def fixed_input_families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families with few inputs and more seeds.

    Many seeds are needed to estimate the probability of an event. Only the first input is used.
    """
    return cube_families(options, n=8, trials=60)


k = sp.Symbol("k", positive=True)
moved, sides_apart_f5 = sp.symbols("q_r q", positive=True)
TAIL = side * sp.sqrt(sp.log(2 * k / delta) / 2)


def _constants_f5(case: CubeNetworks) -> dict:
    return {
        alpha: HALF_WAY,
        side: case.side,
        delta: case.delta,
        k: 6,
        moved: relu_change(case).norm(),
        sides_apart_f5: distance_of_sides(case)[0],
    }


def _measure_f5(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    moved = HALF_WAY * (Estimate.exact(pair(case)[0].readout) - case.anchor.readout)
    return (abs(moved @ relu_change(case)),) * 2


crossing, sides_apart_f6 = sp.symbols("q_x q", positive=True)


def _constants_f6(case: CubeNetworks) -> dict:
    return {
        alpha: ALPHAS[:, None],
        anchor_norm: case.anchor_norm,
        sides_apart_f6: distance_of_sides(case),
        crossing: distance_of_sides(case, crossing_only=True),
    }


def _rounding(case: CubeNetworks, active: np.ndarray) -> np.ndarray:
    """A bound on the rounding error of v_anc . t, (A, n).

    |t_i| <= |u_i| |x| for the units that are `active`, (A, n, h), and t_i = 0 for the other units.
    """
    rows = np.maximum(*(np.linalg.norm(net.hidden, axis=1) for net in pair(case)))
    sizes = active @ (rows * np.abs(case.anchor.readout))
    return 4 * (case.l + case.h + 8) * EPS * np.linalg.norm(case.x, axis=1) * sizes


def _as_printed(case: CubeNetworks) -> Estimate:
    a, c = end_preactivations(case)
    share = ALPHAS[:, None, None]
    change = np.maximum(share * a + (1 - share) * c, 0) - np.maximum(a, 0)
    value = ALPHAS[:, None] * np.abs(change @ case.anchor.readout)
    return Estimate(value, _rounding(case, np.ones(change.shape)), ROUNDING)


def _measure_f6(case: CubeNetworks) -> Estimate:
    """|v_anc . J| with J of `kink_terms`: the size of the sum of the two terms of the anchor's readout."""
    kinks = kink_terms(case, ALPHAS)
    return Estimate(np.abs(kinks @ case.anchor.readout), _rounding(case, kinks > 0), ROUNDING)


def wide_cube_families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families, and one unit at the anchor U_anc = 0, for which the bound is nearly attained."""
    family = CubeFamily(h=1, l=2, side=1.0, n=16, at_origin=True, trials=options.trials or 40)
    return cube_families(options, trials=20) + ((family,) if options.data is None else ())


moment, length = sp.symbols("M_x x", positive=True)


def _constants_f7(case: CubeNetworks) -> dict:
    # the smaller matrix is used, since x x' has the same largest eigenvalue as x' x
    x = case.x if case.x.shape[1] <= len(case.x) else case.x.T
    return {
        side: case.side,
        h: case.h,
        l: case.l,
        k: 6,
        delta: case.delta,
        b: case.b,
        length: Estimate.exact(case.x[0]).norm(),
        moment: Estimate(float(np.linalg.eigvalsh(x.T @ x / len(case.x))[-1]), 1e-13 * case.b**2, ROUNDING),
    }


def _mean_distance(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """Two left sides, made of the values of |(U_2 - U_1) x| at the inputs.

    The first is the mean over the inputs. The second has two entries: this mean and the largest value.
    """
    apart = distance_of_sides(case)
    mean = mean_of(apart)
    return mean, Estimate.stacked([mean, apart[int(np.argmax(apart.value))]])


HOEFFDING = sp.sqrt(h * sp.log(2 * h * k / delta))


def gap_bound(events: int, anchor_terms: int) -> sp.Expr:
    tail = side * sp.sqrt(sp.log(2 * events / delta) / 2)
    apart = side * b * sp.sqrt(h * sp.log(2 * events * h / delta))
    return alpha * (1 - alpha) * apart * (2 * tail + anchor_terms * anchor_norm)


def printed_bound(events: int) -> sp.Expr:
    return sp.sqrt(2 * h) / 2 * b * (side**2 + side * anchor_norm) * sp.log(2 * events * h / delta)


def families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families, and one unit at U_anc = 0 with a large readout, where a kink has probability 1/2."""
    family = CubeFamily(h=1, l=1, side=1.0, n=1, at_origin=True, anchor_norm=10.0, trials=options.trials or 60)
    return fixed_input_families(options) + ((family,) if options.data is None else ())


STATEMENTS = (
    Statement(
        id="fedgucci/F5",
        title="The random readout's part of the gap",
        kind=Kind.PROBABILITY,
        source=Source(FEDGUCCI, "Eqs (18), (19) and (20)"),
        note="holds for one input and one alpha that are fixed before the draw, given U_1 and U_2, with v_1 "
        "independent of both; k = 6 as in the paper. Both right sides fail together, with probability at most "
        "delta/k",
        hypotheses=(FAILURE_PROBABILITY, IN_CUBE),
        stated=Claim((alpha * TAIL * moved, alpha * (1 - alpha) * TAIL * sides_apart_f5), failure=delta / k),
        constants=_constants_f5,
        measure=_measure_f5,
        symbols={
            k: "number of events of the union bound, 6",
            moved: "|relu(g) - relu(U_1 x)|_2, g = alpha U_1 x + (1 - alpha) U_2 x",
            sides_apart_f5: "|(U_2 - U_1) x|_2",
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
    Statement(
        id="fedgucci/F6",
        title="The anchor's readout's part of the gap",
        kind=Kind.UPPER,
        source=Source(FEDGUCCI, "Eqs (21), (22) and (23)"),
        note="for any two networks. The new form combines both terms of the anchor's readout before it bounds "
        "them, which gives half of the paper's sum of two bounds; and only units whose sign differs between the "
        "networks count",
        stated=Claim(
            alpha * (1 - alpha) * anchor_norm * sides_apart_f6,
            left_formula="alpha |v_anc^T (relu(g_alpha(x)) - relu(U_1 x))|",
            measure=_as_printed,
        ),
        new=Claim(alpha * (1 - alpha) * anchor_norm * crossing),
        constants=_constants_f6,
        measure=_measure_f6,
        symbols={
            sides_apart_f6: "|(U_2 - U_1) x|_2",
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
    Statement(
        id="fedgucci/F7",
        title="|(U_2 - U_1) x| of networks drawn in the cube",
        kind=Kind.PROBABILITY,
        source=Source(FEDGUCCI, "Eqs (24) to (27)"),
        note="(27) prints an equality though |x| < b; an upper bound is meant. It is right for one fixed input, "
        "with 2 l variables in each row and a union bound over h rows. The new bounds have no logarithm and no "
        "failure probability: one bounds the mean over the inputs by their second moment (for x uniform in the "
        "ball the largest eigenvalue is b^2/(l+2)), one bounds the value at each input",
        hypotheses=(FAILURE_PROBABILITY, IN_CUBE),
        stated=Claim(
            (side * length * HOEFFDING, side * b * HOEFFDING),
            failure=delta / k,
            measure=lambda case: (distance_of_sides(case)[0],) * 2,
            left_formula=("|(U_2 - U_1) x|",) * 2,
        ),
        new=Claim((side * sp.sqrt(h * l * moment), side * b * sp.sqrt(h * l))),
        constants=_constants_f7,
        measure=_mean_distance,
        symbols={
            k: "number of events of the union bound, 6",
            length: "|x| of the first input",
            moment: "largest eigenvalue of the mean of x x^T over the inputs",
        },
        left_formula=("E_x |(U_2 - U_1) x|", "max_x |(U_2 - U_1) x|"),
        says_left="|(U_2 - U_1) x| for the first input; new form: the mean over the inputs, and the largest value",
        families=fixed_input_families,
        mutants=(power(h, -1), power(side, 3), power(l, -1)),
    ),
    Statement(
        id="fedgucci/F8",
        title="The gap between networks drawn in the cube, at one input and one alpha",
        kind=Kind.PROBABILITY,
        source=Source(FEDGUCCI, "Eqs (28) to (32), k = 6"),
        note="(31) and (32) read sqrt(hb), where (30) gives sqrt(h) b, which the KDD version prints. Both (30) and "
        "(32) are checked. There are three events: one for v_1, one for v_2, and one for (U_2 - U_1) x. So k = 3 "
        "is enough, and the two terms of the anchor's readout count once (F6)",
        hypotheses=(FAILURE_PROBABILITY, IN_CUBE),
        stated=Claim((gap_bound(6, 2), printed_bound(6)), failure=delta),
        new=Claim((gap_bound(3, 1), printed_bound(3)), failure=delta),
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
