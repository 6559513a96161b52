"""The law of the client models: the joint law of a round, or the product law that the text prints."""

import numpy as np
import sympy as sp

from bounds import IMA, Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.averaging.cases.built_ensembles import one_coin_each
from bounds.averaging.factors import COVARIANCE, MEANINGS, clients, covariance, factors, masked, shares
from bounds.cases.ensembles import Ensemble, ensemble_families, estimated, squared
from bounds.mutants import MILLIONTH_MORE, replaced, sign_flipped
from ntkfl.balls import precision
from ntkfl.estimate import Estimate

apart = sp.MatrixSymbol("C_product", clients, clients)


def _constants(case: Ensemble) -> dict:
    with precision():
        mean = case.independent_covariances.sum(axis=2) / case.problem.n
    return factors(case) | {apart: masked(mean, ~np.eye(case.clients, dtype=bool))}


def _measure(case: Ensemble) -> Estimate:
    """The covariance part of the ensemble's variance, Var f_WENS - sum p_k^2 Var f_k, over the draws of a round."""
    with precision():
        wens = case.wens_outputs - case.wens_outputs.sum(axis=0) / case.draws
        alone = (case.shares[:, None] * case.outputs) - (case.shares[:, None] * case.mean_outputs)
        return estimated((squared(wens).sum() - squared(alone).sum()) / wens.size)


def shared_coin() -> Ensemble:
    """Two clients that both output the +-1 of their common start: covariance 1, or 0 if drawn independently."""
    return one_coin_each(np.array([[1.0, 1], [-1, -1]]), "two clients, one coin")


STATEMENTS = (
    Statement(
        id="averaging/I6",
        title="The covariance factor is that of the client models of a round",
        kind=Kind.DEFINITION,
        source=Source(
            IMA,
            "section 5.2, the law of {w_k}",
            note="the paper writes the expectation over the product of the clients' solution sets, and says 'uniform' "
            "of one model's set only. Under the product law the clients are independent and every covariance is 0. "
            "This cannot be meant, since the paper measures the covariance and bounds it from below. It means the "
            "joint law of a round, in which clients share their start",
        ),
        forms={
            Form.STATED: Claim(
                sp.Trace(shares.T * apart * shares),
                recorded=Outcome.VIOLATED,
                nature=Nature.READING,
                witness=shared_coin,
                reading="Theorem 1, its proof and Corollary 2 print the same product sign",
                note="covariances under the product law: each client is drawn independently",
                consequence="With the product law the covariance factor disappears from Theorem 1, and with it "
                "Corollary 1; with the joint law all of it stands.",
            ),
            Form.REPAIRED: Claim(COVARIANCE),
        },
        constants=_constants,
        measure=_measure,
        symbols=MEANINGS | {apart: "as C, for clients that are drawn independently"},
        left_formula="E_x (Var f_WENS(x) - sum_k p_k^2 Var f_k(x))",
        says_left="variance of the weighted ensemble over the draws of a round, less its clients' weighted variances",
        families=ensemble_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(covariance, apart, "the product law", Change.OTHER),
            sign_flipped(covariance, "the covariance"),
            replaced(covariance, covariance / 2, "each pair counted once", Change.INDEX),
            replaced(shares, 2 * shares, "n_k/n doubled", Change.FACTOR),
        ),
        uses=("averaging/I5",),
    ),
)
