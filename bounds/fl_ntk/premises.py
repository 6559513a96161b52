"""Hypotheses that several statements of FL-NTK share, as predicates with margins."""

from functools import cache, lru_cache
from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from bounds import Hypothesis, Limit
from bounds.federated_run import FederatedRun
from bounds.formula import evaluate
from bounds.symbols import K, N, delta, eta_global, eta_local, kappa, lam, m, n, r0, r_t, rho, t
from ntkfl import Estimate, gram
from ntkfl.balls import enclosure, precision
from ntkfl.problem import UNIT_TOLERANCE

TINY = 1e-300  # a margin must be at least this number to count as positive

STATED_OUTPUT = sp.sqrt(2 * sp.log(2 * m * n / delta)) * sp.log(8 * n / delta)  # the printed bound on an output

# The widths, step sizes and numbers of rounds of the theorems on convergence.
PAPER_STEP = lam / (1000 * kappa * n**2 * K)  # the proof's limit for eta_l and for eta_g eta_l
STATED_WIDTH = n**4 * sp.log(n / delta) / lam**4  # with the O-constant taken as 1
PROVED_WIDTH = sp.Integer(64_000_000) * n**3 * r0**2 / lam**4
PACE = N / (lam * eta_local * eta_global * K)  # 1 / (rho lambda), a number of rounds

UNIT_ROWS = Hypothesis(
    "unit-rows",
    "|x_i| = 1 to 1e-12",
    Limit("the largest ||x_i| - 1|", lambda case: case.problem.unit_deviation, at_most=UNIT_TOLERANCE),
    free=True,
    eased_by=("unit",),
)
UNIT_SIGMA = Hypothesis(
    "unit-sigma",
    "sigma = 1",
    Limit("|sigma - 1|", lambda case: abs(case.setup.sigma - 1), at_most=0.0),
    free=True,
    eased_by=("sigma",),
)
DRAWN_AT_UNIT_SIGMA = Hypothesis(  # for a network at initialisation, without a run
    "unit-sigma",
    "sigma = 1",
    Limit("|sigma - 1|", lambda case: abs(case.sigma - 1), at_most=0.0),
    eased_by=("sigma",),
)


FAILURE_PROBABILITY = Hypothesis(
    "failure-probability", "0 < delta < 1", lambda case: min(case.delta, 1 - case.delta) - TINY
)


def at_most(samples: int) -> Hypothesis:
    """The hypothesis n <= `samples`.

    It is a limit of this tool, not of the theorem: computing with larger matrices in ball arithmetic takes too long.
    """
    return Hypothesis(
        "fits-in-balls",
        f"n <= {samples}, so that ball arithmetic is affordable",
        Limit("n", lambda case: case.problem.n, at_most=samples),
        free=True,
    )


TWO_LOCAL_STEPS = Hypothesis(
    "two-local-steps",
    "K = 2",
    Limit("|K - 2|", lambda case: abs(case.setup.local_steps - 2), at_most=0),
    free=True,
    eased_by=("local_steps",),
)
POSITIVE_SPECTRUM = Hypothesis(
    "positive-spectrum", "lambda_min(H(0)) > 0, certified", lambda case: float(case.smallest_eigenvalue.lo) - TINY
)


@cache
def growth_limit() -> Estimate:
    """x* = 1.2564..., the positive root of e^x - 1 = 2x, which is -1/2 - W_{-1}(-e^{-1/2}/2)."""
    with precision():
        half = arb(1) / 2
        return enclosure(-half - (-(-half).exp() * half).lambertw(-1))


def _local_time(case: FederatedRun) -> float:
    return case.setup.eta_local * case.problem.n * case.setup.local_steps


def _growth(case: FederatedRun) -> float:
    steps = case.setup.local_steps
    return (1 + _local_time(case) / steps) ** steps


SMALL_LOCAL_STEPS = Hypothesis(
    "small-local-steps",
    "eta_l n K <= 1.2564..., the root of e^x - 1 = 2x; it suffices for every K",
    Limit(
        "eta_l n K", lambda case: Estimate(_local_time(case), 1e-12, "rounding bound"), at_most=lambda _: growth_limit()
    ),
    free=True,
    eased_by=("eta_local",),
)
SMALL_FOR_K = Hypothesis(
    "small-for-K",
    "(1 + x/K)^K <= 1 + 2x with x = eta_l n K: exact for the K at hand",
    Limit("(1 + x/K)^K", _growth, at_most=lambda case: (1 + 2 * _local_time(case)) * (1 - 1e-12)),
    free=True,
    eased_by=("eta_local",),
)


def contracted(case: FederatedRun, smallest: Estimate) -> Estimate:
    """(1 - rho lambda/2)^t r_0^2 - r(t)^2 for t >= 1 and this lambda, in ball arithmetic."""
    r = case.observed("residual_norm")
    values = {rho: case.rho, lam: smallest, r0: r[0], t: case.rounds[1:], r_t: r[1:]}
    return evaluate((1 - rho * lam / 2) ** t * r0**2 - r_t**2, values)


CONTRACTS_SO_FAR = Hypothesis(
    "contracts-so-far",
    "Eq (7) held in every round before: r(t)^2 <= (1 - rho lambda/2)^t r_0^2",
    lambda case: contracted(case, case.smallest_eigenvalue),
    eased_by=("eta_local", "eta_global", "width"),
)


def _largest_local_step(case: Any) -> float:
    return case.setup.eta_local * float(case.block_eigenvalues.max())


LOCALLY_STABLE = Hypothesis(
    "locally-stable",
    "0 < eta_l q < 2 for every eigenvalue q of every client block",
    Limit("the largest eta_l q", _largest_local_step, at_most=2 - 1e-9),
    eased_by=("eta_local",),
)
NO_LOCAL_OVERSHOOT = Hypothesis(
    "no-local-overshoot",
    "eta_l q <= 1 for every eigenvalue q of every client block",
    Limit("the largest eta_l q", _largest_local_step, at_most=1 - 1e-9),
    eased_by=("eta_local",),
)


def _largest_first_step(case: FederatedRun) -> float:
    h = case.initial_gram
    blocks = (h[own][:, own] for own in case.problem.members)
    return case.setup.eta_local * max(float(gram.largest_eigenvalue(block).hi) for block in blocks)


NO_OVERSHOOT_AT_START = Hypothesis(
    "no-local-overshoot",
    "eta_l q <= 1 for every eigenvalue q of every client block",
    lambda case: 1 - _largest_first_step(case),
)
SERVER_AT_MOST_1 = Hypothesis(
    "eta_g-at-most-1",
    "eta_g <= 1",
    Limit("eta_g", lambda case: case.setup.eta_global, at_most=1.0),
    free=True,
    eased_by=("eta_global",),
)


@lru_cache(maxsize=4)
def block_bounds(case: FederatedRun) -> tuple[float, float, float, float]:
    """E, lambda_min(H(0)) - E, min_c lambda_min(H_cc(0)) - E, and max_c |H_cc(0)| + E. E includes rounding errors.

    As long as no weight is further from its start than the run's largest movement, every Gram matrix of activation
    patterns differs from H(0) by at most E in the spectral norm. The proof is in `certificate.py`. This function counts
    the numbers D and U of that proof.
    """
    x, hidden = case.problem.x, case.weights.hidden
    farthest = 0.0
    if not case.linearised:
        farthest = max(float(case.observed(name).hi.max()) for name in ("movement", "local_movement"))
    z, slack = x @ hidden.T, 1e-12 * (1 + np.abs(hidden).max())
    reach = farthest * np.linalg.norm(x, axis=1, keepdims=True) + slack
    on, sure, maybe = ((z >= limit).astype(float) for limit in (0.0, reach, -reach))
    both = on @ on.T
    moved = np.zeros_like(both) if case.linearised else np.maximum(both - sure @ sure.T, maybe @ maybe.T - both)
    rounding = float(np.linalg.norm(case.initial_gram.error)) + 1e-12
    change = float(np.linalg.norm(np.abs(x @ x.T) * moved / case.setup.width, 2)) * (1 + 1e-12) + rounding
    lowest, highest = _block_range(case)
    return change, float(case.smallest_eigenvalue.lo) - change, lowest - change, highest + change


def _block_range(case: FederatedRun) -> tuple[float, float]:
    """The smallest and the largest eigenvalue of all clients' blocks of H(0), in float64."""
    h = case.initial_gram.value
    blocks = [np.linalg.eigvalsh(h[np.ix_(c, c)]) for c in case.problem.members]
    return float(min(b[0] for b in blocks)), float(max(b[-1] for b in blocks))


def _local_contraction(case: FederatedRun) -> float:
    at_start = _contraction(case, *_block_range(case))
    # movement can only lower the margin
    return at_start if at_start < 0 else _contraction(case, *block_bounds(case)[2:])


def _contraction(case: FederatedRun, lowest: float, highest: float) -> float:
    return 2 * lowest - float(case.smallest_eigenvalue.hi) / 2 - case.setup.eta_local * highest**2 - 1e-13


LOCAL_CONTRACTION = Hypothesis(
    "local-contraction",
    "eta_l (|H_cc(0)| + E)^2 <= 2 (lambda_min(H_cc(0)) - E) - lambda/2 for every client; E: how far the run's own "
    "movement lets H change. 4 n_c R + eta_l n_c^2 <= 1.5 lambda is enough with high probability",
    _local_contraction,
    eased_by=("eta_local", "width"),
)


def _small_steps(case: FederatedRun) -> Estimate:
    at_start = _step_margins(case, 0.0, float(case.smallest_eigenvalue.lo), *_block_range(case))
    # movement can only lower the margins
    return at_start if (at_start.hi < 0).any() else _step_margins(case, *block_bounds(case))


def _step_margins(case: FederatedRun, change: float, bottom: float, lowest: float, highest: float) -> Estimate:
    setup, top = case.setup, float(case.largest_eigenvalue.hi)
    drift = top * setup.eta_local * highest * (setup.local_steps - 1)
    gain = 2 * bottom - drift - float(case.rho.hi) * (top + change) ** 2
    stable = 2 * lowest - setup.eta_local * highest**2
    return Estimate(np.array([gain - float(case.smallest_eigenvalue.hi) / 2, stable]), 1e-13, "rounding bound")


SMALL_STEPS = Hypothesis(
    "small-steps",
    "2 (lambda - E) - mu eta_l h (K-1) - rho (mu + E)^2 >= lambda/2 and eta_l h^2 <= 2 (lambda_min(H_cc(0)) - E), with "
    "h = max_c |H_cc(0)| + E; E: how far the run's own movement lets H change",
    _small_steps,
    eased_by=("eta_local", "width"),
)

POSITIVE_LIMIT = Hypothesis(
    "positive-limit", "H_inf is positive definite: no parallel rows, and pairs of opposite rows have independent "
    "directions",
    lambda case: float(gram.smallest_eigenvalue(gram.infinite_estimate(case.problem.x)).lo) - 1e-300,
)  # fmt: skip

EQUAL = Hypothesis(
    "equal-sizes", "all clients have n/N samples, so that both weightings and both mean losses agree",
    lambda case: float(np.bincount(case.problem.owner).min() - np.bincount(case.problem.owner).max()),
)  # fmt: skip

SERVER_ONE = Hypothesis(
    "server-step-1", "eta_g = 1: the server takes the clients' mean", lambda case: -abs(case.setup.eta_global - 1)
)

NON_DEGENERATE = Hypothesis(
    "non-degenerate", "lambda_min(H_inf) > 0", lambda case: float(case.smallest_eigenvalue.lo) - TINY
)
LIPSCHITZ = Hypothesis("1-Lipschitz", "the loss is 1-Lipschitz in its first argument", lambda case: 1 - case.loss.slope)
BOUNDED = Hypothesis("bounded-loss", "the loss has values in [0, 1]", lambda case: 1 - case.loss.cap)
