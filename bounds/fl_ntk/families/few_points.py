"""Four points on the sphere and 128 neurons, in balls: runs in which patterns flip while there is residual left."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis.strategies import SearchStrategy

from bounds.federated_run import FederatedRun, federated_run, federated_runs
from ntkfl import data
from ntkfl.algorithm1.reference import BALL
from ntkfl.problem import Setup


@dataclass(frozen=True)
class FewPointsDraw:
    """Two clients, one to three local steps, five rounds."""

    name: str = "four points, 128 neurons"
    trials: int = 10
    required: int = 5

    def case(self, seed: int) -> FederatedRun:
        """The run of one seed."""
        problem = data.sphere(4, 3, seed=seed, clients=2)
        setup = Setup(width=128, eta_local=0.4, eta_global=1.0, local_steps=1 + seed % 3, rounds=5, seed=seed)
        return federated_run(problem, setup).with_arithmetic(BALL)

    def strategy(self) -> SearchStrategy[FederatedRun]:
        """Small runs in balls with any data, labels, network and steps."""
        return federated_runs(in_balls=True)
