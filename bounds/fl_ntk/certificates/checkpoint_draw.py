"""Runs of Algorithm 1 that go on from a checkpoint: the family of cases of the certificates X.11 and X.12."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis.strategies import SearchStrategy

from bounds.federated_run import FederatedDraw, FederatedRun, federated_draws, federated_run
from bounds.options import Options
from ntkfl.algorithm1.simulation import simulate
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights


@dataclass(frozen=True)
class CheckpointDraw:
    """The runs of another family, each started where `trained` rounds of Algorithm 1 have led it."""

    family: FederatedDraw
    trained: int = 300
    required: int = 5

    @property
    def name(self) -> str:
        """The family's, and after how many rounds."""
        return f"{self.family.name}, after {self.trained} rounds"

    @property
    def trials(self) -> int:
        """As many as the family's."""
        return self.family.trials

    def case(self, seed: int) -> FederatedRun:
        """The run of one seed; its weights(0) are the trained ones, exactly as float64 holds them."""
        return from_checkpoint(self.family.problem(seed), replace(self.family.setup, seed=seed), self.trained)

    def strategy(self) -> SearchStrategy[FederatedRun]:
        """Any small run: labels near the outputs make a checkpoint of any network, Gaussian or not."""
        from bounds.federated_run import federated_runs

        return federated_runs(n=(1, 4), width=(1, 512))


def from_checkpoint(problem: Problem, setup: Setup, trained: int) -> FederatedRun:
    """The run of this setup that starts after `trained` rounds from the weights of its seed; 0: from these.

    Args:
        problem: data with scalar labels. setup: of the rounds after the checkpoint. trained: rounds before it.
    """
    weights = draw(setup.width, problem.d, setup.seed, setup.sigma)
    if trained:
        run = simulate(problem, replace(setup, rounds=trained), weights, keep=[trained], movements=False)
        weights = Weights(run.weights[trained], weights.signs)
    return federated_run(problem, setup, weights)


def checkpoint_draws(options: Options) -> tuple[CheckpointDraw, ...]:
    """Digits (n=8, three clients, so ragged) at width 1000 after 300 rounds at eta_l=.1, or the user's data."""
    if options.data is not None:
        families = federated_draws(options, label="eta_l=.1", movements=True, width=1000, eta_local=0.1, rounds=40)
        return tuple(CheckpointDraw(family) for family in families)
    family = FederatedDraw(
        name="digits",
        setup=options.setup(width=1000, eta_local=0.1, rounds=40),
        clients=options.clients or 3,
        partition=options.partition or "iid",
        n=options.n or 8,
        trials=options.trials or 9,
    )
    return (CheckpointDraw(family),)
