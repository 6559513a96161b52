"""Hypotheses that several statements of FL-NTK share, as predicates with margins."""

from __future__ import annotations

from flint import arb

from bounds.federated_run import FederatedRun
from bounds.formula import evaluate
from bounds.statement import Hypothesis
from bounds.symbols import lam, r0, r_t, rho, t
from ntkfl.balls import enclosure, precision
from ntkfl.estimate import Estimate
from ntkfl.problem import UNIT_TOLERANCE

TINY = 1e-300  # "> 0" as ">= the least number that matters"

UNIT_ROWS = Hypothesis("unit-rows", "|x_i| = 1 to 1e-12", lambda case: UNIT_TOLERANCE - case.problem.unit_deviation)


POSITIVE_SPECTRUM = Hypothesis(
    "positive-spectrum", "lambda_min(H(0)) > 0, certified", lambda case: float(case.smallest_eigenvalue.lo) - TINY
)


def growth_limit() -> Estimate:
    """x* = 1.2564..., the positive root of e^x - 1 = 2x: -1/2 - W_{-1}(-e^{-1/2}/2)."""
    with precision():
        half = arb(1) / 2
        return enclosure(-half - (-(-half).exp() * half).lambertw(-1))


def _small_local_steps(case: FederatedRun) -> Estimate:
    s = case.setup
    limit = growth_limit()
    return Estimate(limit.value - s.eta_local * case.problem.n * s.local_steps, limit.error + 1e-12, "rounding bound")


def _small_for_these_steps(case: FederatedRun) -> float:
    steps = case.setup.local_steps
    x = case.setup.eta_local * case.problem.n * steps
    return (1 + 2 * x) * (1 - 1e-12) - (1 + x / steps) ** steps


SMALL_LOCAL_STEPS = Hypothesis(
    "small-local-steps", "eta_l n K <= 1.2564..., the root of e^x - 1 = 2x; it suffices for every K", _small_local_steps
)
SMALL_FOR_K = Hypothesis(
    "small-for-K", "(1 + x/K)^K <= 1 + 2x with x = eta_l n K: exact for the K at hand", _small_for_these_steps
)


def _contracts(case: FederatedRun) -> Estimate:
    """(1 - rho lambda/2)^t r_0^2 - r(t)^2 for t >= 1, in balls."""
    r = case.observed("residual_norm")
    values = {rho: case.rho, lam: case.smallest_eigenvalue, r0: r[0], t: case.rounds[1:], r_t: r[1:]}
    return evaluate((1 - rho * lam / 2) ** t * r0**2 - r_t**2, values)


CONTRACTS_SO_FAR = Hypothesis(
    "contracts-so-far", "Eq (7) held in every round before: r(t)^2 <= (1 - rho lambda/2)^t r_0^2", _contracts
)
