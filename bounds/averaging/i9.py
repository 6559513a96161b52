"""Corollary 2: Theorem 1 for clients of equal sizes, in mean variance and mean covariance."""

import numpy as np
import sympy as sp

from bounds import IMA, Change, Claim, Form, Kind, Source, Statement
from bounds.averaging.cases.built_ensembles import across_a_kink
from bounds.averaging.factors import MEANINGS, factors, heter, train
from bounds.averaging.locality import LOCAL_MEANINGS, locality, remainder, up_to_distance
from bounds.averaging.premises import EQUAL_SIZES, NO_KINK_BETWEEN, SEVERAL_CLIENTS
from bounds.cases.ensembles import CLOSE, Ensemble, ensemble_families, estimated
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced
from bounds.symbols import K, n
from ntkfl.balls import precision
from ntkfl.problem import Problem

clients = sp.Symbol("k", positive=True)
ones = sp.MatrixSymbol("e", clients, 1)
mean_variance = sp.Symbol("V_mean", real=True)
mean_covariance = sp.Symbol("C_mean", real=True)

AVERAGED = (
    sp.Trace(ones.T * (train + heter).T * (train + heter) * ones) / (n * K**2)
    + mean_variance / K
    + (K - 1) / K * mean_covariance
)


def _constants(case: Ensemble) -> dict:
    same = np.eye(case.clients, dtype=bool)
    with precision():
        own, other = case.covariances[same], case.covariances[~same]
        means = {
            mean_variance: estimated(own.sum() / own.size),
            mean_covariance: estimated(other.sum() / other.size),
        }
    return factors(case) | locality(case) | means | {K: case.clients, ones: np.ones(case.clients)}


def unequal_and_close() -> Ensemble:
    """Eight samples of a client with output 1 and one of a client with output 1.001: the bias is slightly off."""
    problem = Problem(np.ones((9, 1)), np.zeros(9), np.array([0] * 8 + [1]), name="8 samples and 1")
    return Ensemble(problem, np.ones((1, 2, 1, 1)), np.array([[[1.0], [1.001]]]))


STATEMENTS = (
    Statement(
        id="averaging/I9",
        title="Loss of the averaged network of clients of equal sizes",
        kind=Kind.EQUALITY,
        source=Source(
            IMA,
            "Corollary 2, Eq (15)",
            note="the printed prefix 1/(n K^2) and the sum over D cover the bias only; variance and covariance are "
            "averaged over D as well, as in (12). O(Delta^2) is taken as in Theorem 1 (I4): for clients without a kink "
            "between them, with its constant written out, so that the identity is checked to 1e-6. The new form has "
            "the exact remainder R",
        ),
        hypotheses=(SEVERAL_CLIENTS, EQUAL_SIZES),
        forms={
            Form.STATED: Claim(
                up_to_distance(AVERAGED),
                hypotheses=(NO_KINK_BETWEEN,),
                families=lambda options: ensemble_families(options, amplitude=CLOSE, equal=True),
                note="O(Delta^2) with its constant written out",
            ),
            Form.NEW: Claim(AVERAGED + remainder),
        },
        constants=_constants,
        measure=lambda case: case.mean_loss(case.fma_outputs),
        symbols=MEANINGS
        | LOCAL_MEANINGS
        | {
            K: "number of clients",
            ones: "1 for every client",
            mean_variance: "mean over clients and samples of Var f_k",
            mean_covariance: "mean over pairs of clients and samples of Cov",
        },
        left_formula="E (y - f_FMA)^2",
        says_left="squared loss of the network of averaged weights, averaged over draws and samples",
        families=lambda options: ensemble_families(options, equal=True),
        necessity={EQUAL_SIZES.name: unequal_and_close, NO_KINK_BETWEEN.name: across_a_kink},
        mutants=(
            index_shifted(K, 1),
            power(K, 2),
            MILLIONTH_MORE,
            replaced(remainder, 0, "remainder dropped", Change.FACTOR),
            replaced(mean_covariance, 0, "covariance dropped", Change.FACTOR),
            replaced(mean_variance, -mean_variance, "sign of the variance flipped", Change.SIGN),
        ),
        uses=("averaging/I4",),
    ),
)
