"""Symbols and values of the remainder: what averaging weights, in place of outputs, adds to the loss."""

import sympy as sp

from bounds.cases.ensembles import Ensemble, ball_array, estimated, squared
from ntkfl.balls import precision
from ntkfl.estimate import Estimate, Rigour

remainder = sp.Symbol("R", real=True)
distance, radius = sp.symbols("Delta b", positive=True)
share = sp.Symbol("u", real=True)


def up_to_distance(loss: sp.Expr) -> sp.Expr:
    """The ensemble's loss plus O(Delta^2) written out, since |f_WENS - f_FMA| <= |x| Delta^2 / 2 between kinks.

    |R| <= 2 sqrt(L E gap^2) + E gap^2 with E gap^2 <= b^2 Delta^4 / 4.
    """
    return loss + share * (radius * distance**2 * sp.sqrt(loss) + radius**2 * distance**4 / 4)


def locality(case: Ensemble) -> dict:
    """The values of Delta, b, u and R of an ensemble."""
    with precision():
        gap = case.fma_outputs - case.wens_outputs
        left_over = (2 * (case.wens_outputs - case.labels) * gap + squared(gap)).sum() / gap.size
        norm = (squared(ball_array(case.problem.x)).sum() / case.problem.n).sqrt()
        return {
            remainder: estimated(left_over),
            radius: estimated(norm),
            distance: case.largest_distance,
            share: Estimate(0.0, 1.0, "ball", Rigour.ENCLOSED),
        }


LOCAL_MEANINGS = {
    remainder: "E[2 (f_WENS - y)(f_FMA - f_WENS) + (f_FMA - f_WENS)^2], exactly",
    distance: "largest |w_k - w_FMA| of any client in any draw",
    radius: "root mean square of |x| over the samples",
    share: "some number in [-1, 1]",
}
