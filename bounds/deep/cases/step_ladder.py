"""Case: a deep network under FedAvg and under gradient descent on all the data, at ever smaller steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.case import Case, described, prepared
from bounds.deep.cases.deep_ladder import ERF, RELU, equal_points, pooled
from bounds.deep.cases.network_stack import NetworkStack
from bounds.ladders.rungs import OTHER
from ntkfl.problem import Problem, Setup

LARGEST, STEPS, ROUNDS, RUNGS = 0.06, 3, 6, 5  # eta_l and rounds of the first rung; each has half the step of the last
NETWORKS = 2


@dataclass(frozen=True, eq=False)
class StepLadder(Case):
    """Networks of one width, from the residual problem.y; eta_l halves from rung to rung, and rounds double."""

    problem: Problem  # of clients of equal weight
    network: str  # as `WideNetwork.named` takes it
    width: int  # its neurons a layer
    seed: int  # the first
    largest: float = LARGEST  # eta_l of the first rung

    @property
    def setup(self) -> Setup:
        """Of the first rung."""
        return Setup(eta_local=self.largest, local_steps=STEPS, rounds=ROUNDS)

    @property
    def n_runs(self) -> int:
        """Number of networks."""
        return NETWORKS

    @property
    def sizes(self) -> np.ndarray:
        """eta_l at each rung, ascending."""
        return self.largest * 0.5 ** np.arange(RUNGS)[::-1]

    @prepared
    def differences(self) -> np.ndarray:
        """max_t |y_FedAvg(t) - y_GD(K t)| / |r_0|, RMS over networks, the same at every rung, (rungs,)."""
        seeds = range(self.seed, self.seed + NETWORKS)
        stacks = list(NetworkStack.of_seeds(self.network, self.problem, self.width, seeds))
        gaps = [np.concatenate([self._apart(stack, float(eta)) for stack in stacks]) for eta in self.sizes]
        return np.sqrt((np.array(gaps) ** 2).mean(axis=1))

    def _apart(self, stack: NetworkStack, eta: float) -> np.ndarray:
        setup = replace(self.setup, eta_local=eta, rounds=round(self.setup.rounds * self.largest / eta))
        federated, central = stack.run(self.problem, setup), stack.run(*pooled(self.problem, setup))
        distances = np.linalg.norm(federated.outputs - central.outputs, axis=2)
        return distances.max(axis=1) / np.linalg.norm(self.problem.y)

    def fresh(self) -> StepLadder:
        """Other networks on the same data, for a second opinion."""
        return replace(self, seed=self.seed + OTHER)

    describe = described("problem", "network", m="width", seed="seed", eta_local="largest")


def _ladder(network: str, width: int, seed: int, largest: float = LARGEST) -> StepLadder:
    """The ladder whose first network has this seed."""
    return StepLadder(equal_points(seed), network, width, seed, largest)


STEP_LADDERS = tuple(
    Family(
        f"sphere, n=12, d=8, N=2, {network}:{width}, eta_l from {LARGEST} down",
        _ladder,
        lambda *of: st.builds(partial(_ladder, *of), st.integers(0, 99), st.floats(0.03, 0.08)),
        (network, width),
        trials=1,
        needs=NETWORKS,  # runs, not ladders
        fixed=True,
    )
    for network, width in ((RELU, 256), (ERF, 64))
)
