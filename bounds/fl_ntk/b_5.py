"""Claim B.5: the part of a round's progress that neurons near their kinks make through H(t,k)^perp."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from bounds.cases.run_values import run_values
from bounds.cases.snapshot import Snapshot, snapshot
from bounds.federated_run import FederatedRun, federated_run
from bounds.fl_ntk.families.small_steps import small_step_runs
from bounds.fl_ntk.premises import SMALL_FOR_K, SMALL_LOCAL_STEPS, UNIT_ROWS, UNIT_SIGMA
from bounds.hypothesis import Limit
from bounds.mutants import power
from bounds.statement import FL_NTK, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.symbols import K, N, R, eta_global, eta_local, m, n, r_t
from ntkfl.estimate import Estimate, Rigour
from ntkfl.problem import Problem, Setup

SHARE = eta_global * eta_local * K / N * (1 + 2 * eta_local * n * K) * n * R  # rho (1 + 2 eta_l n K) n R
FAILURE = n * sp.exp(-m * R)
EPS = np.finfo(float).eps

LIKELY = Hypothesis(
    "probability-below-1",
    "n exp(-m R) < 1: the claim says something",
    Limit(
        "m R",
        lambda case: case.setup.width * snapshot(case).radius,
        at_least=lambda case: np.log(case.problem.n) + 1e-9,
    ),
    eased_by=("width",),
)


def snapshot_constants(case: FederatedRun) -> dict:
    """n, m, N, K, the steps, R and |y - y(t)| at the snapshot round t."""
    return run_values(case, n, m, N, K, eta_local, eta_global) | {
        R: snapshot(case).radius,
        r_t: case.observed("residual_norm")[case.snapshot_round],
    }


def times(factor: float, x: Estimate) -> Estimate:
    """x times a float that is known to four roundings."""
    return x * Estimate(factor, 4 * EPS * abs(factor), "rounding bound", Rigour.ENCLOSED)


def largest_norm(blocks: Estimate, steps: int) -> Estimate:
    """max_k |H_k|_F of matrices side by side."""
    norms = Estimate.stacked(blocks[:, columns].norm() for columns in np.split(np.arange(blocks.value.shape[1]), steps))
    return Estimate.between(norms.lo.max(), norms.hi.max(), norms.method, norms.rigour)


def residual(inside: Snapshot) -> Estimate:
    """y - y(t), (n,): what every client's first local step sees."""
    return inside.stacked_residual[: inside.run.problem.n]


def _measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    inside, setup = snapshot(case), case.setup
    perp = inside.grams(~inside.safe)
    form = residual(inside) @ (perp @ inside.stacked_residual)
    c_2 = times(2 * setup.eta_global * setup.eta_local / case.problem.n_clients, form)
    return c_2, largest_norm(perp, setup.local_steps)


def one_point(length: float = 1.0, sigma: float = 1.0) -> FederatedRun:
    """One sample, ten small rounds: a long row makes entries of H large, a small sigma puts all neurons at the kink."""
    problem = Problem(length * np.eye(2)[:1], np.ones(1), name="one point")
    return federated_run(problem, Setup(width=4096, sigma=sigma, eta_local=0.01, local_steps=1, rounds=10))


NEAR_KINKS: dict[str, Any] = {  # what claims on neurons near their kinks have in common
    "kind": Kind.PROBABILITY,
    "hypotheses": (UNIT_ROWS, UNIT_SIGMA, LIKELY),
    "constants": snapshot_constants,
    "symbols": {r_t: "|y - y(t)|_2 at the middle round", R: "movement of the run by round t+1"},
    "draws": small_step_runs,
    "necessity": {"unit-rows": lambda: one_point(length=12.0), "unit-sigma": lambda: one_point(sigma=1e-4)},
}
STATEMENTS = (
    Statement(
        id="fl-ntk/B.5",
        title="C_2, the share of neurons near their kinks",
        source=Source(
            FL_NTK,
            "Claim B.5",
            note="proved for a radius R fixed beforehand; here R is the movement of the run, which is what the "
            "claim is used for. The second part is the proof's |H(t,k)^perp|_F <= 4 n R. Its '= n/m^2 ...' must be "
            "'<='; the Bernstein step gives exp(-9 m R / 4)",
        ),
        forms={
            Form.STATED: Claim((16 * SHARE * r_t**2, 4 * n * R), failure=FAILURE, hypotheses=(SMALL_LOCAL_STEPS,)),
            Form.REPAIRED: Claim(
                (8 * SHARE * r_t**2, 4 * n * R),
                failure=FAILURE,
                hypotheses=(SMALL_FOR_K,),
                note="half of it: without the factor 2 of Eq (16), by the triangle inequality",
            ),
        },
        measure=_measure,
        says_left="C_2 = 2 (eta_g eta_l/N) sum_k (y - y(t))^T H(t,k)^perp (y - y^{(k)}(t)), and max_k |H(t,k)^perp|_F, "
        "from exact pattern counts at the middle round",
        mutants=(
            power(n, -sp.Rational(1, 2)),
            power(R, sp.Rational(5, 2)),
        ),
        uses=("fl-ntk/Eq16", "fl-ntk/Eq11"),
        **NEAR_KINKS,
    ),
)
