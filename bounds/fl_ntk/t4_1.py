"""Theorem 4.1: how many rounds bring the training loss to eps."""

import sympy as sp

from bounds import Claim, Form, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.cases.run_values import run_values
from bounds.fl_ntk.cases.accuracy_ladder import AccuracyLadder, KernelStart, accuracy_families, more_samples
from bounds.fl_ntk.premises import PACE, SERVER_AT_MOST_1, UNIT_ROWS
from bounds.hypothesis import Limit
from bounds.mutants import power, replaced
from bounds.symbols import K, N, eta_global, eta_local, lam, r0
from bounds.vocabulary import FL_NTK
from ntkfl.estimate import Estimate

eps = sp.Symbol("epsilon", positive=True)
WORK = r0**2 / (2 * N * eps)  # L(u(0)) / eps


def _runs(ladder: AccuracyLadder) -> list[KernelStart]:
    return [target.run for target in ladder.targets]


def _constants(ladder: AccuracyLadder) -> dict:
    by_run = [run_values(run, N, K, eta_local, eta_global, lam, r0) for run in _runs(ladder)]
    values = {symbol: Estimate.stacked(values_of[symbol] for values_of in by_run) for symbol in by_run[0]}
    return values | {eps: ladder.each(lambda target: target.eps)}


def _steps(ladder: AccuracyLadder) -> float:
    shares = []
    for run in _runs(ladder):
        lowest, highest = float(run.smallest_eigenvalue.lo), float(run.largest_eigenvalue.hi)
        limit = lowest**2 / (highest * run.setup.local_steps * run.problem.n**2)
        shares.append(run.setup.eta_local / limit)
    return max(shares)


def _above(ladder: AccuracyLadder) -> float:
    return min(
        float(target.run.initial_residual.lo) ** 2 / (2 * target.run.problem.n_clients * target.eps) - 1 - 1e-12
        for target in ladder.targets
    )


STATEMENTS = (
    Statement(
        id="fl-ntk/T4.1",
        title="Rounds to a training loss of eps",
        kind=Kind.ORDER,
        source=Source(
            FL_NTK,
            "Theorem 4.1",
            note="the theorem is labelled informal; its formal version, Theorem B.3, is right. The informal theorem "
            "has T = O(N/(lambda eta_l eta_g K) ln(1/eps)), and section 6 closes with (1 - rho lambda/2)^T <= eps, "
            "without the factor |y - y(0)|^2 of (7). From (7), L <= eps once T >= 2 N/(lambda eta_l eta_g K) ln(|y - "
            "y(0)|^2/(2 N eps)). The O() is judged without a choice of its constant: along a ladder of sizes, the "
            "number of rounds needed over the formula must not grow. At a fixed eps this quotient grows with n/N, "
            "without bound: with labels of size 1 the loss starts at n/(2 N), and the rounds needed grow like ln(n/(2 "
            "N eps)). The informal form is right for eps below some power of 1/L(u(0)), and for every eps if L(u(0)) "
            "<= 1: a hypothesis left out. The loss is written as a sum up to N where n is meant, over u in R^(d x M)",
        ),
        hypotheses=(
            UNIT_ROWS.of_every("run", _runs),
            Hypothesis(
                "steps",
                "eta_l <= lambda/(kappa K n^2): the O() with the constant 1",
                Limit("eta_l kappa K n^2 / lambda", _steps, at_most=1.0),
                eased_by=("eta_local",),
            ),
            SERVER_AT_MOST_1.of_every("run", _runs),
            Hypothesis("starts-above-eps", "L(u(0)) > eps: otherwise no round is needed", _above),
        ),
        forms={
            Form.STATED: Claim(
                PACE * sp.log(1 / eps),
                recorded=Outcome.VIOLATED,
                nature=Nature.MISSING_HYPOTHESIS,
                witness=more_samples,
                reading="two places agree: ln(1/eps) here, and no factor |y - y(0)|^2 at the end of section 6",
                consequence="count rounds with ln(|y - y(0)|^2/(2 N eps)) in place of ln(1/eps)",
            ),
            Form.REPAIRED: Claim(2 * PACE * sp.log(WORK)),
        },
        constants=_constants,
        measure=lambda ladder: ladder.each(lambda target: target.rounds),
        symbols={eps: "accuracy: L = |y - y(T)|^2/(2 N) <= epsilon", r0: "|y - y(0)|_2, where L(u(0)) = r_0^2/(2 N)"},
        left_formula="min {t : L(t) <= eps}",
        says_left="the first round with L <= eps, in the kernel regime, along ladders of eps, N, n/N and lambda",
        families=accuracy_families,
        mutants=(
            replaced(WORK, 1 / eps, "ln(1/eps) alone"),
            replaced(eps, 1, "eps dropped"),
            power(N, sp.Rational(1, 4)),
            power(lam, sp.Rational(1, 2)),
            power(eta_local, sp.Rational(1, 2)),
        ),
        uses=("fl-ntk/B.3",),
    ),
)
