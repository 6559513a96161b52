"""Families of cases: the cases on which a statement is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from hypothesis.strategies import SearchStrategy

from bounds.options import Options

FEW, ENOUGH = 5, 20


class AnyFamily(Protocol):
    """The interface of a family of cases: a `Family`, or a class of yours.

    A family is hashable, and equal families share their cases.
    """

    @property
    def name(self) -> str:
        """The name of the family in reports."""

    @property
    def trials(self) -> int:
        """The number of seeds that are run by default."""

    @property
    def required(self) -> int:
        """The number of admitted cases that a verdict needs."""

    def case(self, seed: int) -> Any:
        """The case of one seed.

        Args:
            seed: a whole number, at least 0.
        """

    def strategy(self) -> SearchStrategy:
        """Small, cheap cases of many kinds, for the counterexample search; equal families return the same object."""


@dataclass(frozen=True)
class Family:
    """A family of cases: one case for each seed, and small random cases for the search for counterexamples.

    Equal families share their cases.

    Args:
        name: its name in reports.
        make: the case of a seed, `make(*of, seed)`.
        generic: a Hypothesis strategy of small, cheap cases, or a function `generic(*of)` that returns one.
        of: hashable arguments of `make` and `generic`.
        trials: number of seeds, unless the user asks for another number.
        most: largest number of seeds that the user may choose; None: no limit.
        fixed: whether the number of seeds is `trials` whatever the user asks for.
        needs: number of admitted cases that a verdict needs; default: 20, or 5 where at most 20 are run.
    """

    name: str
    make: Callable[..., Any]
    generic: SearchStrategy | Callable[..., SearchStrategy]
    of: tuple[Any, ...] = ()
    trials: int = ENOUGH
    needs: int | None = None
    most: int | None = None
    fixed: bool = False

    @property
    def required(self) -> int:
        """Admitted cases that a verdict needs."""
        return needed(self.trials) if self.needs is None else self.needs

    def case(self, seed: int) -> Any:
        """The case of one seed.

        Args:
            seed: a whole number, at least 0.
        """
        return self.make(*self.of, seed)

    def strategy(self) -> SearchStrategy:
        """Generic cases for the counterexample search; the same object for equal families."""
        return self.generic if isinstance(self.generic, SearchStrategy) else _strategy(self.generic, self.of)

    def with_trials(self, trials: int | None) -> Family:
        """The same family with as many seeds as the user asks for; None: as many as the family has.

        Args:
            trials: number of seeds; None: as many as the family has.
        """
        if trials is None or self.fixed:
            return self
        return replace(self, trials=trials if self.most is None else min(trials, self.most))


def changed(base: AnyFamily, name: str, change: Callable[[Any], Any]) -> Family:
    """All cases of another family, generic cases included, each changed by a function.

    Args:
        base: the other family.
        name: name of the new family in reports.
        change: (a case) -> a case, a function of a module.
    """
    needs = None if base.required == needed(base.trials) else base.required
    return Family(name, _changed, _all_changed, (base, change), base.trials, needs)


def needed(trials: int) -> int:
    """Number of admitted cases that a verdict needs: 5 if at most 20 seeds are run, else 20.

    Args:
        trials: number of seeds.
    """
    return FEW if trials <= ENOUGH else ENOUGH


def _changed(base: AnyFamily, change: Callable[[Any], Any], seed: int) -> Any:
    return change(base.case(seed))


def _all_changed(base: AnyFamily, change: Callable[[Any], Any]) -> SearchStrategy:
    return base.strategy().map(change)


@cache
def _strategy(generic: Callable[..., SearchStrategy], of: tuple[Any, ...]) -> SearchStrategy:
    return generic(*of)


Chosen = Callable[[Options], tuple[AnyFamily, ...]]  # the families that go with a user's options


def with_own(families: Chosen, *own: Family) -> Chosen:
    """These families, and, unless the user brings data, the statement's own families too.

    Args:
        families: gives the families that go with a user's options.
        own: the statement's own families.

    Returns: a function of the options, for a statement's `families`.
    """
    return lambda options: (*families(options), *(own if options.data is None else ()))
