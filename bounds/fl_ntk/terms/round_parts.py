"""The parts C_1 to C_4 of a round: the common terms and measurements of statements on them, at a run's snapshot."""

import numpy as np
import sympy as sp

from bounds.cases.run_values import run_values
from bounds.cases.snapshot import Snapshot, snapshot
from bounds.federated_run import FederatedRun
from bounds.symbols import K, N, R, eta_global, eta_local, m, n, r_t
from ntkfl.estimate import Estimate, Rigour

SHARE = eta_global * eta_local * K / N * (1 + 2 * eta_local * n * K) * n * R  # rho (1 + 2 eta_l n K) n R
FAILURE = n * sp.exp(-m * R)
EPS = np.finfo(float).eps


def snapshot_constants(case: FederatedRun) -> dict:
    """n, m, N, K, the steps, R and |y - y(t)| at the snapshot round t."""
    return run_values(case, n, m, N, K, eta_local, eta_global) | {
        R: snapshot(case).radius,
        r_t: case.observed("residual_norm")[case.snapshot_round],
    }


def times(factor: float, x: Estimate) -> Estimate:
    """x times a float that is known to four roundings."""
    return x * Estimate(factor, 4 * EPS * abs(factor), "rounding bound", Rigour.ENCLOSED)


def progress(inside: Snapshot, grams: Estimate) -> Estimate:
    """2 (eta_g eta_l/N) sum_k (y - y(t))^T H_k (y - y^{(k)}(t)), for matrices H_k side by side."""
    setup = inside.run.setup
    form = residual(inside) @ (grams @ inside.stacked_residual)
    return times(2 * setup.eta_global * setup.eta_local / inside.run.problem.n_clients, form)


def largest_norm(blocks: Estimate, steps: int) -> Estimate:
    """max_k |H_k|_F of matrices side by side."""
    columns = np.split(np.arange(blocks.value.shape[1]), steps)
    return Estimate.stacked(blocks[:, own].norm() for own in columns).max()


def residual(inside: Snapshot) -> Estimate:
    """y - y(t), (n,): the residual of every client's first local step."""
    return inside.stacked_residual[: inside.run.problem.n]
