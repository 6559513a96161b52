"""A ladder of widths: the same data and the same initial residual at every width, several networks each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bounds.federated_run import FederatedDraw, FederatedRun, federated_run
from bounds.options import Options
from ntkfl import data
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup

WIDTHS = tuple(2**k for k in range(8, 14))


@dataclass(frozen=True, eq=False)
class WidthLadder:
    """Runs of Algorithm 1 over widths and seeds.

    The labels are y_m(0) + r_0 with one fixed r_0: at every width and seed the run starts from the same residual, so
    that what is left to vary is the width.
    """

    problem: Problem
    setup: Setup
    widths: tuple[int, ...]
    seeds: tuple[int, ...]

    @cached_property
    def runs(self) -> list[list[FederatedRun]]:
        """One run for each width (rows) and seed (columns)."""
        return [[self._run(width, seed) for seed in self.seeds] for width in self.widths]

    def _run(self, width: int, seed: int) -> FederatedRun:
        weights = draw(width, self.problem.d, seed, self.setup.sigma)
        initial = np.maximum(self.problem.x @ weights.hidden.T, 0) @ weights.signs / np.sqrt(width)
        problem = replace(self.problem, y=initial + self.problem.y, x_test=None, y_test=None)
        return federated_run(problem, replace(self.setup, width=width, seed=seed), weights)

    @property
    def sizes(self) -> np.ndarray:
        """The widths, as the abscissa of a slope."""
        return np.array(self.widths, float)

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.widths) * len(self.seeds)

    def prepare(self) -> None:
        """Run the simulations now, as `FederatedRun.prepare`; their rounding is measured where it is asked for."""
        for row in self.runs:
            for run in row:
                _ = run.trajectory

    def fresh(self) -> WidthLadder:
        """The same ladder with other networks, for a second opinion."""
        return replace(self, seeds=tuple(seed + 10_000 for seed in self.seeds))

    def samples(self, statistic: Callable[[FederatedRun], float]) -> np.ndarray:
        """A statistic of every run, shape (widths, seeds)."""
        return np.array([[statistic(run) for run in row] for row in self.runs])

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "widths": list(self.widths), "seeds": list(self.seeds)}


@dataclass(frozen=True)
class LadderDraw:
    """One ladder; its seeds start at the run's seed."""

    name: str
    base: FederatedDraw | None
    setup: Setup
    widths: tuple[int, ...] = WIDTHS
    seeds: int = 24
    trials: int = 1
    required: int = 20  # runs, not ladders

    def case(self, seed: int) -> WidthLadder:
        """The ladder whose first seed is this one."""
        if self.base is None:
            problem = data.sphere(6, 4, seed=seed, clients=3, labels="uniform")
        else:
            problem = self.base.problem(seed)
        return WidthLadder(problem, self.setup, self.widths, tuple(range(seed, seed + self.seeds)))


def ladder_draws(options: Options, **defaults) -> tuple[LadderDraw, ...]:
    """The ledger's ladder (n=6, d=4, N=3, K=3, eta_l=.4, T=60), or the user's data at its widths."""
    from bounds.federated_run import federated_draws

    setup = options.setup(**({"eta_local": 0.4, "local_steps": 3, "rounds": 60} | defaults))
    if options.data is None:
        return (LadderDraw("sphere, n=6, d=4, widths 2^8..2^13", None, setup),)
    (base,) = federated_draws(options)
    return (LadderDraw(f"{base.name}, widths 2^8..2^13", base, setup),)
