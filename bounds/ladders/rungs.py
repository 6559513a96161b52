"""What every ladder of widths has: the seeds of its networks, none of which share neurons, and a look at each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import numpy as np

from ntkfl.gram.threads import blas_threads

Result = TypeVar("Result")

SPACING = 1000  # seeds between two widths; the same seed at two widths would give networks that share neurons
OTHER = 500  # from a ladder's seeds to those of its second opinion
AT_ONCE = 2  # networks, by threads of one process; what two hold fits into memory at any width


class Rungs:
    """A ladder whose rung i has `counts[i]` networks of width `widths[i]`; their seeds start at `seed`."""

    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int
    spacing: ClassVar[int] = SPACING

    def seeds(self, row: int) -> range:
        """The seeds of the networks of one width."""
        first = self.seed + self.spacing * row
        return range(first, first + self.counts[row])

    @property
    def sizes(self) -> np.ndarray:
        """The widths, as the abscissa of a slope."""
        return np.array(self.widths, float)

    @property
    def n_runs(self) -> int:
        """Number of networks."""
        return sum(self.counts)

    def at_each(self, look: Callable[[int, int], Result]) -> list[list[Result]]:
        """What is seen at (width index, place in its rung) of every network, by width."""
        with ThreadPoolExecutor(min(AT_ONCE, blas_threads())) as pool:  # large computations release the interpreter
            return [list(pool.map(look, [row] * count, range(count))) for row, count in enumerate(self.counts)]
