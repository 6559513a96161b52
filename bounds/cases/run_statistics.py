"""The statistics of a run whose rates in the width are claimed, all taken from one run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bounds.cases.snapshot import Snapshot
from bounds.federated_run import FederatedRun
from ntkfl import gram, kernel_regime
from ntkfl.problem import Weights

TEST_POINTS = 5


@dataclass(frozen=True, eq=False)
class RunStatistics:
    """Statistics of one run of T rounds with K local steps; t is its middle round, (t, k) the last step there."""

    movement: float  # max_r |u_r(T) - u_r(0)|
    # its leading order, max_r |X^T (c_T * s_r)| / sqrt m over the patterns s_r of the initial network, c_T = H_inf^-1
    # (y_inf(T) - y(0))
    movement_limit: float
    step: float  # max_t max_r |u_r(t+1) - u_r(t)|
    local_step: float  # max over c, r, k of |w_{k,c,r}(t) - u_r(t)|
    total_movement: float  # |U(T) - U(0)|_F
    total_movement_limit: float  # the same at infinite width, sqrt(c_T^T H_inf c_T)
    flips: float  # share of the pairs (r, i) whose pattern at T differs from that at 0
    gram_drift: np.ndarray  # H(T) - H(0)
    local_gram_drift: np.ndarray  # H(t,k) - H(0)
    asymmetry: np.ndarray  # H(t,k) - H(t,k)^T; (n, n) each
    jacobian: float  # |J(t,k) - J(0,0)|_F, every sample at its own client
    complement: float  # max_k |H(t,k)^perp|_F
    remainder: float  # |v_2| / |y - y(t)|; both with R the run's own movement
    outputs: float  # max_t |y_m(t) - y_inf(t)|
    linearised: np.ndarray  # y_m - y_lin, (T+1, n), y_lin the kernel regime of H(0)
    prediction: float  # RMS over five test points of f(x, T) less the infinite-width network's output there

    @property
    def frobenius_movement(self) -> float:
        """How far |U(T) - U(0)|_F is from its value at infinite width."""
        return abs(self.total_movement - self.total_movement_limit)


def run_statistics(run: FederatedRun) -> RunStatistics:
    """Measure a run; its middle round is recomputed in weight space."""
    return RunStatistics(**_movements(run), **_against_limits(run), **_inside(run))


def _movements(run: FederatedRun) -> dict[str, Any]:
    seen, last = run.trajectory, run.trajectory.weights[run.setup.rounds]
    assert seen.movement is not None and seen.step is not None, "the ladder's runs record movements"
    assert seen.total_movement is not None and seen.flips is not None
    drift = gram.finite(run.problem.x, last) - run.initial_gram.value
    return {
        "movement": float(seen.movement[-1]),
        "step": float(run.setup.eta_global * seen.step.max()),
        "total_movement": float(seen.total_movement[-1]),
        "flips": float(seen.flips[-1]),
        "gram_drift": drift,
    }


def _against_limits(run: FederatedRun) -> dict[str, Any]:
    x, outputs, rounds, last = run.problem.x, run.trajectory.outputs, run.rounds, run.setup.rounds
    start = outputs[0]
    limit = kernel_regime(run.problem, run.setup)
    frozen = kernel_regime(run.problem, run.setup, run.initial_gram.value)
    infinite = limit.outputs(rounds, start)
    points = np.random.default_rng(2).normal(size=(TEST_POINTS, run.problem.d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    before, after = (_network(run, hidden, points) for hidden in (run.weights.hidden, run.trajectory.weights[last]))
    coefficients = np.linalg.solve(limit.gram, infinite[-1] - start)
    led = np.where(gram.activations(x, run.weights.hidden).T, coefficients, 0) @ x
    return {
        "outputs": float(np.linalg.norm(outputs - infinite, axis=1).max()),
        "linearised": outputs - frozen.outputs(rounds, start),
        "total_movement_limit": float(limit.movement(last, start)),
        "movement_limit": float(np.linalg.norm(led, axis=1).max() / np.sqrt(run.setup.width)),
        "prediction": float(np.sqrt(((after - limit.predict(points, last, start, before)) ** 2).mean())),
    }


def _network(run: FederatedRun, hidden: np.ndarray, points: np.ndarray) -> np.ndarray:
    return Weights(hidden, run.weights.signs).outputs(points)


def _inside(run: FederatedRun) -> dict[str, Any]:
    inside, x, steps = Snapshot(run), run.problem.x, run.setup.local_steps
    outside = ~inside.safe
    last = inside.gram(steps - 1)
    off = [inside.gram(k, outside) for k in range(steps)]
    local, _ = inside.local
    before = gram.activations(x, run.weights.hidden)
    flipped = np.empty(run.problem.n)
    for c, members in enumerate(run.problem.members):
        after = gram.activations(x[members], local[-2, c])
        flipped[members] = (after != before[members]).mean(axis=1)
    return {
        "local_step": float(np.sqrt(((local - inside.hidden) ** 2).sum(axis=-1).max())),
        "local_gram_drift": last - run.initial_gram.value,
        "asymmetry": last - last.T,
        "jacobian": float(np.sqrt((flipped * (x**2).sum(axis=1)).sum())),
        "complement": max(float(np.linalg.norm(block)) for block in off),
        "remainder": float(
            np.linalg.norm(inside.change(outside).value) / run.trajectory.residual_norm[run.snapshot_round]
        ),
    }
