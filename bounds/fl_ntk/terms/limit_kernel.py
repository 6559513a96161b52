"""The kernel at infinite width of a run's data, H_inf, which appendix C takes lambda and kappa of."""

from functools import lru_cache
from typing import NamedTuple

from bounds import Hypothesis
from bounds.cases.kernel_case import KernelCase
from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.premises import TINY, contracted
from bounds.fl_ntk.terms.one_round import STEP
from bounds.formula import evaluate
from bounds.hypothesis import Limit
from bounds.symbols import K, N, eta_global, eta_local, lam, mu
from ntkfl import gram
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem

LIMIT_SYMBOLS = {lam: "smallest eigenvalue of H_inf", mu: "largest eigenvalue of H_inf"}


class LimitKernel(NamedTuple):
    """H_inf with its rounding bound, (n, n), and its extreme eigenvalues, certified."""

    matrix: Estimate
    smallest: Estimate
    largest: Estimate


def limit_kernel(case: FederatedRun | KernelCase) -> LimitKernel:
    """The limit kernel of a case's data; kept for what looks at the same data next, as each seed of a user's does."""
    return _limit_kernel(case.problem)


@lru_cache(maxsize=4)
def _limit_kernel(problem: Problem) -> LimitKernel:
    h = gram.infinite_estimate(problem.x)
    return LimitKernel(h, gram.smallest_eigenvalue(h), gram.largest_eigenvalue(h))


def round_rate(case: FederatedRun | KernelCase) -> Estimate:
    """rho = eta_g eta_l K / N of a run or of a kernel case, in balls."""
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
