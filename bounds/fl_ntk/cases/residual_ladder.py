"""Case: long runs at one width, measured while their residual falls by orders of magnitude."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Options
from bounds.case import Case, prepared
from bounds.federated_run import FederatedFamily, compiled, federated_families
from ntkfl import data, interruption
from ntkfl.algorithm1.simulation import simulate
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup

ROUNDS_SEEN = 6
NETWORKS = 12
SETTLED = 0.01  # largest turn of the residual's direction, radians


@dataclass(frozen=True, eq=False)
class ResidualLadder(Case):
    """Networks of one width whose labels are y_m(0) + r_0, r_0 = problem.y; the ladder's sizes are 1/|r_inf(t)|."""

    problem: Problem
    setup: Setup
    seed: int

    @property
    def rounds(self) -> np.ndarray:
        """The measured rounds: six, evenly spaced over the last two thirds of the run."""
        return np.linspace(self.setup.rounds / 3, self.setup.rounds, ROUNDS_SEEN).astype(int)

    @cached_property
    def limit(self) -> np.ndarray:
        """Residuals of the infinite-width run at these rounds, (6, n)."""
        return self.problem.y - kernel_regime(self.problem, self.setup).outputs(self.rounds)

    @property
    def sizes(self) -> np.ndarray:
        """1/|r_inf(t)|."""
        return 1 / np.linalg.norm(self.limit, axis=1)

    @property
    def turn(self) -> float:
        """The angle between the residual's directions at the first and at the last of the rounds, radians."""
        first, last = (r / np.linalg.norm(r) for r in (self.limit[0], self.limit[-1]))
        return 2 * float(np.arcsin(np.minimum(np.linalg.norm(first - last) / 2, 1.0)))

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return NETWORKS

    @prepared
    def distances(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each network |w_r(t).x_i| at these rounds, (6, m, n), and its own |r(t)|, (6,)."""
        return [self._run(seed) for seed in range(self.seed, self.seed + NETWORKS)]

    def _run(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        x, width = self.problem.x, self.setup.width
        weights = draw(width, self.problem.d, seed, self.setup.sigma)
        initial = weights.outputs(x)
        problem = replace(self.problem, y=initial + self.problem.y, x_test=None, y_test=None)
        setup = replace(self.setup, seed=seed)
        many = compiled(problem, setup)
        run = simulate(problem, setup, weights, keep=self.rounds, movements=False, compiled=many)
        trained = np.stack([run.weights[int(t)] for t in self.rounds])
        return np.abs(trained @ x.T), run.residual_norm[self.rounds]

    def fresh(self) -> ResidualLadder:
        """The same ladder with other networks, for a second opinion."""
        return replace(self, seed=self.seed + NETWORKS)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        rounds = [int(t) for t in self.rounds]
        return {"problem": self.problem.name, "width": self.setup.width, "rounds": rounds, "seed": self.seed}


def _ladder(base: FederatedFamily | None, setup: Setup, seed: int) -> ResidualLadder:
    """The ladder on the user's data, or on the first problem, from this seed on, whose residual settles."""
    if base is not None:
        return ResidualLadder(base.problem(seed), setup, seed)
    for drawn in range(seed, seed + 51):
        interruption.check()
        problem = data.sphere(6, 4, seed=drawn, clients=3, labels="uniform")
        ladder = ResidualLadder(problem, setup, seed)
        if ladder.turn <= SETTLED:
            break
    return ladder  # the hypothesis rejects a problem whose residual has not settled


# Narrower networks on a few points of the sphere, with more or fewer clients and other steps.
SMALL_LADDERS = st.builds(
    ResidualLadder,
    st.builds(
        lambda n, d, seed, clients: data.sphere(n, d, seed=seed, clients=min(n, clients), labels="uniform"),
        st.integers(2, 6),
        st.integers(2, 5),
        st.integers(0, 2**16),
        st.integers(1, 3),
    ),
    st.builds(
        Setup,
        width=st.sampled_from([1024, 4096]),
        eta_local=st.floats(0.05, 0.5),
        local_steps=st.integers(1, 4),
        rounds=st.integers(60, 300),
    ),
    st.integers(0, 2**16),
)


def residual_ladder_families(options: Options) -> tuple[Family, ...]:
    """Twelve networks of width 8192 over 200 rounds, on six points of the sphere or on the user's data."""
    setup = options.setup(width=8192, eta_local=0.4, local_steps=3, rounds=200)
    base = federated_families(options)[0] if options.data is not None else None
    name = f"{base.name if base else 'sphere, n=6, d=4'}, {setup.rounds} rounds"
    return (Family(name, _ladder, SMALL_LADDERS, (base, setup), trials=1),)
