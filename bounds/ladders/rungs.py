"""What every ladder of widths has: seeds of its networks, which share no neurons, and a measurement of each."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.case import Case
from bounds.family import Family
from ntkfl.gram.threads import blas_threads

Result = TypeVar("Result")
Make = Callable[..., Any]
Generic = Callable[..., SearchStrategy]

SPACING = 1000  # seeds between two widths; the same seed at two widths would give networks that share neurons
OTHER = 500  # from a ladder's seeds to those of its second opinion
AT_ONCE = 2  # networks, by threads of one process; what two hold fits into memory at any width


class Rungs(Case):
    """A ladder whose rung i has `counts[i]` networks of width `widths[i]`; their seeds start at `seed`.

    A class of ladders is a dataclass, and has a `problem` beside these. `spacing`: seeds between two widths; the
    second opinion's begin `other` later. `halved`: half of the networks often decide, so that a first look at
    them is worth its time.
    """

    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int
    spacing: ClassVar[int] = SPACING
    other: ClassVar[int] = OTHER
    halved: ClassVar[bool] = False

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

    def first_look(self) -> Self:
        """The first half of the networks of each width, where `halved`."""
        ladder: Any = self
        return replace(ladder, counts=tuple(ceil(count / 2) for count in self.counts)) if self.halved else self

    def fresh(self) -> Self:
        """The same ladder with other networks, for a second opinion."""
        ladder: Any = self
        return replace(ladder, seed=self.seed + self.other)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        ladder: Any = self
        return {"problem": ladder.problem.name, "widths": list(self.widths), "networks": self.n_runs, "seed": self.seed}

    def at_each(self, look: Callable[[int, int], Result]) -> list[list[Result]]:
        """What is seen at (width index, place in its rung) of every network, by width."""
        with ThreadPoolExecutor(min(AT_ONCE, blas_threads())) as pool:  # large computations release the interpreter
            return [list(pool.map(look, [row] * count, range(count))) for row, count in enumerate(self.counts)]


@dataclass(frozen=True)
class WidthFamily(Family):
    """One ladder, always: `make(*of, widths, counts, seed)`; its seeds start at the run's seed."""

    widths: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def of_rungs(cls, name: str, make: Make, generic: Generic, of: tuple[Any, ...], rungs: Mapping[int, int]) -> Self:
        """The family of ladders with so many networks at each width; 20 of them make a verdict.

        `rungs` has the number of networks by width.
        """
        widths, counts = tuple(rungs), tuple(rungs.values())
        return cls(name, make, generic, of, trials=1, needs=20, fixed=True, widths=widths, counts=counts)

    def case(self, seed: int) -> Any:
        """The ladder whose first seed is this one."""
        return self.make(*self.of, self.widths, self.counts, seed)
