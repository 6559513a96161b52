"""A ladder of widths with measured runs, which statements about exponents take in place of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bounds.ladders.rungs import Rungs
from bounds.ladders.width_ladder import Start, WidthLadder
from bounds.ladders.width_rate import Quantity as Power
from experiments.studies.answers import on_ladder
from experiments.studies.study import SEED, Answer, Cells
from ntkfl import Estimate, Problem, Setup, gram

WIDTH, DEVIATION, OUTPUTS = "width", "gram_deviation", "initial_outputs"
FEWEST_NETWORKS = 2  # least networks of a width: a mean over networks, and the distance from it, need two


@dataclass(frozen=True, eq=False)
class StoredLadder(WidthLadder):
    """The cells of a study over widths and seeds; widths with fewer than two whole cells are left out.

    `cells` has every statistic of a run as a variable over (width, seed, ...), NaN where a cell is missing.
    """

    cells: Cells = field(kw_only=True)

    @classmethod
    def of(cls, cells: Cells, problem: Problem, setup: Setup) -> StoredLadder:
        """The ladder of the stored cells; its widths ascend."""
        ordered = cells.sortby(WIDTH)
        counts = _present(ordered).sum(axis=1)
        kept = ordered.isel({WIDTH: np.flatnonzero(counts >= FEWEST_NETWORKS)})
        widths = tuple(int(width) for width in kept[WIDTH].to_numpy())
        return cls(problem, setup, widths, tuple(int(c) for c in counts[counts >= FEWEST_NETWORKS]), 0, cells=kept)

    def samples(self, name: str) -> list[np.ndarray]:
        """One statistic of all networks, by its name, (networks, ...) for each width."""
        values = self.cells[name].transpose(WIDTH, SEED, ...).to_numpy()
        return [row[there] for row, there in zip(values, _present(self.cells), strict=True)]

    def fluctuations(self, name: str) -> list[np.ndarray]:
        """The distance of each network's statistic from the mean over its width, without bias as in `split`."""
        norms = []
        for values in self.samples(name):
            count, rows = len(values), values.reshape(len(values), -1)
            norms.append(np.linalg.norm(rows - rows.mean(axis=0), axis=1) * np.sqrt(count / (count - 1)))
        return norms

    @cached_property
    def starts(self) -> list[list[Start]]:
        """The networks of each width before training, as `InitialLadder` has them."""
        n, pairs = self.problem.n, zip(self.samples(DEVIATION), self.samples(OUTPUTS), strict=True)
        return [[Start(d.reshape(n, n), f) for d, f in zip(*row, strict=True)] for row in pairs]

    @cached_property
    def infinite_gram(self) -> Estimate:
        """H_inf with its rounding bound."""
        return gram.infinite_estimate(self.problem.x)

    @property
    def sigma(self) -> float:
        """Standard deviation of the initial weights."""
        return self.setup.sigma


def power_on(ladder: Rungs, power: Power, source: str, among: str = "") -> Answer:
    """A power of the width that a statement claims, on a ladder."""
    claim = f"{power.name} ~ m^({power.exponent}){among}"
    return on_ladder(claim, source, float(power.exponent), ladder, lambda: power.exponent_on(ladder))


def _present(cells: Cells) -> np.ndarray:
    """Whether each cell has all its numbers, (widths, seeds); an infinite number counts."""
    whole = np.ones((cells.sizes[WIDTH], cells.sizes[SEED]), bool)
    for values in cells.data_vars.values():
        present = ~np.isnan(values.transpose(WIDTH, SEED, ...).to_numpy())
        whole &= present.all(axis=tuple(range(2, present.ndim)))
    return whole
