"""X.9: the share of activations that change and the drift of the kernel, with coefficients from the boundary layer."""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.ladders.slopes import NoSlope, slope
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import replaced, shifted
from ntkfl import Estimate, Problem, Setup
from ntkfl.finite_width.boundary_layer import PatternChange, pattern_change

F = sp.Symbol("F", positive=True)
B = sp.Symbol("B_ij", real=True)
HALF = sp.Rational(1, 2)


def _measure(ladder: WidthLadder) -> tuple[Estimate, ...]:
    flips, drift = ladder.samples("flips"), ladder.samples("gram_drift")
    slopes = slope(ladder.sizes, flips), slope(ladder.sizes, ladder.split("gram_drift")[0])
    share = leading_coefficient(ladder.sizes, flips, -0.5)
    matrix = leading_coefficient(ladder.sizes, drift, -0.5)
    if not share.lo > 0:
        raise NoSlope(
            f"the coefficient of the share of flips, {share}, is not told from 0: the networks move too little"
        )
    relative = share.error / share.value
    per_flip = Estimate(
        matrix.value / share.value,
        (matrix.error + relative * np.abs(matrix.value)) / share.lo,
        matrix.method,
        matrix.rigour,
    )
    return *slopes, share.log(), per_flip


@lru_cache(maxsize=4)
def _predicted(problem: Problem, setup: Setup) -> PatternChange:
    """F(t) and B(t); cached, since all looks at a ladder have one problem and setup."""
    return pattern_change(problem, setup)


def _constants(ladder: WidthLadder) -> dict:
    predicted = _predicted(ladder.problem, ladder.setup)
    return {F: predicted.flips[-1], B: predicted.drift[-1]}


STATEMENTS = (
    Statement(
        id="fl-ntk/X.9",
        title="Boundary layer: flips and kernel drift are of order m^(-1/2), with these coefficients",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/finite_width.md#boundary-layer",
            note="only neurons with |w.x_i| = O(m^(-1/2)) change their pattern. For these z = sqrt(m) w.x_i follows a "
            "scalar recursion with the residuals of infinite width; the patterns on the other samples are frozen. z "
            "starts uniform near 0 with density 1/(sqrt(2 pi) sigma |x_i|), and the frozen patterns are those of a "
            "Gaussian w orthogonal to x_i. The average over both gives the share of flipped pairs, F m^(-1/2), and "
            "E[H(T) - H(0)] = B m^(-1/2). The drift is not of order 1/m, as it is for a smooth activation: a neuron's "
            "own sample pulls it on one side of the kink only, so that more neurons leave than enter",
        ),
        forms={
            Form.NEW: Claim(
                (-HALF, -HALF, sp.log(F), B / F),
                note="exponents in the width of the share of flips and of |E[H(T) - H(0)]|_F; the logarithm of the "
                "coefficient of the share; the coefficient of the mean drift over that of the share, entry by entry",
            )
        },
        constants=_constants,
        measure=_measure,
        symbols={
            F: "flips after T rounds, as a share of all pairs, times sqrt(m), from the boundary layer",
            B: "entries of E[H(T) - H(0)], times sqrt(m), from the boundary layer",
        },
        left_formula=(
            "exponent in m of share of flips",
            "exponent in m of |E (H(T) - H(0))|_F",
            "log lim_{m -> inf} sqrt(m) share of flips",
            "lim_{m -> inf} E (H(T) - H(0))_{ij} / share of flips",
        ),
        says_left="log-log slopes over a ladder of widths, and the coefficients of m^(-1/2) extrapolated from it",
        families=ladder_families,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-HALF),
            replaced(F, sp.Rational(3, 2) * F, "F half as large again"),
            replaced(B, -B, "drift of the other sign"),
            replaced(B, B / 2, "drift from one of its two samples only"),
        ),
        uses=("fl-ntk/X.1",),
    ),
)
