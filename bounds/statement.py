"""A theorem as data: hypotheses, formulas in every form, how the left side is measured, and how it is attacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.formula import Formula
from ntkfl.balls import precision
from ntkfl.estimate import Estimate


class Kind(StrEnum):
    """What is claimed; it decides the check."""

    EQUALITY = "equality"
    TWO_SIDED = "two-sided"
    UPPER = "upper"
    LOWER = "lower"
    PROBABILITY = "probability"
    RATE = "rate"
    ORDER = "order"
    DEFINITION = "definition"
    EXISTENCE = "existence"


class Form(StrEnum):
    """As printed; as its proof gives it; as repaired."""

    STATED = "stated"
    PROVED = "proved"
    REPAIRED = "repaired"


class Outcome(StrEnum):
    """What a check found. `OPEN` only records that nothing is settled yet."""

    HOLDS = "holds"
    TOUCHES = "touches"
    UNRESOLVED = "unresolved"
    VIOLATED = "violated"
    UNTESTED = "untested"
    OPEN = "open"


@dataclass(frozen=True)
class Source:
    """Where a statement comes from, and what was printed against what was meant."""

    paper: str
    label: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.paper}, {self.label}"


FL_NTK = "FL-NTK (Huang, Li, Song, Yang; ICML 2021, arXiv version)"
FEDGUCCI = "FedGuCci (ICLR submission and KDD 2025 version)"
IMA = "Understanding and Improving Model Averaging in Federated Learning (IMA)"
BEYOND = "beyond the papers"


@dataclass(frozen=True)
class Convention:
    """What a paper's statements mean in one respect, and what was printed or left open there."""

    about: str
    used: str
    printed: str


@dataclass(frozen=True)
class Hypothesis:
    """An executable predicate: met by a case when every entry of its margin is surely at least 0."""

    name: str
    says: str
    margin: Callable[[Any], Estimate | float]

    def met(self, case: Any) -> bool:
        """Whether the case meets it, beyond the margin's own error."""
        return self.least(case) >= 0

    def least(self, case: Any) -> float:
        """The smallest entry of the margin, its error taken off; NaN where one is unknown."""
        with precision():
            margin = self.margin(case)
        if not isinstance(margin, Estimate) and np.asarray(margin).dtype == bool:
            raise TypeError(
                f"the hypothesis {self.name} gives {margin}; it must give a margin, at least 0 where it is met"
            )
        found = margin if isinstance(margin, Estimate) else Estimate.exact(margin)
        return float(np.min(found.lo, initial=np.inf)) + 0.0  # no negative zero


class Draw(Protocol):
    """A family of cases: case(seed) gives one. Hashable; equal draws share their cases between statements."""

    @property
    def name(self) -> str:
        """What reports call the family."""

    @property
    def trials(self) -> int:
        """How many seeds are run by default."""

    @property
    def required(self) -> int:
        """How many admitted cases a verdict needs."""

    def case(self, seed: int) -> Any:
        """The case of one seed."""

    def strategy(self) -> SearchStrategy:
        """Generic cases for the counterexample search: small, of wide ranges, cheap; the same object for equal ones."""


class Change(StrEnum):
    """In what way a mutant is wrong."""

    CONSTANT = "constant"
    POWER = "power"
    FACTOR = "factor"
    COMPARISON = "comparison"
    INDEX = "index"
    SIGN = "sign"
    OTHER = "other"


@dataclass(frozen=True)
class Mutant:
    """A wrong version of a formula that the checker must call violated; `reverse`: its comparison turned round."""

    name: str
    change: Callable[[Any], Any]
    sort: Change = Change.OTHER
    reverse: bool = False


@dataclass(frozen=True, eq=False)
class Statement:
    """One numbered result.

    Args:
        id: paper/label, as in the list of statements; title: one line. kind: decides the check. source: where from.
        forms: a Formula for each form that exists.
        constants: the values of the formulas' symbols on a case; `measure`: the left side, an Estimate (an array where
            the claim is made for many rounds or entries), or one for each part. The two share nothing but the case.
        draws: the families of cases it is checked on, given the user's options.
        measures, form_draws: the left side, or the families of cases, of a form where they are other ones.
        hypotheses: required by every form; `form_hypotheses`: by one form in addition.
        mutants: wrong formulas, applied to the form named in `mutate` (default: the last one that is recorded to hold).
        recorded: the settled outcome of each form. witness: for a form recorded violated, a stored case that shows it.
        necessity: for a hypothesis's name, a case that breaks the claim when only that hypothesis is dropped.
        says_left: how the left side is measured, in words. uses: ids of statements it rests on.
        symbols: what the symbols of its own mean, where the glossary has none of that name or means another thing.
    """

    id: str
    title: str
    kind: Kind
    source: Source
    forms: Mapping[Form, Formula]
    constants: Callable[[Any], Mapping[Any, Any]]
    measure: Callable[[Any], Estimate | tuple[Estimate, ...]]
    draws: Callable[[Any], tuple[Draw, ...]]
    recorded: Mapping[Form, Outcome]
    says_left: str
    hypotheses: tuple[Hypothesis, ...] = ()
    form_hypotheses: Mapping[Form, tuple[Hypothesis, ...]] = field(default_factory=dict)
    measures: Mapping[Form, Callable[[Any], Estimate | tuple[Estimate, ...]]] = field(default_factory=dict)
    form_draws: Mapping[Form, Callable[[Any], tuple[Draw, ...]]] = field(default_factory=dict)
    mutants: tuple[Mutant, ...] = ()
    witness: Mapping[Form, Callable[[], Any]] = field(default_factory=dict)
    necessity: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    symbols: Mapping[Any, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for form, formula in self.forms.items():
            if not isinstance(formula, Formula):
                raise TypeError(f"the {form} form of {self.id} is {formula}; it must be a Formula: Formula({formula})")
        for name, of in (("constants", "a case"), ("measure", "a case"), ("draws", "the options")):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} of {self.id} is {getattr(self, name)!r}; it must be a function of {of}")
        unrecorded = set(self.forms) - set(self.recorded)
        if unrecorded:
            raise ValueError(f"{self.id} records no outcome for its form {sorted(unrecorded)[0]}")
        names = {h.name for form in self.forms for h in self.required(form)}
        for name in set(self.necessity) - names:
            raise ValueError(f"{self.id} has a necessity case for {name!r}, which is none of its hypotheses")

    def required(self, form: Form) -> tuple[Hypothesis, ...]:
        """The hypotheses of one form."""
        return self.hypotheses + tuple(self.form_hypotheses.get(form, ()))

    def families(self, form: Form, options: Any) -> tuple[Draw, ...]:
        """The families of cases that one form is checked on."""
        return tuple(self.form_draws.get(form, self.draws)(options))

    def left(self, form: Form, case: Any) -> tuple[Estimate, ...]:
        """The measured left side of one form on a case, part by part."""
        measured = self.measures.get(form, self.measure)(case)
        parts = measured if isinstance(measured, tuple) else (measured,)
        for part in parts:
            if not isinstance(part, Estimate):
                raise TypeError(
                    f"{self.id} measures a {type(part).__name__}; it must be an Estimate, a value with its error "
                    "(Estimate.exact(value) where it has none)"
                )
        return parts

    def measured(self, form: Form, case: Any) -> tuple[tuple[Estimate, ...], Mapping[Any, Any]]:
        """The left side of one form on a case, and its formulas' constants there; both at one precision of balls.

        What else runs in the process, threads that prepare cases say, does not change them.
        """
        with precision():
            return self.left(form, case), self.constants(case)

    def evaluate(self, constants: Mapping[Any, Any], form: Form | None = None) -> tuple[Estimate, ...]:
        """The right side for a user's own numbers, symbol by symbol, part by part."""
        for symbol, value in constants.items():
            if getattr(symbol, "is_positive", False) and np.any(np.asarray(getattr(value, "value", value)) <= 0):
                raise ValueError(f"{symbol} is {value}; it must be positive")
        return self.forms[form or self.mutated_form].evaluate(constants)

    def solve_for(
        self, symbol: Any, value: float, constants: Mapping[Any, Any], form: Form | None = None
    ) -> list[float]:
        """The values of a symbol at which the right side equals `value`: say, the width a bound needs."""
        return self.forms[form or self.mutated_form].solve_for(symbol, value, constants)

    @property
    def mutated_form(self) -> Form:
        """The form that mutants are made of: the last one recorded to hold, else the last one."""
        holding = [form for form in self.forms if self.recorded[form] is Outcome.HOLDS]
        return (holding or list(self.forms))[-1]
