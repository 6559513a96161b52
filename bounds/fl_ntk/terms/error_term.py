"""The recursion of appendix C: what a round and what t rounds leave over the linear map I - rho H_inf."""

from functools import lru_cache

import numpy as np

from bounds.federated_run import FederatedRun, distance
from bounds.fl_ntk.terms.limit_kernel import LimitKernel, limit_kernel
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import Problem


def printed_powers(case: FederatedRun) -> Estimate:
    """(I - rho H_inf)^t y for t = 0..T, (T+1, n), in balls around the floats of H_inf and rho.

    How far these floats are from H_inf and rho is added at the end: a change F of the map changes its t-th power by at
    most t |F| g^(t-1), g >= 1 a bound on the norms of both maps. Balls with radii would overestimate it by far more.
    """
    return _powers(case.problem, limit_kernel(case), float(case.rho.value), float(case.rho.error), case.setup.rounds)


@lru_cache(maxsize=4)  # seeds of a user's data have these in common
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
    """|e(t)|, t = 0..T, with e(t) = y(t) - y + (I - rho H_inf)^t y."""
    return distance(case.observed("outputs") + printed_powers(case), case.problem.y)


def remainders(case: FederatedRun, round_map: Estimate) -> Estimate:
    """xi(t) = (y(t+1) - y) - A (y(t) - y), t = 0..T-1, (T, n), for a linear map A of one round, (n, n)."""
    off = case.observed("outputs") - case.problem.y
    return Estimate.stacked(off[t + 1] - round_map @ off[t] for t in range(case.setup.rounds))


def printed_map(case: FederatedRun) -> Estimate:
    """I - rho H_inf, (n, n)."""
    return np.eye(case.problem.n) - case.rho * limit_kernel(case).matrix


def remainder_ratio(case: FederatedRun) -> Estimate:
    """max_t |xi(t)| / |y - y(t)|, xi of the map I - rho H_inf: the factor that Eq (18) bounds."""
    xi, r = remainders(case, printed_map(case)), case.observed("residual_norm")[:-1]
    size = xi.norm(-1)
    low, high = size.lo * (1 - 1e-12) / r.hi, size.hi * (1 + 1e-12) / r.lo
    return Estimate.between(max(low.max(), 0.0), high.max(), size.method, size.rigour)
