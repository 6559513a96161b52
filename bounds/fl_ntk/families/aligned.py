"""Nearly equal points, all neurons active: there the crude bounds of appendix B are sharp up to small factors."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.federated_run import FederatedRun, federated_run
from bounds.part_strategies import log_uniform, sizes
from ntkfl.algorithm1.reference import BALL
from ntkfl.problem import Problem, Setup, Weights


def aligned_run(
    seed: int = 0,
    *,
    n: int = 1,
    local_steps: int = 1,
    rounds: int = 10,
    eta_local: float = 0.001,
    eta_global: float = 1.0,
    width: int = 64,
    spread: float = 1e-3,
    residual: float = 1.0,
    length: float = 1.0,
) -> FederatedRun:
    """n unit points within about `spread` of each other, every neuron active on all of them, equal residuals.

    There H(0) is nearly the all-ones matrix, whose norm is n, and residuals are its top eigenvector: what the proofs
    bound by n and sqrt n is reached. The runs are small, and are made in balls.

    A `length` of the rows other than 1 shows that unit rows are needed.
    """
    rng, d = np.random.default_rng(seed), 3
    x = np.eye(d)[0] + spread * rng.normal(size=(n, d))
    x *= length / np.linalg.norm(x, axis=1, keepdims=True)
    hidden = rng.normal(size=(width, d))
    hidden[:, 0] = 6 + np.abs(hidden[:, 0])
    weights = Weights(hidden, np.where(np.arange(width) % 2, 1.0, -1.0))
    problem = Problem(x, weights.outputs(x) + residual, name=f"aligned(n={n}, seed={seed})")
    run = federated_run(problem, Setup(width, 1.0, eta_local, eta_global, local_steps, rounds, seed), weights)
    return run.with_arithmetic(BALL, bits=256 + 8 * rounds * local_steps)


def _four_points(seed: int, **changes: Any) -> FederatedRun:
    """Four points, one or two local steps."""
    return aligned_run(seed, n=4, local_steps=1 + seed % 2, **changes)


# The same at any step, spread, width and residual.
ANY_STEPS = st.builds(
    _four_points,
    seed=st.integers(0, 2**16),
    eta_local=log_uniform(1e-4, 4),
    eta_global=log_uniform(0.05, 10),
    spread=log_uniform(1e-6, 1),
    residual=log_uniform(1e-6, 10),
    width=sizes(1, 64),
    rounds=st.integers(1, 5),
)
ALIGNED_POINTS = Family("aligned points", _four_points, ANY_STEPS, needs=20)


def overshooting_clients() -> FederatedRun:
    """One point, twenty local steps of size 3: every step overshoots, so the local outputs grow like 2^k.

    The residual is small enough that no pattern flips while they do.
    """
    return aligned_run(eta_local=3.0, rounds=2, residual=1e-7, local_steps=20)


def overshooting_server() -> FederatedRun:
    """One point, one small local step, a server step of 100: the global outputs overshoot ninefold a round."""
    return aligned_run(eta_local=0.1, eta_global=100.0, rounds=3, residual=1e-3)


def long_row() -> FederatedRun:
    """One row of norm 6 at a step that would be small for a unit row."""
    return aligned_run(eta_local=0.15, rounds=1, residual=1e-3, length=6.0)


def long_row_converging() -> FederatedRun:
    """A row of norm 30, converging: lambda grows with the square of the norm, the movement falls only with it."""
    return aligned_run(eta_local=5e-4, rounds=20, residual=1e-3, length=30.0)
