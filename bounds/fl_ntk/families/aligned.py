"""Nearly equal points, all neurons active: there the crude bounds of appendix B are sharp up to small factors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.federated_run import FederatedRun, federated_run
from ntkfl.algorithm1.reference import BALL
from ntkfl.problem import Problem, Setup, Weights


@dataclass(frozen=True)
class AlignedDraw:
    """n unit points within about `spread` of each other, every neuron active on all of them, equal residuals.

    There H(0) is nearly the all-ones matrix, whose norm is n, and residuals are its top eigenvector: what the proofs
    bound by n and sqrt n is reached. The runs are small, and are made in balls.
    """

    name: str = "aligned points"
    eta_local: float = 0.001
    width: int = 64
    spread: float = 1e-3
    rounds: int = 10
    residual: float = 1.0
    length: float = 1.0  # of the rows; other than 1 only to show that unit rows are needed
    eta_global: float = 1.0
    trials: int = 20
    required: int = 20

    def case(self, seed: int) -> FederatedRun:
        """The run of one seed: four points, one or two local steps."""
        return self._run(4, 1 + seed % 2, np.random.default_rng(seed), seed)

    def single_point(self, local_steps: int) -> FederatedRun:
        """One point and one client, with this many local steps."""
        return self._run(1, local_steps, np.random.default_rng(0), 0)

    def _run(self, n: int, local_steps: int, rng: np.random.Generator, seed: int) -> FederatedRun:
        d = 3
        center = np.eye(d)[0]
        x = center + self.spread * rng.normal(size=(n, d))
        x *= self.length / np.linalg.norm(x, axis=1, keepdims=True)
        hidden = rng.normal(size=(self.width, d))
        hidden[:, 0] = 6 + np.abs(hidden[:, 0])
        weights = Weights(hidden, np.where(np.arange(self.width) % 2, 1.0, -1.0))
        problem = Problem(x, weights.outputs(x) + self.residual, name=f"aligned(n={n}, seed={seed})")
        setup = Setup(self.width, 1.0, self.eta_local, self.eta_global, local_steps, self.rounds, seed)
        run = federated_run(problem, setup, weights)
        return run.with_arithmetic(BALL, bits=256 + 8 * setup.rounds * local_steps)

    def strategy(self) -> SearchStrategy[FederatedRun]:
        """The same family at any step, spread, width and residual."""
        from bounds.part_strategies import log_uniform, sizes

        return st.builds(
            lambda seed, **changes: replace(self, **changes).case(seed),
            seed=st.integers(0, 2**16),
            eta_local=log_uniform(1e-4, 4),
            eta_global=log_uniform(0.05, 10),
            spread=log_uniform(1e-6, 1),
            residual=log_uniform(1e-6, 10),
            width=sizes(1, 64),
            rounds=st.integers(1, 5),
        )


def overshooting_clients() -> FederatedRun:
    """One point, twenty local steps of size 3: every step overshoots, so the local outputs grow like 2^k.

    The residual is small enough that no pattern flips while they do.
    """
    return AlignedDraw(eta_local=3.0, rounds=2, residual=1e-7).single_point(local_steps=20)


def overshooting_server() -> FederatedRun:
    """One point, one small local step, a server step of 100: the global outputs overshoot ninefold a round."""
    return AlignedDraw(eta_local=0.1, eta_global=100.0, rounds=3, residual=1e-3).single_point(local_steps=1)


def long_row() -> FederatedRun:
    """One row of norm 6 at a step that would be small for a unit row."""
    return AlignedDraw(eta_local=0.15, rounds=1, residual=1e-3, length=6.0).single_point(local_steps=1)


def long_row_converging() -> FederatedRun:
    """A row of norm 30, converging: lambda grows with the square of the norm, the movement falls only with it."""
    return AlignedDraw(eta_local=5e-4, rounds=20, residual=1e-3, length=30.0).single_point(local_steps=1)
