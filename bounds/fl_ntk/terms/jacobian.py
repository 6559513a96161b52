"""J(k,t): the gradients of the outputs in the weights, for each sample at its own client after k local steps.

Gradients change where patterns change, at neurons that start near a kink. Bounds count these neurons for all distances
at once.
"""

import numpy as np
import sympy as sp

from bounds.cases.run_values import run_values
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.cases.weight_path import WeightPath, WeightRound
from bounds.fl_ntk.terms.limit_kernel import limit_kernel
from bounds.symbols import R, delta, lam, m, n, sigma
from ntkfl import Estimate, gram
from ntkfl.algorithm1.reference import BALL
from ntkfl.balls import precision

CROWDING = 0.01  # delta_1 in the statements
crowding = sp.Symbol("delta_1", positive=True)
NEAR = sp.sqrt(2 / sp.pi) * R / sigma + sp.sqrt(sp.log(2 * n / crowding) / (2 * m))  # Eq (11), uniform in R


def change_constants(case: FederatedRun, failure: float) -> dict:
    """n, m, sigma, the movement R of the run, delta and delta_1, and the smallest eigenvalue of H_inf."""
    return run_values(case, n, m, sigma) | {
        R: farthest(case),
        delta: failure,
        crowding: CROWDING,
        lam: limit_kernel(case).smallest,
    }


def jacobian(path: WeightPath, active: np.ndarray) -> np.ndarray:
    """a_r x_i 1{active} / sqrt m as balls, (m d, n), for activation patterns (n, m)."""
    columns = path.signs[:, None, None] * path.x.T[None] * active.T[:, None, :] / path.root_m
    return columns.reshape(-1, len(path.x))


def all_jacobians(path: WeightPath, round_: WeightRound) -> list[np.ndarray]:
    """J(k,t) for k = 0..K-1 of one round."""
    return [jacobian(path, active) for active in round_.active[:-1]]


def jacobian_changes(case: FederatedRun) -> Estimate:
    """|J(k,t) - J(0,0)|_F: in balls for every round and k, (T K,); otherwise for the middle round, (K,)."""
    return _changes_in_balls(case) if case.arithmetic is BALL else _changes_at_snapshot(case)


def _changes_in_balls(case: FederatedRun) -> Estimate:
    changed = case.observed("local_flips").value[:, :-1].reshape(-1, case.problem.n)
    with precision(case.bits):
        x, counts, width = (BALL.convert(v) for v in (case.problem.x, changed, np.array(case.setup.width)))
        return BALL.estimate(BALL.root(counts @ (x * x).sum(axis=1) / width))


def _changes_at_snapshot(case: FederatedRun) -> Estimate:
    x, start = case.problem.x, gram.activations(case.problem.x, case.weights.hidden)
    squares, uncertain = (x**2).sum(axis=1), gram.doubtful(x, case.weights.hidden)
    sums, doubts = [], []
    inside = snapshot(case)
    for active, doubtful in zip(inside.local_active, inside.local_doubtful, strict=True):
        sums.append(squares @ (active != start).sum(axis=1).astype(float) / case.setup.width)
        doubts.append(squares @ (doubtful + uncertain) / case.setup.width + 1e-13 * sums[-1])
    low, high = np.maximum(np.array(sums) - doubts, 0), np.array(sums) + doubts
    return Estimate.between(np.sqrt(low), np.sqrt(high), "counts, rounding bound")


def farthest(case: FederatedRun) -> Estimate:
    """R: the largest distance of any weight vector, global or local, from its start, over all rounds."""
    return Estimate.stacked(case.observed(name).max() for name in ("movement", "local_movement")).max()
