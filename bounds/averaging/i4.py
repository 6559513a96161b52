"""Theorem 1: the loss of the averaged network as bias, variance, covariance and what the average itself adds."""

import numpy as np
import sympy as sp

from bounds.averaging.factors import BIAS, COVARIANCE, MEANINGS, VARIANCE, covariance, factors, heter, shares, variance
from bounds.averaging.premises import NO_KINK_BETWEEN
from bounds.cases.ensemble_draws import CLOSE, ensemble_draws
from bounds.cases.ensembles import Ensemble, ball_array, estimated, squared
from bounds.mutants import replaced, scaled, sign_flipped
from bounds.statement import IMA, Change, Claim, Form, Kind, Source, Statement
from bounds.symbols import n
from ntkfl.balls import precision
from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import Problem

remainder = sp.Symbol("R", real=True)
distance, radius = sp.symbols("Delta b", positive=True)
share = sp.Symbol("u", real=True)

DECOMPOSED = BIAS + VARIANCE + COVARIANCE


def up_to_distance(loss: sp.Expr) -> sp.Expr:
    """The loss of the ensemble with what O(Delta^2) leaves open: |f_WENS - f_FMA| <= |x| Delta^2 / 2 between kinks.

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


def across_a_kink() -> Ensemble:
    """f = relu(x) and f = relu(-x) averaged to 0: seen at x = 1 the pattern of one client differs from the other's."""
    problem = Problem(np.ones((2, 1)), np.array([0.5, 0.5]), np.array([0, 1]), name="a kink between two clients")
    return Ensemble(problem, 1e-6 * np.array([[[[1.0]], [[-1.0]]]]), np.ones((1, 2, 1)))


STATEMENTS = (
    Statement(
        id="averaging/I4",
        title="Loss of the averaged network: bias, variance, covariance, locality",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "Theorem 1, Eq (13)-(14)",
            note="the remainder is R = E[2(f_WENS - y)(f_FMA - f_WENS) + (f_FMA - f_WENS)^2] exactly. Delta is random, "
            "so that O(Delta^2) is O(E Delta^2) or, as here, of the largest Delta of the draws. As printed it is "
            "checked where no kink lies between clients, with |f_WENS - f_FMA| <= |x| Delta^2/2 for the constant of "
            "O(); the expectation runs over the joint law of a round (see I6), the covariance over k != k' (see I5). "
            "Train and heterogeneous bias partition one square and carry a cross term; R has either sign, so that a "
            "smaller Delta need not mean a smaller loss",
        ),
        forms={
            Form.STATED: Claim(
                up_to_distance(DECOMPOSED),
                hypotheses=(NO_KINK_BETWEEN,),
                draws=lambda options: ensemble_draws(options, amplitude=CLOSE),
                note="O(Delta^2) with its constant written out",
            ),
            Form.REPAIRED: Claim(DECOMPOSED + remainder),
        },
        constants=lambda case: factors(case) | locality(case),
        measure=lambda case: case.mean_loss(case.fma_outputs),
        symbols=MEANINGS | LOCAL_MEANINGS,
        says_left="squared loss of the network of averaged weights, averaged over draws and samples",
        draws=ensemble_draws,
        necessity={NO_KINK_BETWEEN.name: across_a_kink},
        mutants=(
            replaced(remainder, 0, "remainder dropped", Change.FACTOR),
            sign_flipped(remainder, "the remainder"),
            replaced(heter, -heter, "sign of the heterogeneous bias flipped", Change.SIGN),
            replaced(covariance, covariance + variance, "covariance summed over k = k' too", Change.INDEX),
            replaced(n, n**2, "n^2 for n", Change.POWER),
            scaled(sp.Rational(1_000_001, 1_000_000)),
            replaced(shares, 2 * shares, "n_k/n doubled", Change.CONSTANT),
        ),
        uses=("averaging/I2", "averaging/I3", "averaging/I5"),
    ),
)
