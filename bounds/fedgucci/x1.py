"""X1: along a segment the mean loss is piecewise polynomial, so that barriers are exact without a grid."""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Family, Form, Hypothesis, Kind, Options, Source, Statement
from bounds.cases.cube_networks import CubeFamily, CubeNetworks
from bounds.fedgucci.cases.segment_terms import ROUNDING, crossings, loss_at, mean_square, pair
from bounds.fedgucci.families.far_labels import small_families, with_far_labels
from bounds.mutants import power, replaced, scaled, sign_flipped
from bounds.symbols import alpha
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.estimate import Estimate

u = sp.Symbol("u", real=True)  # place within a piece, -1..1
COEFFICIENTS = sp.symbols("c_0:5", real=True)
peak, first_loss, second_loss = sp.symbols("L_peak L_1 L_2", positive=True)
NODES = np.cos(np.pi * (np.arange(5) + 0.5) / 5)  # points at which a piece is interpolated
FROM_NODES = np.linalg.inv(np.vander(NODES, increasing=True))
BETWEEN_NODES = np.array([-0.8, -0.3, 0.45, 0.9])
NARROW = 1e-6  # narrower pieces are not interpolated


@lru_cache(maxsize=4)
def _pieces(case: CubeNetworks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left ends and widths of the pieces, (P,), and the quartic through five values of each, (P, 5)."""
    edges = crossings(case)
    widths = np.diff(edges)
    left, widths = edges[:-1][widths > NARROW], widths[widths > NARROW]
    values = mean_square(case, left[:, None] + widths[:, None] * (NODES + 1) / 2)
    return left, widths, values @ FROM_NODES.T


def _interpolated_peak(case: CubeNetworks) -> tuple[float, float]:
    """The loss where it exceeds its chord most, and the place, from every piece's ends and stationary points."""
    left, widths, quartics = _pieces(case)
    ends = mean_square(case, np.array([0.0, 1.0]))
    best, place = 0.0, 0.0
    for start, width, q in zip(left, widths, quartics, strict=True):
        line = np.array([ends[0] + (start + width / 2) * (ends[1] - ends[0]), width / 2 * (ends[1] - ends[0])])
        excess = q - np.concatenate([line, np.zeros(3)])
        roots = np.polynomial.polynomial.polyroots(excess[1:] * np.arange(1, 5))
        points = np.concatenate([[-1.0, 1.0], roots.real[(np.abs(roots.imag) < 1e-6) & (np.abs(roots.real) < 1)]])
        heights = np.polynomial.polynomial.polyval(points, excess)
        if heights.max() > best:
            best, place = float(heights.max()), float(start + width * (points[heights.argmax()] + 1) / 2)
    return float(mean_square(case, np.array([place]))[0]), place


def _constants(case: CubeNetworks) -> dict:
    top, place = _interpolated_peak(case)
    first, second = loss_at(case, 1.0), loss_at(case, 0.0)
    error = 20 * (first.error + second.error) + 1e-13 * (top + 1)
    rows = {c: Estimate(_pieces(case)[2][:, k, None], error, ROUNDING) for k, c in enumerate(COEFFICIENTS)}
    return rows | {
        u: BETWEEN_NODES,
        peak: Estimate(top, error, ROUNDING),
        alpha: Estimate(place, 1e-15, ROUNDING),
        first_loss: first,
        second_loss: second,
    }


def _measure(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """The loss between the five interpolated values of every piece; the exact barrier."""
    left, widths, _ = _pieces(case)
    places = left[:, None] + widths[:, None] * (BETWEEN_NODES + 1) / 2
    ends = Estimate.stacked([loss_at(case, 0.0), loss_at(case, 1.0)])
    values = mean_square(case, places)
    return (
        Estimate(values, 20 * ends.error.sum() + 1e-13 * (values.max() + 1), ROUNDING),
        loss_barrier(*pair(case), case.x, case.y).value,
    )


def _largest_activation(case: CubeNetworks) -> float:
    """The largest pre-activation at either end; if it is negative, all outputs on the segment are 0."""
    return max(float((case.x @ network.hidden.T).max()) for network in pair(case))


ACTIVE = Hypothesis("some-unit-active", "some unit is active on some input at one end", _largest_activation)


def _families(options: Options) -> tuple[Family, ...]:
    """`small_families`, and a family of so few units and inputs that the barrier is often on the last piece."""
    few = CubeFamily(h=2, l=2, side=1.5, n=2, trials=options.trials or 20)
    return small_families(options) + ((with_far_labels(few),) if options.data is None else ())


QUARTIC = sum(c * u**k for k, c in enumerate(COEFFICIENTS))

STATEMENTS = (
    Statement(
        id="fedgucci/X1",
        title="The exact loss barrier: the squared loss is a quartic between the kinks",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#the-gap-on-a-segment",
            note="a unit changes its sign at no more than n h points of the segment, the kinks. Between kinks an "
            "output is quadratic in alpha and the mean squared error quartic; the mean absolute loss is quadratic "
            "between kinks and roots of residuals",
        ),
        forms={Form.NEW: Claim((QUARTIC, peak - alpha * first_loss - (1 - alpha) * second_loss))},
        hypotheses=(ACTIVE,),
        constants=_constants,
        measure=_measure,
        symbols={
            u: "place within a piece, -1..1",
            **{c: f"coefficient of u^{k} of the quartic through five evaluations" for k, c in enumerate(COEFFICIENTS)},
            peak: "loss at the highest of all pieces' ends and stationary points",
            alpha: "the place of L_peak on the segment alpha w_1 + (1 - alpha) w_2",
            first_loss: "L(w_1)",
            second_loss: "L(w_2)",
        },
        left_formula=("L(alpha w_1 + (1 - alpha) w_2)", "B_{loss}(w_1, w_2)"),
        says_left="left 1: the mean squared error, evaluated at four other points of every piece; left 2: the exact "
        "barrier",
        families=_families,
        mutants=(
            scaled(sp.Rational(100_001, 100_000)),
            replaced(COEFFICIENTS[4], 0, "cubic pieces", Change.POWER),
            power(u, 3),
            sign_flipped(COEFFICIENTS[1], "the slope"),
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
        ),
    ),
)
