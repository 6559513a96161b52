"""Statements on the outputs at initialisation and on the number of neurons near a kink: Eq (19) and Lemma B.8."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Hypothesis, Kind, Limit, Nature, Options, Source, Statement
from bounds.fl_ntk.premises import DRAWN_AT_UNIT_SIGMA, STATED_OUTPUT, UNIT_ROWS
from bounds.initial_network import InitialNetwork, initial_network_families, one_point
from bounds.mutants import power, replaced, without
from bounds.symbols import R, delta, label_bound, m, n, sigma
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps


def network_constants(case: InitialNetwork) -> dict:
    """The values of n, m, delta, R and the largest |y_i|."""
    return {
        n: case.problem.n,
        m: case.width,
        delta: case.delta,
        R: case.radius,
        label_bound: np.abs(case.problem.y).max(),
    }


def initial_outputs(case: InitialNetwork, below: float = np.inf) -> Estimate:
    """sum_r a_r relu(w_r.x_i) / sqrt m over the neurons with w_r.x_i at most `below`, (n,)."""
    z, m_ = case.preactivations, case.width
    kept = np.maximum(z, 0) * (z <= below)
    of_products = (case.problem.d + 4) * EPS * float(np.linalg.norm(case.weights.hidden, axis=1).sum()) * 2
    doubtful = np.abs(z - below) <= 1e-12 * abs(below) if np.isfinite(below) else np.zeros(z.shape, bool)
    error = (
        of_products + m_ * EPS * kept.sum(axis=1) + 2 * (below if np.isfinite(below) else 0.0) * doubtful.sum(axis=1)
    ) / np.sqrt(m_)
    return Estimate(kept @ case.weights.signs / np.sqrt(m_), error, "rounding bound")


def _families(options: Options) -> tuple:
    """The default families, and the same families with sigma = .1 and fewer seeds.

    Theorem C.11 needs a small sigma.
    """
    if options.sigma is not None:
        return initial_network_families(options)
    renamed = tuple(
        replace(draw, name=f"{draw.base.name} (sigma=.1), at initialisation")
        for draw in initial_network_families(replace(options, sigma=0.1, trials=options.trials or 60))
    )
    return initial_network_families(options) + renamed


mean_square = sp.Symbol("v_i", positive=True)

LARGEST = sp.sqrt(2 * sp.log(6 * m * n / delta))
PROVED_OUTPUT = LARGEST * sp.log(8 * n / delta)


@lru_cache(maxsize=1)  # both forms measure the same quantities
def _measure(case: InitialNetwork) -> tuple[Estimate, ...]:
    z, problem = case.preactivations, case.problem
    largest = Estimate(max(z.max(), 0.0), 1e-13 * np.abs(z).max(), "rounding bound")
    cut = float(np.sqrt(2 * np.log(6 * case.width * problem.n / case.delta)))
    kept = initial_outputs(case, cut)
    near = [(np.abs(z) < case.radius * (1 + side * 1e-12)).sum(axis=1) for side in (-1, 1)]
    residual = problem.y - initial_outputs(case)
    return (largest, abs(kept), Estimate.between(near[0], near[1], "counts"), residual @ residual)


def _hoeffding_constants(case: InitialNetwork) -> dict:
    squares = (np.maximum(case.preactivations, 0) ** 2).mean(axis=1)
    return network_constants(case) | {mean_square: Estimate(squares, 1e-11 * squares + 1e-14, "rounding bound")}


def _parts(output: sp.Expr) -> tuple:
    return LARGEST, output, 4 * m * R, n * (label_bound + output) ** 2


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq19",
        title="Size of the outputs at initialisation",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Eq (19)"),
        note="the bound rests on E_1 and E_2 of Lemma B.8 scaled by sigma. The mean of |y(0)|^2 is sigma^2 n/2, "
        "thousands of times below the bound",
        hypotheses=(UNIT_ROWS,),
        stated=Claim(2 * n * sigma**2 * sp.log(2 * m * n / delta) * sp.log(4 * n / delta) ** 2, failure=delta),
        constants=lambda case: network_constants(case) | {sigma: case.sigma},
        measure=lambda case: initial_outputs(case).norm().squared(),
        left_formula="|y(0)|^2",
        says_left="|y(0)|^2 of the drawn network",
        families=_families,
        necessity={"unit-rows": lambda: one_point(length=1000.0)},
        mutants=(power(n, -3), replaced(n * sigma**2, sigma**2 / m, "1/m for n", Change.FACTOR)),
        uses=("fl-ntk/B.8",),
    ),
    Statement(
        id="fl-ntk/B.8",
        title="Events E_1, E_2, E_3 at initialisation, and the residual they allow",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "Lemma B.8"),
        note="E_2 is stated with 2mn under the root and proved with 6mn; the last display has ln(4n/delta) where "
        "E_2 has ln(8n/delta). Both thresholds are true (the one with 6mn because M^2 L >= 6 for M^2 = 2 "
        "ln(6mn/delta), L = ln(8n/delta)). The proof uses |y_i| = O(1), which is stated nowhere: here the bound "
        "keeps Y. E_3 needs m R >= ln(3n/delta) ('the choice of R and m') and an R that does not depend on W. The "
        "failure probabilities in the proof add up to delta/12 + delta/4 + delta/3",
        hypotheses=(
            UNIT_ROWS,
            DRAWN_AT_UNIT_SIGMA,
            Hypothesis(
                "enough-neurons-near-kinks",
                "m R >= ln(3n/delta)",
                Limit(
                    "m R",
                    lambda case: case.width * case.radius,
                    at_least=lambda case: np.log(3 * case.problem.n / case.delta) + 1e-9,
                ),
                eased_by=("width",),
            ),
        ),
        stated=Claim(
            _parts(STATED_OUTPUT),
            failure=delta,
            nature=Nature.PROOF_GAP,
            consequence="none for the events; the bound on |y - y(0)|^2 is O(n) only up to logarithms of m "
            "(B.8-hoeffding has none)",
        ),
        repaired=Claim(_parts(PROVED_OUTPUT), failure=2 * delta / 3),
        constants=network_constants,
        measure=_measure,
        left_formula=(
            "max_{r,i} relu(w_r^T x_i)",
            "|sum_r a_r relu(w_r^T x_i) 1{w_r^T x_i <= (2 log(6 m n / delta))^{1/2}}| / sqrt(m)",
            "|{r : |w_r^T x_i| < R}|",
            "|y - y(0)|^2",
        ),
        says_left="max relu(w_r.x_i); |sum_r a_r relu(w_r.x_i)| / sqrt m over neurons below E_1's threshold; the count "
        "of neurons with |w_r.x_i| < R; |y - y(0)|^2",
        families=initial_network_families,
        necessity={
            "unit-rows": lambda: one_point(length=100.0),
            "unit-sigma": lambda: one_point(sigma=0.01),
        },
        mutants=(power(m, sp.Rational(1, 2)), without(m)),
    ),
    Statement(
        id="fl-ntk/B.8-hoeffding",
        title="Outputs at initialisation, by Hoeffding over the signs",
        kind=Kind.PROBABILITY,
        source=Source(FL_NTK, "repairs Lemma B.8"),
        note="given W, y_i(0) is a sum of independent signs times relu(w_r.x_i)/sqrt m. No m enters the logarithm, "
        "and the width of Theorem B.3 needs a bound without m",
        new=Claim(sp.sqrt(2 * mean_square * sp.log(2 * n / delta)), failure=delta),
        constants=_hoeffding_constants,
        measure=lambda case: abs(initial_outputs(case)),
        symbols={mean_square: "(1/m) sum_r relu(w_r.x_i)^2"},
        left_formula="|y_i(0)|",
        says_left="|y_i(0)| of the drawn network, every sample",
        families=initial_network_families,
        mutants=(
            power(mean_square, 5),
            replaced(sp.log(2 * n / delta), sp.Rational(1, 2), "no logarithm", Change.FACTOR),
        ),
    ),
)
