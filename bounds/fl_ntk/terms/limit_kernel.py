"""Computations with H_inf, the kernel of a run's data at infinite width: training on features, and a round's remainder.

Training on features is training of f(x_i) = L_i . w, where the kernel is L L^T. The remainder is xi(t) = (y(t+1) - y) -
(I - rho H_inf) (y(t) - y). Appendix C takes lambda and kappa of H_inf, and its recursion bounds this remainder.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from flint import arb_mat

from bounds import Hypothesis, Limit
from bounds.cases.kernel_case import KernelCase
from bounds.federated_run import FederatedRun, distance, run_values
from bounds.fl_ntk.premises import TINY, contracted
from bounds.fl_ntk.terms.round_map import STEP
from bounds.formula import evaluate
from bounds.symbols import K, N, eta_global, eta_local, lam, mu
from ntkfl import Estimate, Problem, gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Rigour
from ntkfl.limit.infinite_width import KernelRegime

LIMIT_SYMBOLS = {lam: "smallest eigenvalue of H_inf", mu: "largest eigenvalue of H_inf"}


class LimitKernel(NamedTuple):
    """H_inf with its rounding bound, (n, n), and its extreme eigenvalues, certified."""

    matrix: Estimate
    smallest: Estimate
    largest: Estimate


def limit_kernel(case: FederatedRun | KernelCase) -> LimitKernel:
    """The limit kernel of a case's data.

    The result is kept for later calls, since all seeds of a user's data have the same kernel.
    """
    return _limit_kernel(case.problem)


@lru_cache(maxsize=4)
def _limit_kernel(problem: Problem) -> LimitKernel:
    h = gram.infinite_estimate(problem.x)
    return LimitKernel(h, gram.smallest_eigenvalue(h), gram.largest_eigenvalue(h))


def round_rate(case: FederatedRun | KernelCase) -> Estimate:
    """rho = eta_g eta_l K / N of a run or of a kernel case, in ball arithmetic."""
    return evaluate(STEP, run_values(case, eta_global, eta_local, K, N))


def _round_step(case: FederatedRun | KernelCase) -> float:
    kernel = limit_kernel(case)
    return float(round_rate(case).hi) * (float(kernel.largest.hi) + float(kernel.smallest.hi)) * (1 + 1e-12)


POSITIVE_LIMIT_KERNEL = Hypothesis(
    "positive-limit", "lambda_min(H_inf) > 0, certified", lambda case: float(limit_kernel(case).smallest.lo) - TINY
)
CONTRACTS_AT_LIMIT_RATE = Hypothesis(
    "contracts-so-far",
    "Eq (7) with lambda of H_inf held in every round before: r(t)^2 <= (1 - rho lambda/2)^t r_0^2",
    lambda case: contracted(case, limit_kernel(case).smallest),
    eased_by=("eta_local", "eta_global", "width"),
)
SMALL_ROUND = Hypothesis(
    "small-step",
    "rho (mu + lambda) <= 2, of H_inf: then |I - rho H_inf| = 1 - rho lambda",
    Limit("rho (mu + lambda)", _round_step, at_most=2.0),
    eased_by=("eta_local", "eta_global"),
)
SMALL_LABELS = Hypothesis(
    "labels-at-most-1", "|y_i| <= 1", Limit("max |y_i|", lambda case: abs(case.problem.y).max(), at_most=1.0)
)


def _printed_step(case: FederatedRun) -> Estimate:
    s, kernel = case.setup, limit_kernel(case)
    local = s.eta_local * case.problem.n**2 * s.local_steps * float(kernel.largest.hi)
    return Estimate.exact(np.array([float(kernel.smallest.lo) ** 2 * (1 + 1e-9) - local, 1 - s.eta_global]))


PRINTED_STEP = Hypothesis(
    "printed-step",
    "eta_l <= lambda/(n^2 K kappa) and eta_g <= 1: the printed steps, O-constants 1",
    _printed_step,
    eased_by=("eta_local", "eta_global"),
)


def printed_powers(case: FederatedRun) -> Estimate:
    """(I - rho H_inf)^t y for t = 0..T, (T+1, n), from the nearest floats of H_inf and rho.

    The effect of the distance of these floats from H_inf and rho is added at the end. A change F of the map changes its
    t-th power by at most t |F| g^(t-1), where g >= 1 bounds the norms of both maps. Ball arithmetic with these
    distances as radii would overestimate the effect far more.
    """
    return _powers(case.problem, limit_kernel(case), float(case.rho.value), float(case.rho.error), case.setup.rounds)


@lru_cache(maxsize=4)  # they are kept, since all seeds of a user's data have the same powers
def _powers(problem: Problem, kernel: LimitKernel, step: float, step_error: float, rounds: int) -> Estimate:
    h, largest, rho = kernel.matrix, float(kernel.largest.hi), Estimate(step, step_error)
    times = np.arange(rounds + 1)
    deviation = float(rho.hi) * np.linalg.norm(h.error) + step_error * np.linalg.norm(h.value)
    growth = max(1.0, float(rho.hi) * largest * (1 + 1e-12) - 1 + 1e-12)
    with precision():
        scaled = ball_matrix(h.value) * ball(step)
        left, columns = ball_matrix(problem.y), []
        for _ in times:
            columns.append(enclosure(left))
            left = left - scaled * left
    carried = times * deviation * growth**times * np.linalg.norm(problem.y) * (1 + 1e-9)
    value, error = (np.array([getattr(c, part).ravel() for c in columns]) for part in ("value", "error"))
    return Estimate(value, error + carried[:, None], "ball", Rigour.ENCLOSED)


def error_norms(case: FederatedRun) -> Estimate:
    """|e(t)| for t = 0..T, where e(t) = y(t) - y + (I - rho H_inf)^t y."""
    return distance(case.observed("outputs") + printed_powers(case), case.problem.y)


def remainders(case: FederatedRun, round_map: Estimate) -> Estimate:
    """xi(t) = (y(t+1) - y) - A (y(t) - y) for t = 0..T-1, (T, n), where A, (n, n), is a linear map of one round."""
    off = case.observed("outputs") - case.problem.y
    return Estimate.stacked(off[t + 1] - round_map @ off[t] for t in range(case.setup.rounds))


def printed_map(case: FederatedRun) -> Estimate:
    """I - rho H_inf, (n, n)."""
    return np.eye(case.problem.n) - case.rho * limit_kernel(case).matrix


def remainder_ratio(case: FederatedRun) -> Estimate:
    """max_t |xi(t)| / |y - y(t)|, with the xi of the map I - rho H_inf. Eq (18) bounds this ratio."""
    xi, r = remainders(case, printed_map(case)), case.observed("residual_norm")[:-1]
    size = xi.norm(-1)
    low, high = size.lo * (1 - 1e-12) / r.hi, size.hi * (1 + 1e-12) / r.lo
    return Estimate.between(max(low.max(), 0.0), high.max(), size.method, size.rigour)


Look = Callable[[int, np.ndarray, arb_mat, arb_mat], None]


def train_features(case: KernelCase, rounds: int, look: Look | None = None) -> arb_mat:
    """The weights w, (n, 1), of f(x_i) = L_i . w with H = L L^T, after training from w = 0.

    Every local step calls `look` with the round, the client's samples, their rows of L, and their outputs minus the
    labels.
    """
    problem, setup = case.problem, case.setup
    step, server = ball(setup.eta_local), ball(setup.eta_global) / problem.n_clients
    weights = arb_mat(problem.n, 1)
    for t in range(rounds):
        change = arb_mat(problem.n, 1)
        for members in problem.members:
            rows, labels = ball_matrix(case.factor[members]), ball_matrix(problem.y[members])
            local = weights
            for _ in range(setup.local_steps):
                off = rows * local - labels
                if look is not None:
                    look(t, members, rows, off)
                local = local - rows.transpose() * off * step
            change = change + local - weights
        weights = weights + change * server
    return weights


def limit_divergence(regime: KernelRegime) -> float:
    """The mean distance of the clients from their mean, divided by the mean's step, in the last round of a regime.

    Client c moves by J_c' P_c r_c. Here J_c are the gradients of the client's outputs, r_c is the residual on the
    client's samples, and P_c is the response to r_c.
    """
    clients, owner = regime.problem.n_clients, regime.problem.owner
    residual = regime.residual(regime.setup.rounds - 1)
    moved = regime.blocks.apply(regime.blocks.response(), residual[:, None])[:, 0]
    mean = moved / clients

    def size(c: np.ndarray) -> float:
        return float(np.sqrt(c @ regime.gram @ c))

    return float(np.mean([size(np.where(owner == c, moved, 0) - mean) for c in range(clients)])) / size(mean)
