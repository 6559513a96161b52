"""Claim B.4: the progress of a round through H(t,k)."""

from functools import lru_cache

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import FL_NTK, Change, Claim, Family, Form, Hypothesis, Kind, Nature, Source, Statement, with_own
from bounds.cases.run_values import run_values
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.few_points import aligned_run, small_step_runs
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, SMALL_FOR_K, SMALL_LOCAL_STEPS, UNIT_ROWS, UNIT_SIGMA
from bounds.fl_ntk.terms.round_parts import largest_norm, progress, snapshot_constants
from bounds.mutants import index_shifted, power, replaced, sign_flipped
from bounds.part_strategies import log_uniform, sizes
from bounds.symbols import K, N, R, eta_global, eta_local, kappa, lam, n, r_t
from ntkfl.estimate import Estimate


def _one_point(seed: int) -> FederatedRun:
    """One point on which all neurons are active, residuals from .5 to 2: H = 1, and the claim is nearly an equality."""
    return aligned_run(residual=2.0 ** (seed % 5 / 2 - 1), local_steps=1 + seed % 2)


# The search draws one point with any step, width and residual.
ANY_ONE_POINT = st.builds(
    lambda local_steps, **changes: aligned_run(rounds=2, local_steps=local_steps, **changes),
    st.integers(1, 4),
    eta_local=log_uniform(1e-4, 2),
    residual=log_uniform(1e-4, 10),
    width=sizes(2, 64),
)
ONE_POINT = Family("one point", _one_point, ANY_ONE_POINT, trials=10)


@lru_cache(maxsize=2)  # three forms use the same case, one after the other
def _reach(case: FederatedRun) -> float:
    """R: the largest movement from u(0), of global weights up to round t+1 and of local weights in round t."""
    inside = snapshot(case)
    moved = np.linalg.norm(inside.local[0] - case.weights.hidden, axis=-1).max()
    return max(inside.radius, float(moved) * (1 + 1e-9))


@lru_cache(maxsize=2)
def _measure(case: FederatedRun) -> Estimate:
    return -progress(snapshot(case), snapshot(case).grams())


@lru_cache(maxsize=2)
def _gram_change(case: FederatedRun) -> Estimate:
    """max_k |H(t,k) - H(0)|_F."""
    steps = case.setup.local_steps
    start = case.initial_gram[:, np.tile(np.arange(case.problem.n), steps)]
    return largest_norm(snapshot(case).grams() - start, steps)


def _gram_event(factor: int) -> Hypothesis:
    return Hypothesis(
        "B.11-event",
        f"|H(t,k) - H(0)|_F <= {factor} n R for every k, the event of B.11",
        lambda case: factor * case.problem.n * (1 - 1e-15) * _reach(case) - _gram_change(case),
    )


def _bound(constant) -> sp.Expr:
    growth = 1 + 2 * eta_local * K * n
    parts = -K * lam + constant * n * R * K * growth + 2 * eta_local * kappa * lam * K**2 * n
    return 2 * eta_global * eta_local / N * r_t**2 * parts


STATEMENTS = (
    Statement(
        id="fl-ntk/B.4",
        title="C_1, the progress that H(t,k) makes",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Claim B.4",
            note="checked where the event of B.11 holds; nothing else in the claim is random. The proof of B.11 gives "
            "3 n R and Eq (16) gives a factor sqrt 2; together they make 3 sqrt 2 > 4. The printed 4 follows from 2 n "
            "R, or from 3 n R and Eq (16) without its factor. In the growth factor the proof's last two lines print "
            "eta_l K^2 n in place of eta_l K n. R must bound the distance of the local weights from u(0); the "
            "proof cites a bound on their distance from u(t)",
        ),
        hypotheses=(UNIT_ROWS, UNIT_SIGMA, POSITIVE_SPECTRUM),
        forms={
            Form.STATED: Claim(
                _bound(4),
                nature=Nature.PROOF_GAP,
                hypotheses=(SMALL_LOCAL_STEPS, _gram_event(2)),
                consequence="none for the claim; with B.11's 3nR, drop the sqrt 2 of Eq (16)",
            ),
            Form.PROVED: Claim(_bound(3 * sp.sqrt(2)), hypotheses=(SMALL_LOCAL_STEPS, _gram_event(3))),
            Form.REPAIRED: Claim(
                _bound(2),
                hypotheses=(SMALL_FOR_K, _gram_event(2)),
                note="2 n R of B.11, and Eq (16) by the triangle inequality",
            ),
        },
        constants=lambda case: snapshot_constants(case) | run_values(case, lam, kappa) | {R: _reach(case)},
        measure=_measure,
        symbols={r_t: "|y - y(t)|_2 at the middle round", R: "largest distance of a global or local weight from u(0)"},
        left_formula="-2 (eta_g eta_l/N) sum_k (y - y(t))^T H(t,k) (y - y^{(k)}(t))",
        says_left="C_1 = -2 (eta_g eta_l/N) sum_k (y - y(t))^T H(t,k) (y - y^{(k)}(t)) from exact pattern counts",
        families=with_own(small_step_runs, ONE_POINT),
        mutants=(
            replaced(lam, 2 * lam, "lambda doubled", Change.CONSTANT),
            index_shifted(K, 1),
            power(eta_local, sp.Rational(1, 2)),
            sign_flipped(R, "the term in R"),
        ),
        uses=("fl-ntk/B.10", "fl-ntk/B.11", "fl-ntk/Eq16"),
    ),
)
