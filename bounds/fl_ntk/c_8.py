"""Claim C.8: the part of the weights' movement that the initial features and the limiting kernel make."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun, federated_run
from bounds.fl_ntk.families.few_points import small_steps
from bounds.fl_ntk.terms.limit_kernel import LIMIT_SYMBOLS, POSITIVE_LIMIT_KERNEL, SMALL_ROUND, limit_kernel
from bounds.fl_ntk.terms.round_map import SIZED_H, size
from bounds.mutants import replaced
from bounds.symbols import delta, label_bound, lam, m, n
from ntkfl import Estimate, Problem, Setup, gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision

Dy = sp.MatrixSymbol("D_y", size, 1)  # sum_{t<T} rho (I - rho H)^t y
EPS = np.finfo(float).eps


def _constants(case: FederatedRun) -> dict:
    h = limit_kernel(case).matrix
    return run_values(case, m, n) | {
        SIZED_H: h,
        Dy: _summed(case, h),
        lam: limit_kernel(case).smallest,
        delta: 0.1,
        label_bound: np.abs(case.problem.y).max(),
    }


def _summed(case: FederatedRun, h: Estimate) -> Estimate:
    """D y in balls, by doubling: from the sums over 1, 2, 4, ... rounds."""
    with precision():
        step = ball(float(case.rho.value), float(case.rho.error))
        power = ball_matrix(np.eye(len(h.value))) - ball_matrix(h.value, h.error) * step
        summed = ball_matrix(case.problem.y) * step
        total, left = summed * 0, case.setup.rounds
        while left:
            total = summed + power * total if left % 2 else total
            left //= 2
            if left:
                summed, power = summed + power * summed, power * power
        return enclosure(total)


def _measure(case: FederatedRun) -> Estimate:
    """|B_1|_F^2 = |sum_t rho J(0,0) (I - rho H_inf)^t y|^2, summed round by round, as a vector of weights."""
    x, h, step = case.problem.x, limit_kernel(case).matrix, float(case.rho.value)
    rounds, hidden = case.setup.rounds, case.weights.hidden
    left, total = case.problem.y, np.zeros(len(x))
    for _ in range(rounds):
        total = total + step * left
        left = left - step * (h.value @ left)
    # In one round rounding adds at most (n + 8) eps (1 + rho |H|) |left|, and an error in H adds rho |dH| |left|; both
    # are carried on by at most `growth` in all the rounds that follow.
    norm = np.linalg.norm(h.value)
    growth = max(1.0, float(np.abs(1 - step * np.linalg.eigvalsh(h.value)).max()) + 1e-12) ** (2 * rounds)
    per_round = (len(x) + 8) * EPS * (1 + step * norm) + step * np.linalg.norm(h.error)
    spread = step * rounds**2 * growth * per_round * np.linalg.norm(case.problem.y)
    change = (case.weights.signs[:, None] * gram.activations(x, hidden).T) @ (total[:, None] * x) / np.sqrt(len(hidden))
    square = (change**2).sum()
    moved = np.linalg.norm(x) * (spread + (len(x) + 8) * EPS * np.abs(total).sum())
    doubt = gram.doubtful(x, hidden) @ (np.abs(total) * np.linalg.norm(x, axis=1)) / np.sqrt(len(hidden))
    error = moved + doubt + 1e-14 * np.sqrt(square)
    return Estimate(square, 2 * np.sqrt(square) * error + error**2, "rounding bound")


def _large_step() -> FederatedRun:
    """Two points and a step beyond 2/mu: D, and with it the effect of H(0) - H_inf, grows in every round."""
    problem = Problem(np.eye(2), np.ones(2), name="two orthogonal points")
    return federated_run(problem, Setup(width=64, eta_local=6.0, local_steps=1, rounds=20, seed=3))


STATEMENTS = (
    Statement(
        id="fl-ntk/C.8",
        title="B_1: movement by the initial features under the limiting kernel",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Claim C.8",
            note="the O-constant is taken as 1 and |y|^2 as at most n Y^2. |J D y|^2 = y^T D H(0) D y exactly, |D| <= "
            "1/lambda where rho (mu + lambda) <= 2, and |H(0) - H_inf|_F <= n sqrt(log(n/delta)/m) by C.6 (Hoeffding "
            "gives this constant for delta <= n/(n+1)). Only the proof assumes labels of size O(1)",
        ),
        hypotheses=(POSITIVE_LIMIT_KERNEL, SMALL_ROUND),
        forms={
            Form.STATED: Claim(
                sp.Trace(Dy.T * SIZED_H * Dy) + n**2 * label_bound**2 * sp.sqrt(sp.log(n / delta) / m) / lam**2,
                failure=delta,
            )
        },
        constants=_constants,
        measure=_measure,
        symbols={
            SIZED_H: "H_inf",
            Dy: "D y, D = sum_{t<T} rho (I - rho H_inf)^t and y the labels",
            lam: LIMIT_SYMBOLS[lam],
        },
        left_formula="|sum_t rho J(0,0) (I - rho H_inf)^t y|^2",
        says_left="|sum_t rho J(0,0) (I - rho H_inf)^t y|^2: summed round by round, as a vector of weights",
        families=small_steps,
        mutants=(
            replaced(label_bound**2, -(label_bound**2), "remainder subtracted", Change.SIGN),
            replaced(label_bound**2, -(label_bound**2) / n, "n for n^2, and subtracted", Change.POWER),
        ),
        necessity={"small-step": _large_step},
        uses=("fl-ntk/C.6",),
    ),
)
