"""Stored runs of networks of increasing widths (a ladder), in place of new runs for statements about exponents."""

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
FEWEST_NETWORKS = 2  # the least number of networks of a width, since a mean and a distance from the mean need two


@dataclass(frozen=True, eq=False)
class StoredLadder(WidthLadder):
    """The cells of a study with axes of widths and seeds.

    Widths with fewer than two complete cells are left out.

    `cells` has every statistic of a run as a variable with the dimensions (width, seed, ...), and NaN for missing
    cells.
    """

    cells: Cells = field(kw_only=True)

    @classmethod
    def of(cls, cells: Cells, problem: Problem, setup: Setup) -> StoredLadder:
        """The ladder of these cells, with ascending widths."""
        ordered = cells.sortby(WIDTH)
        counts = _present(ordered).sum(axis=1)
        kept = ordered.isel({WIDTH: np.flatnonzero(counts >= FEWEST_NETWORKS)})
        widths = tuple(int(width) for width in kept[WIDTH].to_numpy())
        return cls(problem, setup, widths, tuple(int(c) for c in counts[counts >= FEWEST_NETWORKS]), 0, cells=kept)

    def samples(self, name: str) -> list[np.ndarray]:
        """The statistic of this name for all networks, (networks, ...) for each width."""
        values = self.cells[name].transpose(WIDTH, SEED, ...).to_numpy()
        return [row[there] for row, there in zip(values, _present(self.cells), strict=True)]

    def fluctuations(self, name: str) -> list[np.ndarray]:
        """The distance of each network's statistic from the mean over the networks of its width.

        The distances have a factor that makes their mean square unbiased, as in `WidthLadder.split`.
        """
        norms = []
        for values in self.samples(name):
            count, rows = len(values), values.reshape(len(values), -1)
            norms.append(np.linalg.norm(rows - rows.mean(axis=0), axis=1) * np.sqrt(count / (count - 1)))
        return norms

    @cached_property
    def starts(self) -> list[list[Start]]:
        """The networks of each width before training, in the form of `InitialLadder`."""
        n, pairs = self.problem.n, zip(self.samples(DEVIATION), self.samples(OUTPUTS), strict=True)
        return [[Start(d.reshape(n, n), f) for d, f in zip(*row, strict=True)] for row in pairs]

    @cached_property
    def infinite_gram(self) -> Estimate:
        """The Gram matrix H_inf with a bound on its rounding error."""
        return gram.infinite_estimate(self.problem.x)

    @property
    def sigma(self) -> float:
        """The standard deviation of the initial weights."""
        return self.setup.sigma


def power_on(ladder: Rungs, power: Power, source: str, among: str = "") -> Answer:
    """The power of the width that a statement is about, as measured on a ladder."""
    claim = f"{power.name} ~ m^({power.exponent}){among}"
    return on_ladder(claim, source, float(power.exponent), ladder, lambda: power.exponent_on(ladder))


def _present(cells: Cells) -> np.ndarray:
    """Whether each cell has all its numbers, (widths, seeds); infinite numbers count as present."""
    whole = np.ones((cells.sizes[WIDTH], cells.sizes[SEED]), bool)
    for values in cells.data_vars.values():
        present = ~np.isnan(values.transpose(WIDTH, SEED, ...).to_numpy())
        whole &= present.all(axis=tuple(range(2, present.ndim)))
    return whole
