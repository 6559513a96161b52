"""Case: the same samples on more and more clients, in the kernel regime, several data sets of one size each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Options
from bounds.case import Case
from bounds.federated_run import federated_families
from ntkfl import data, gram, kernel_regime
from ntkfl.problem import Problem, Setup


@dataclass(frozen=True, eq=False)
class ClientLadder(Case):
    """Data sets of one size n on N = 1, 2, 4, ..., n clients, and one setup.

    `seeds`: those of the data on the sphere, one set each, where `base` is None.
    """

    samples: int
    setup: Setup
    seeds: tuple[int, ...]
    base: Problem | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The numbers of clients."""
        return 2.0 ** np.arange(int(np.log2(self.samples)) + 1)

    @property
    def n_runs(self) -> int:
        """Number of kernel regimes."""
        return len(self.sizes) * len(self.seeds)

    def fresh(self) -> ClientLadder:
        """The same ladder with other data, or another split, for a second opinion."""
        return replace(self, seeds=tuple(seed + 10_000 for seed in self.seeds))

    @cached_property
    def problems(self) -> list[Problem]:
        """The data of each seed, on one client."""
        if self.base is not None:
            return [replace(self.base, owner=np.zeros(self.base.n, int)) for _ in self.seeds]
        return [data.sphere(self.samples, self.samples, seed=seed, clients=1) for seed in self.seeds]

    def rounds_to(self, share: float, server_step) -> np.ndarray:
        """First round with |r(t)| <= share |r(0)|, y(0) = 0, at eta_g = server_step(N), (sizes, seeds)."""
        rounds = np.empty((len(self.sizes), len(self.seeds)))
        for j, (problem, seed) in enumerate(zip(self.problems, self.seeds, strict=True)):
            h, order = gram.infinite(problem.x), np.random.default_rng([seed, 7]).permutation(problem.n)
            for i, clients in enumerate(self.sizes.astype(int)):
                split = replace(problem, owner=order % clients)
                regime = kernel_regime(split, replace(self.setup, eta_global=float(server_step(clients))), h)
                rounds[i, j] = regime.rounds_to(share)
        return rounds

    def describe(self) -> dict:
        """What identifies the case in a report."""
        name = self.problems[0].name if self.base is None else self.base.name
        return {"problem": name, "N": [int(size) for size in self.sizes], "eta_local": self.setup.eta_local}


def _ladder(options: Options, seed: int) -> ClientLadder:
    """The ladder whose first seed is this one, at two local steps with eta_l K |H_inf| about .05."""
    setup, seeds = Setup(eta_local=0.02, local_steps=2), tuple(range(seed, seed + 4))
    if options.data is None:
        return ClientLadder(32, setup, seeds)
    problem = federated_families(options)[0].problem(seed)
    largest = float(np.linalg.eigvalsh(gram.infinite(problem.x))[-1])
    return ClientLadder(problem.n, replace(setup, eta_local=0.03 / largest), seeds, problem)


def _small_ladder(size: int, steps: int, eta_local: float, seed: int) -> ClientLadder:
    return ClientLadder(size, Setup(eta_local=eta_local, local_steps=steps), (seed, seed + 1))


SMALL_LADDERS = st.builds(
    _small_ladder, st.sampled_from([16, 32, 64]), st.integers(1, 4), st.floats(1e-3, 0.1), st.integers(0, 2**16)
)


def client_ladders(options: Options) -> tuple[Family, ...]:
    """Ladders of 32 points on the sphere, or of the user's data; searched: 16 to 64 points and steps up to a tenth."""
    chosen = options if options.data else Options()
    name = f"{options.data or 'sphere, n=32, d=32'}, N = 1, 2, 4, ..., n"
    return (Family(name, _ladder, SMALL_LADDERS, (chosen,), trials=1, needs=20),)  # kernel regimes, not ladders
