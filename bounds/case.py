"""The interface of a case to the checks of statements: it describes itself, and may be computed more sharply."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from inspect import getmembers_static
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from ntkfl.estimate import Rigour
from ntkfl.initialisation import draw
from ntkfl.problem import Weights

Result = TypeVar("Result")

ASKED = ("n_runs", "prepare", "sharper", "fresh", "redrawn")  # beside `describe`
READ_FROM = {  # what reports call it, and where a case with a problem and a setup has it
    "problem": "problem.name",
    "n": "problem.n",
    "N": "problem.n_clients",
    "K": "setup.local_steps",
    "eta_local": "setup.eta_local",
    "eta_global": "setup.eta_global",
}


class TooCostly(Exception):
    """A case could be known better, at a cost that nobody pays; the message says which, and what would do."""


NOT_COMPUTED = (ArithmeticError, np.linalg.LinAlgError)  # raised where a case has no value, as where a run overflows


class computed_once(cached_property[Result]):
    """A cached property that keeps an error too: every later use raises the error of the first at once."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The value of an instance.

        Raises:
            ArithmeticError, LinAlgError: it cannot be computed, each time the same error.
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
    """A property that takes long: `prepare` computes it ahead."""


class Case:
    """The object that a statement is checked on: a frozen value. Everything but `describe` has a default.

    A class of cases derives from this one, and overrides the defaults that do not fit. An object of another class, such
    as a user's, is taken as a case with all defaults; see `case_of`.
    """

    @property
    def n_runs(self) -> int:
        """The number of admitted cases that it counts as: a ladder consists of many runs."""
        return 1

    @property
    def rigour(self) -> Rigour:
        """How far the quantities computed from it may be trusted."""
        return Rigour.MEASURED

    @property
    def computed(self) -> str:
        """How it is computed, in words."""
        return "as it is"

    @property
    def ran_on(self) -> str | None:
        """The device of the training engine that the case was run on; None: the engine was not used."""
        return None

    def prepare(self) -> None:
        """Do now what takes long; a thread can, while another case is judged."""
        for name, member in getmembers_static(type(self)):
            if isinstance(member, prepared):
                getattr(self, name)

    def sharper(self) -> Case | None:
        """The same case with smaller errors; None where there is none.

        Near decisions are repeated on it, and a violation is confirmed on it.

        Raises:
            TooCostly: there is one, but it is too large to be computed.
        """
        return None

    def first_look(self, share: float) -> Case:
        """The same case with fewer networks, where fewer often decide; itself where they do not.

        Args:
            share: share of the networks, above 0.
        """
        return self

    def fresh(self) -> Case | None:
        """Other networks of the same kind, for a second opinion on what many networks show; None: there are none."""
        return None

    @cached_property
    def other_networks(self) -> Case | None:
        """`fresh`, made once: every claim that fails on the case is redone on the same other networks."""
        return self.fresh()

    def plain(self) -> Any:
        """The same case in plain float64, nothing of it compiled, for a search that looks at each once."""
        return self

    def redrawn(self, seed: int) -> Case:
        """The same case with what is random in it drawn anew.

        Args:
            seed: a whole number, at least 0.

        Raises:
            ValueError: nothing is.
        """
        raise ValueError(f"a {type(self).__name__} has no network to draw anew, so a probability cannot be counted")

    def describe(self) -> dict[str, Any]:
        """What identifies it in a report.

        Raises:
            NotImplementedError: a class without it.
        """
        raise NotImplementedError(f"{type(self).__name__} describes nothing; write describe(self), a dict for reports")


class _Bare(Case):
    """In place of an object that is no `Case`: it can only describe itself."""

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
    """An object that statements are checked on, as a case. This is the one place that checks what it is.

    Args:
        thing: any object.

    Raises:
        TypeError: an object with attributes that only a `Case` has, which is no `Case`.
    """
    if isinstance(thing, Case):
        return thing
    meant = [name for name in ASKED if hasattr(type(thing), name)]
    if meant:
        raise TypeError(f"{type(thing).__name__} has {', '.join(meant)}; derive it from bounds.case.Case")
    return _Bare(thing)


def described(*words: str, **others: str) -> Callable[[Any], dict[str, Any]]:
    """The method `describe` of a class of cases that says these of each.

    Args:
        words: words of READ_FROM, or attributes of the case.
        others: entries with other names, word="attribute" or "its.attribute".
    """
    places = {word: READ_FROM.get(word, word) for word in words} | others

    def describe(self: Any) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {word: attrgetter(place)(self) for word, place in places.items()}

    return describe


def another_network(weights: Weights, seed: int, sigma: float) -> Weights:
    """The Gaussian network of a seed, in the shapes of this one.

    Args:
        weights: the network whose shapes are taken.
        seed: seed of the new network.
        sigma: standard deviation of its hidden weights.
    """
    width, d = weights.hidden.shape
    return draw(width, d, seed, sigma)
