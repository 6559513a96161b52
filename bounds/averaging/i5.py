"""Eqs (11), (12) and (14): the pairs of clients over which the covariance is summed."""

import numpy as np

from bounds import IMA, Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.averaging.cases.built_ensembles import one_coin_each
from bounds.averaging.factors import COVARIANCE, MEANINGS, VARIANCE, covariance, factors, shares, variance
from bounds.cases.ensembles import Ensemble, ensemble_families
from bounds.mutants import MILLIONTH_MORE, replaced, sign_flipped


def two_coins() -> Ensemble:
    """Two independent clients with outputs +-1: the ensemble's variance is 1/2, the variance term alone."""
    return one_coin_each(np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]), "two independent coins")


STATEMENTS = (
    Statement(
        id="averaging/I5",
        title="Variance of the weighted ensemble: clients' variances and covariances",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "Eq (12) and (14)",
            note="(12) and (14) print the covariance over all k, k', which repeats the variance term. Theorem 1 in the "
            "main text and (11) have k' != k and are right, so an index condition was left out. The excess is always "
            "the variance term",
        ),
        forms={
            Form.STATED: Claim(
                2 * VARIANCE + COVARIANCE,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISPRINT,
                witness=two_coins,
                reading="(12) and (14) alike; Theorem 1 and (11) have k' != k",
                note="the double sum over all k, k' is the covariance over k != k' and the variance term once more",
                consequence="The theorem in the main text is not affected; code that follows the appendix counts the "
                "variance twice.",
            ),
            Form.REPAIRED: Claim(VARIANCE + COVARIANCE),
        },
        constants=factors,
        measure=lambda case: case.mean_variance(case.wens_outputs),
        symbols=MEANINGS,
        left_formula="E_x Var f_WENS(x)",
        says_left="variance of the weighted sum of the clients' outputs, averaged over the samples",
        families=ensemble_families,
        mutants=(
            MILLIONTH_MORE,
            sign_flipped(covariance, "the covariance"),
            replaced(covariance, covariance / 2, "each pair counted once", Change.INDEX),
            replaced(variance, 2 * variance, "variance twice", Change.CONSTANT),
            replaced(shares, shares + shares, "n_k/n doubled", Change.FACTOR),
        ),
    ),
)
