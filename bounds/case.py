"""The interface of a case, which is an object on which a statement is checked, and of a family of cases.

A check of a statement uses only this interface of the case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from inspect import getmembers_static
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.options import Options
from ntkfl.estimate import Rigour
from ntkfl.initialisation import draw
from ntkfl.problem import Weights

Result = TypeVar("Result")

ASKED = ("n_runs", "prepare", "sharper", "fresh", "redrawn")  # the members that checks use, apart from `describe`
READ_FROM = {  # maps a word in a report to an attribute of a case that has a problem and a setup
    "problem": "problem.name",
    "n": "problem.n",
    "N": "problem.n_clients",
    "K": "setup.local_steps",
    "eta_local": "setup.eta_local",
    "eta_global": "setup.eta_global",
}


class TooCostly(Exception):
    """A sharper version of a case is too expensive to compute.

    The message names the case and a size that is small enough.
    """


NOT_COMPUTED = (ArithmeticError, np.linalg.LinAlgError)  # raised if a case has no value, for example after an overflow


class computed_once(cached_property[Result]):
    """A cached property that also keeps an error: after a failed use every later use raises this error at once."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The value of an instance.

        Raises:
            ArithmeticError, LinAlgError: the value cannot be computed.
        """
        if instance is None:
            return self
        failed = f"{self.attrname} failed"
        if failed in instance.__dict__:
            raise instance.__dict__[failed]
        try:
            return super().__get__(instance, owner)
        except NOT_COMPUTED as error:
            instance.__dict__[failed] = error
            raise


class prepared(computed_once[Result]):
    """A property that takes long to compute; `Case.prepare` computes it in advance."""


class Case:
    """The object on which a statement is checked, a frozen value. All members except `describe` have a default.

    A class of cases derives from this one, and overrides the defaults that do not fit. An object of another class, such
    as a user's, is treated as a case with all defaults; see `case_of`.
    """

    @property
    def n_runs(self) -> int:
        """How many cases this object counts for in a verdict.

        A ladder of widths counts once for each of its runs.
        """
        return 1

    @property
    def rigour(self) -> Rigour:
        """The rigour of the quantities computed from the case."""
        return Rigour.MEASURED

    @property
    def computed(self) -> str:
        """How the quantities of the case are computed, in words."""
        return "as it is"

    @property
    def ran_on(self) -> str | None:
        """The device on which the training engine ran the case; None: the engine was not used."""
        return None

    def prepare(self) -> None:
        """Compute the slow quantities now. A thread can do this while another case is checked."""
        for name, member in getmembers_static(type(self)):
            if isinstance(member, prepared):
                getattr(self, name)

    def sharper(self) -> Case | None:
        """The same case with smaller errors; None: there is no such case.

        If the two sides of a comparison differ by only a few errors, they are compared again on the sharper case. A
        violation is confirmed on the sharper case.

        Raises:
            TooCostly: the sharper case is too large to be computed.
        """
        return None

    def first_look(self, share: float) -> Case:
        """The same case with fewer networks, if fewer networks are often enough to decide; otherwise the case itself.

        Args:
            share: share of the networks, above 0.
        """
        return self

    def fresh(self) -> Case | None:
        """A case with other networks of the same kind, on which a result over many networks is checked again.

        None: there is no such case.
        """
        return None

    @cached_property
    def other_networks(self) -> Case | None:
        """The result of `fresh`, computed once. Every claim that fails is checked again on these same networks."""
        return self.fresh()

    def plain(self) -> Any:
        """The same case in plain float64 without compiled code, for a search that evaluates each case once."""
        return self

    def redrawn(self, seed: int) -> Case:
        """The same case with its random parts drawn anew.

        Args:
            seed: a whole number, at least 0.

        Raises:
            ValueError: nothing in the case is random.
        """
        raise ValueError(f"a {type(self).__name__} has no network to draw anew, so a probability cannot be counted")

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report.

        Raises:
            NotImplementedError: the class does not define `describe`.
        """
        raise NotImplementedError(f"{type(self).__name__} describes nothing; write describe(self), a dict for reports")


class _Bare(Case):
    """A case made of an object that is no `Case` and has only the method `describe`."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def plain(self) -> Any:
        return self._thing

    def redrawn(self, seed: int) -> Case:
        raise ValueError(
            f"a {type(self._thing).__name__} has no network to draw anew, so a probability cannot be counted; "
            "derive it from bounds.case.Case and write redrawn(self, seed)"
        )

    def describe(self) -> dict[str, Any]:
        return self._thing.describe()


def case_of(thing: Any) -> Case:
    """The given object as a case. An object that is no `Case` is wrapped in one that has all defaults.

    Args:
        thing: any object.

    Raises:
        TypeError: the object is no `Case`, but has attributes that only a `Case` has.
    """
    if isinstance(thing, Case):
        return thing
    meant = [name for name in ASKED if hasattr(type(thing), name)]
    if meant:
        raise TypeError(f"{type(thing).__name__} has {', '.join(meant)}; derive it from bounds.case.Case")
    return _Bare(thing)


def described(*words: str, **others: str) -> Callable[[Any], dict[str, Any]]:
    """A method `describe` for a class of cases; it reports the named attributes.

    Args:
        words: words of READ_FROM, or attributes of the case.
        others: further entries, as word="attribute" or word="attribute.its_attribute"; the report shows the value under
        the word.
    """
    places = {word: READ_FROM.get(word, word) for word in words} | others

    def describe(self: Any) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {word: attrgetter(place)(self) for word, place in places.items()}

    return describe


def another_network(weights: Weights, seed: int, sigma: float) -> Weights:
    """A new Gaussian network with the shapes of a given network.

    Args:
        weights: the network whose shapes are taken.
        seed: seed of the new network.
        sigma: standard deviation of its hidden weights.
    """
    width, d = weights.hidden.shape
    return draw(width, d, seed, sigma)


FEW, ENOUGH = 5, 20


class AnyFamily(Protocol):
    """The interface of a family of cases. `Family` has it, and a class of yours may have it.

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
        """How many cases that satisfy the hypotheses a verdict needs."""

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
        needs: how many cases a verdict needs; only cases that satisfy the hypotheses count; default: 20, or 5 where at
            most 20 are run.
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
        """How many cases that satisfy the hypotheses a verdict needs."""
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
    """A family whose cases are the cases of another family, changed by a function. Generic cases are changed too.

    Args:
        base: the other family.
        name: name of the new family in reports.
        change: maps a case to the changed case; a function of a module.
    """
    needs = None if base.required == needed(base.trials) else base.required
    return Family(name, _changed, _all_changed, (base, change), base.trials, needs)


def needed(trials: int) -> int:
    """How many cases that satisfy the hypotheses a verdict needs: 5 if at most 20 seeds are run, else 20.

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


Chosen = Callable[[Options], tuple[AnyFamily, ...]]  # returns the families for given options of the user


def with_own(families: Chosen, *own: Family) -> Chosen:
    """A function that returns these families and, unless the user brings data, the statement's own families too.

    Args:
        families: returns the families for given options of the user.
        own: the statement's own families.

    Returns: a function of the options, for a statement's `families`.
    """
    return lambda options: (*families(options), *(own if options.data is None else ()))
