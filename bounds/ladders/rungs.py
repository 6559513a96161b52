"""The common parts of ladders of widths: seeds of networks that share no neurons, and their measurements.

A ladder is a case with several networks at each of several widths; the networks of one width are a rung. A ladder that
measures only some networks of each width is called a first look at the whole ladder. A ladder that measures other
networks, to check a result again, is called a second opinion.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.case import Case, Family
from ntkfl.gram.threads import blas_threads

Result = TypeVar("Result")
Make = Callable[..., Any]
Generic = Callable[..., SearchStrategy]

SPACING = 1000  # distance of the seeds of two widths, since networks of one seed at two widths share neurons
OTHER = 500  # distance of a ladder's seeds from the seeds of its second opinion
FEWEST = 4  # least number of networks of a width in a first look; from fewer a bootstrap could not estimate the scatter
AT_ONCE = 2  # number of networks that run at once, in threads; two fit into memory at any width


class Rungs(Case):
    """A ladder whose rung i has `counts[i]` networks of width `widths[i]`. Their seeds start at `seed`.

    A subclass is a dataclass with these fields, a field `problem`, and perhaps others. `spacing` is the distance of the
    seeds of two widths. `other` is the distance of the ladder's seeds from the seeds of its second opinion.
    """

    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int
    spacing: ClassVar[int] = SPACING
    other: ClassVar[int] = OTHER

    def seeds(self, row: int) -> range:
        """The seeds of the networks of one width."""
        first = self.seed + self.spacing * row
        return range(first, first + self.counts[row])

    @property
    def sizes(self) -> np.ndarray:
        """The widths as floats, for the slope in log(width)."""
        return np.array(self.widths, float)

    @property
    def n_runs(self) -> int:
        """The number of networks."""
        return sum(self.counts)

    @cached_property
    def sharing(self) -> list[Self]:
        """This ladder and the first looks at it. A network that several of these ladders have is measured once."""
        return [self]

    @cached_property
    def others(self) -> list[Self]:
        """The second opinions on this ladder and on the first looks at it.

        A network that several of these ladders have is measured once.
        """
        return []

    def first_look(self, share: float) -> Self:
        """A ladder of the first networks of each width.

        It has a share of the networks of each width, and at least FEWEST of them if there are so many.
        """
        ladder: Any = self
        part = replace(ladder, counts=tuple(min(count, max(FEWEST, ceil(share * count))) for count in self.counts))
        vars(part).update(sharing=self.sharing, others=self.others)
        self.sharing.append(part)
        return part

    def fresh(self) -> Self:
        """The same ladder with other networks, as a second opinion."""
        return self._other(self.counts)

    def _other(self, counts: tuple[int, ...]) -> Self:
        ladder: Any = self
        other = replace(ladder, widths=self.widths[: len(counts)], counts=counts, seed=self.seed + self.other)
        vars(other)["sharing"] = self.others
        self.others.append(other)
        return other

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        ladder: Any = self
        return {"problem": ladder.problem.name, "widths": list(self.widths), "networks": self.n_runs, "seed": self.seed}

    def in_rungs(self, name: str, measure: Callable[[int, range], Iterable[Result]]) -> list[list[Result]]:
        """The results of `measure(index of the width, places in its rung)`: for each width one result per network.

        Results that a ladder of the same networks has under the attribute `name` are reused.
        """
        measured_before = [vars(part)[name] for part in self.sharing if name in vars(part)]
        most: list[list[Result]] = max(
            measured_before, key=lambda rows: sum(map(len, rows)), default=[[]] * len(self.counts)
        )
        return [
            [*row[:count], *(measure(i, range(len(row), count)) if count > len(row) else ())]
            for i, (row, count) in enumerate(zip(most, self.counts, strict=True))
        ]

    def at_each(self, name: str, measure: Callable[[int, int], Result]) -> list[list[Result]]:
        """The results as from `in_rungs`, but `measure(index of the width, place in its rung)` measures one network.

        Several networks are measured at once, in threads.
        """
        # large computations release the interpreter's lock
        with ThreadPoolExecutor(min(AT_ONCE, blas_threads())) as pool:
            return self.in_rungs(name, lambda row, places: pool.map(measure, [row] * len(places), places))


@dataclass(frozen=True)
class WidthFamily(Family):
    """A family of one ladder, which is the value of `make(*of, widths, counts, seed)`.

    The seeds of the ladder's networks start at `seed`.
    """

    widths: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def of_rungs(cls, name: str, make: Make, generic: Generic, of: tuple[Any, ...], rungs: Mapping[int, int]) -> Self:
        """The family of ladders with `rungs[width]` networks at each width.

        `rungs` maps each width to its number of networks. A verdict needs 20 networks in all.
        """
        widths, counts = tuple(rungs), tuple(rungs.values())
        return cls(name, make, generic, of, trials=1, needs=20, fixed=True, widths=widths, counts=counts)

    def case(self, seed: int) -> Any:
        """The ladder whose first network has this seed."""
        return self.make(*self.of, self.widths, self.counts, seed)
