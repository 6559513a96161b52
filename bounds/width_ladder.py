"""A ladder of widths: the same data and the same initial residual at every width, several networks each."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.federated_run import FederatedDraw, FederatedRun, federated_run
from bounds.options import Options
from bounds.run_statistics import RunStatistics, run_statistics
from bounds.slopes import NoSlope
from ntkfl import data
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup
from ntkfl.reference import Arithmetic

SHORT = {2**k: 24 for k in range(8, 14)}  # networks at each width
LONG = {2**k: 48 for k in range(8, 13)} | {2**13: 32, 2**14: 16, 2**15: 12, 2**16: 8}
SPACING = 1000  # seeds between two widths; the same seed at two widths would give networks that share neurons
OTHER = 500  # from a ladder's seeds to those of its second opinion
THREADS = 1 if os.environ.get("OMP_NUM_THREADS") == "1" else 2  # one: other processes have the other cores


@dataclass(frozen=True, eq=False)
class WidthLadder:
    """Runs of Algorithm 1 over widths and seeds.

    The labels are y_m(0) + r_0 with one fixed r_0: at every width and seed the run starts from the same residual, so
    that what is left to vary is the width. No two networks share neurons, so that sizes may be resampled one by one.

    Args:
        problem: data, whose labels are r_0. setup: of every run but for its width and seed.
        widths, counts: the widths and how many networks there are of each. seed: where their seeds start.
        arithmetic: of the runs, as in `FederatedRun`; None: simulated.
    """

    problem: Problem
    setup: Setup
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int
    arithmetic: Arithmetic | None = None

    @cached_property
    def runs(self) -> list[list[FederatedRun]]:
        """The runs of each width."""
        return [[self._run(width, seed) for seed in self.seeds(i)] for i, width in enumerate(self.widths)]

    def seeds(self, row: int) -> range:
        """The seeds of the networks of one width."""
        first = self.seed + SPACING * row
        return range(first, first + self.counts[row])

    def _run(self, width: int, seed: int) -> FederatedRun:
        with jax.disable_jit(False):  # one compiled function draws all networks of this d
            weights = draw(width, self.problem.d, seed, self.setup.sigma)
        initial = weights.outputs(self.problem.x)
        problem = replace(self.problem, y=initial + self.problem.y, x_test=None, y_test=None)
        run = federated_run(problem, replace(self.setup, width=width, seed=seed), weights)
        return replace(run, arithmetic=self.arithmetic)

    def with_arithmetic(self, arithmetic: Arithmetic) -> WidthLadder:
        """The same ladder computed in another arithmetic."""
        return replace(self, arithmetic=arithmetic)

    @property
    def sizes(self) -> np.ndarray:
        """The widths, as the abscissa of a slope."""
        return np.array(self.widths, float)

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return sum(self.counts)

    def prepare(self) -> None:
        """Run the simulations now, as `FederatedRun.prepare`; their rounding is measured where it is asked for."""
        self._over_runs(lambda run: run.trajectory)

    def fresh(self) -> WidthLadder:
        """Other networks on the same data, for a second opinion: on no more rungs and networks than a short ladder."""
        counts = tuple(min(pair) for pair in zip(self.counts, SHORT.values(), strict=False))
        return replace(self, widths=self.widths[: len(counts)], counts=counts, seed=self.seed + OTHER)

    @cached_property
    def statistics(self) -> list[list[RunStatistics]]:
        """What the rate statements measure on each run, by width."""
        return self._over_runs(run_statistics)

    def samples(self, name: str) -> list[np.ndarray]:
        """One statistic of every run by its name, (networks, ...) for each width."""
        return [np.array([getattr(found, name) for found in row]) for row in self.statistics]

    def split(self, name: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """An array-valued statistic: the norm of its mean over the networks of a width, (widths,), and how far each
        network is from that mean, (networks,) for each width. Their mean squares add up; both are free of bias.

        Raises:
            NoSlope: the mean is lost in the noise, its square being estimated as negative.
        """
        means, spreads = [], []
        for found in self.samples(name):
            count, mean = len(found), found.mean(axis=0)
            spread = np.linalg.norm((found - mean).reshape(count, -1), axis=1) * np.sqrt(count / (count - 1))
            means.append((mean**2).sum() - (spread**2).mean() / count)
            spreads.append(spread)
        if min(means) < 0:
            width = self.widths[int(np.argmin(means))]
            raise NoSlope(f"{name} at width {width}: {min(self.counts)} or more networks do not tell its mean from 0")
        return np.sqrt(means), spreads

    def _over_runs(self, read: Callable[[FederatedRun], Any]) -> list[list[Any]]:
        with ThreadPoolExecutor(THREADS) as pool:  # simulations and large products release the interpreter
            return [list(pool.map(read, row)) for row in self.runs]

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "widths": list(self.widths), "networks": self.n_runs, "seed": self.seed}


@dataclass(frozen=True)
class LadderDraw:
    """One ladder; its seeds start at the run's seed."""

    name: str
    base: FederatedDraw | None
    setup: Setup
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    trials: int = 1
    required: int = 20  # runs, not ladders

    def case(self, seed: int) -> WidthLadder:
        """The ladder whose first seed is this one."""
        if self.base is None:
            problem = data.sphere(6, 4, seed=seed, clients=3, labels="uniform")
        else:
            problem = self.base.problem(seed)
        return WidthLadder(problem, self.setup, self.widths, self.counts, seed)

    def strategy(self) -> SearchStrategy[WidthLadder]:
        """Short ladders on two to four points, with any clients, local steps and stable step sizes."""
        from bounds.case_strategies import width_ladders

        return width_ladders(self.setup)


def ladder_draws(options: Options, **defaults) -> tuple[LadderDraw, ...]:
    """The ledger's ladder (n=6, d=4, N=3, K=3, eta_l=.4, T=60), or the user's data.

    The one that the rate statements share goes to width 2^16; with other steps, which a statement wants for itself, or
    on data of the user's own, whose networks may not fit into memory at such widths, it ends at 2^13.
    """
    from bounds.federated_run import federated_draws

    setup = options.setup(**({"eta_local": 0.4, "local_steps": 3, "rounds": 60} | defaults))
    rungs = SHORT if defaults or options.data is not None else LONG
    name, base = "sphere, n=6, d=4", None
    if options.data is not None:
        (base,) = federated_draws(options)
        name = base.name
    name += f", widths 2^8..2^{max(rungs).bit_length() - 1}"
    return (LadderDraw(name, base, setup, tuple(rungs), tuple(rungs.values())),)
