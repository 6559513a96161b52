"""Statements on the clients of a round: the bias, variance and covariance of their models (Eqs (2), (8), (11) to (14)).

One statement is on the law from which the models are drawn.
"""

import numpy as np
import sympy as sp

from bounds import IMA, Change, Claim, Kind, Nature, Outcome, Source, Statement
from bounds.averaging.factors import (
    COVARIANCE,
    MEANINGS,
    VARIANCE,
    clients,
    covariance,
    factors,
    masked,
    one_coin_each,
    shares,
    variance,
)
from bounds.cases.ensembles import Ensemble, ensemble_families, estimated, squared
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import n
from ntkfl.balls import precision
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem

client_count = sp.Symbol("k", positive=True)
counts = sp.MatrixSymbol("c", client_count, 1)
sums = sp.MatrixSymbol("s", client_count, 1)
means = sp.MatrixSymbol("L", client_count, 1)
ones = sp.MatrixSymbol("e", client_count, 1)


def _constants_i1(case: Ensemble) -> dict:
    with precision():
        losses = squared(case.labels - case.fma_outputs[0])
        total = np.array([losses[own].sum() for own in case.problem.members], dtype=object)
        mean = total / case.sizes
    return {
        counts: case.sizes.astype(float),
        sums: estimated(total),
        means: estimated(mean),
        ones: np.ones(case.clients),
        n: case.problem.n,
    }


def three_and_seven() -> Ensemble:
    """Two clients with 3 and 7 samples.

    All inputs are 1, the labels are 1 and 2, and f(x) = x has the losses 0 and 1.
    """
    labels = np.repeat([1.0, 2.0], [3, 7])
    problem = Problem(np.ones((10, 1)), labels, np.repeat([0, 1], [3, 7]), name="3 and 7 samples")
    return Ensemble(problem, np.ones((1, 2, 1, 1)), np.ones((1, 2, 1)))


samples, rows = sp.symbols("s r", positive=True)
M = sp.Symbol("M", positive=True)
bias = sp.MatrixSymbol("b", samples, 1)
spread = sp.MatrixSymbol("Z", rows, samples)
wens_bias = sp.MatrixSymbol("b_wens", samples, 1)
wens_spread = sp.MatrixSymbol("Z_wens", rows, samples)


def _decomposed(bias: sp.MatrixSymbol, spread: sp.MatrixSymbol) -> sp.Expr:
    return sp.Trace(bias.T * bias) / n + sp.Trace(spread.T * spread) / (n * M)


def _constants_i2(case: Ensemble) -> dict:
    constants = {n: case.problem.n, M: case.draws}
    for outputs, b, z in ((case.outputs[:, 0], bias, spread), (case.wens_outputs, wens_bias, wens_spread)):
        with precision():
            mean = outputs.sum(axis=0) / len(outputs)
            constants |= {b: estimated(case.labels - mean), z: estimated(outputs - mean)}
    return constants


def two_coins() -> Ensemble:
    """Two independent clients with outputs +-1.

    The ensemble's variance is 1/2, and consists of the variance term alone.
    """
    return one_coin_each(np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]]), "two independent coins")


apart = sp.MatrixSymbol("C_product", clients, clients)


def _constants_i6(case: Ensemble) -> dict:
    with precision():
        mean = case.independent_covariances.sum(axis=2) / case.problem.n
    return factors(case) | {apart: masked(mean, ~np.eye(case.clients, dtype=bool))}


def _measure(case: Ensemble) -> Estimate:
    """The covariance part of the ensemble's variance, Var f_WENS - sum p_k^2 Var f_k, over the draws of a round.

    f_WENS is the output of the weighted ensemble.
    """
    with precision():
        wens = case.wens_outputs - case.wens_outputs.sum(axis=0) / case.draws
        alone = (case.shares[:, None] * case.outputs) - (case.shares[:, None] * case.mean_outputs)
        return estimated((squared(wens).sum() - squared(alone).sum()) / wens.size)


STATEMENTS = (
    Statement(
        id="averaging/I1",
        title="The global loss is the clients' losses weighted by their sizes",
        kind=Kind.EQUALITY,
        source=Source(IMA, "Eq (1)"),
        note="the first expression, sum (n_k/n) L_k with L_k the client's expected loss, is right. The second "
        "writes the sum of the client's sample losses for L_k, without 1/n_k. That 1/n_k was meant follows from "
        "the definition of L_k as an expectation. The line above (1) has n = sum up to N, where K is meant",
        stated=Claim(
            sp.Trace(counts.T * sums) / n,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISPRINT,
            witness=three_and_seven,
            reading="printed once, in (1)",
            consequence="Nothing in the paper uses the expanded form; code that follows it as printed weights "
            "clients by the square of their sizes.",
        ),
        repaired=Claim(sp.Trace(counts.T * means) / n),
        constants=_constants_i1,
        measure=lambda case: case.mean_loss(case.fma_outputs[:1]),
        symbols={
            counts: "n_k, one entry per client",
            sums: "sum over the client's samples of the loss",
            means: "mean over the client's samples of the loss",
            ones: "1 for every client",
        },
        left_formula="L(w_FMA)",
        says_left="squared loss of the averaged network of one round, averaged over all samples",
        families=ensemble_families,
        mutants=(
            MILLIONTH_MORE,
            power(n, sp.Rational(1, 2)),
            replaced(counts, ones, "the clients' sizes dropped", Change.FACTOR),
            replaced(n, n + 1, "n off by one", Change.INDEX),
            sign_flipped(counts, "the weights"),
        ),
    ),
    Statement(
        id="averaging/I2",
        title="Expected squared loss = squared bias + variance",
        kind=Kind.EQUALITY,
        source=Source(IMA, "Eq (2) and (8)"),
        note="holds for the squared loss if the mean output and the outer expectation are over the same law; here "
        "both are over the same finite set of draws, so that the sides differ by rounding only",
        stated=Claim((_decomposed(bias, spread), _decomposed(wens_bias, wens_spread))),
        constants=_constants_i2,
        measure=lambda case: (case.mean_loss(case.outputs[:, 0]), case.mean_loss(case.wens_outputs)),
        symbols={
            M: "number of joint draws",
            bias: "y - E f of the first client's model",
            spread: "f - E f of the first client's model, one row per draw",
            wens_bias: "y - E f of the weighted ensemble (WENS)",
            wens_spread: "f - E f of the weighted ensemble, one row per draw",
        },
        left_formula=("E (y - f_1)^2", "E (y - f_WENS)^2"),
        says_left="mean over draws and samples of (y - f)^2: of the first client's model; of the weighted ensemble",
        families=ensemble_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(M, M - 1, "sample variance: M read as M-1", Change.INDEX),
            replaced(1 / M, 0, "variance dropped", Change.FACTOR),
            replaced(M, -M, "sign of the variance flipped", Change.SIGN),
            replaced(M, M**2, "M^2 for M", Change.POWER),
        ),
    ),
    Statement(
        id="averaging/I5",
        title="Variance of the weighted ensemble: clients' variances and covariances",
        kind=Kind.EQUALITY,
        source=Source(IMA, "Eq (12) and (14)"),
        note="(12) and (14) print the covariance over all k, k', which repeats the variance term. Theorem 1 in the "
        "main text and (11) have k' != k and are right, so an index condition was left out. The excess is always "
        "the variance term",
        stated=Claim(
            2 * VARIANCE + COVARIANCE,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISPRINT,
            witness=two_coins,
            reading="(12) and (14) alike; Theorem 1 and (11) have k' != k",
            note="the double sum over all k, k' is the covariance over k != k' and the variance term once more",
            consequence="The theorem in the main text is not affected; code that follows the appendix counts the "
            "variance twice.",
        ),
        repaired=Claim(VARIANCE + COVARIANCE),
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
    Statement(
        id="averaging/I6",
        title="The covariance factor is that of the client models of a round",
        kind=Kind.DEFINITION,
        source=Source(IMA, "section 5.2, the law of {w_k}"),
        note="the paper writes the expectation over the product of the clients' solution sets, and calls only the draw "
        "of a single model uniform. Under the product law the clients are independent and every covariance is 0. This "
        "cannot be meant, since the paper measures the covariance and bounds it from below. The paper means the joint "
        "law of a round, in which clients share their start",
        stated=Claim(
            sp.Trace(shares.T * apart * shares),
            recorded=Outcome.VIOLATED,
            nature=Nature.READING,
            # Two clients with the same output, +1 or -1, which their common start decides. The covariance of the two
            # outputs is 1. The covariance would be 0 if the outputs were drawn independently.
            witness=lambda: one_coin_each(np.array([[1.0, 1], [-1, -1]]), "two clients, one coin"),
            reading="Theorem 1, its proof and Corollary 2 print the same product sign",
            note="this form takes the covariances under the product law, where each client is drawn independently",
            consequence="With the product law the covariance factor disappears from Theorem 1, and with it Corollary "
            "1; with the joint law both stand.",
        ),
        repaired=Claim(COVARIANCE),
        constants=_constants_i6,
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
