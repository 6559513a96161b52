"""The result of a check, as a value: every report is made from it, and it survives JSON unchanged."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np

from bounds import Form, Kind, Outcome
from bounds.evidence import evidence
from bounds.papers import own
from ntkfl.estimate import Estimate
from verification.facts import Elsewhere, Needed, Standing, Unmet, Vacuous, Where, Witness
from verification.seen import Seen
from verification.verdict_page import as_text

NOT_REFUTED = "not refuted"
DERIVED = "trials", "mutants_killed", "mutants_total", "broken_by_search"  # written to JSON, and not read from it
Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True)
class Side:
    """One side of the worst comparison: value, error, how the error was obtained."""

    value: float
    error: float
    method: str

    @classmethod
    def of(cls, estimate: Estimate) -> Side:
        """The side with the value, error and method of an estimate of one number.

        Args:
            estimate: an Estimate of one number.
        """
        return cls(float(estimate.value), float(estimate.error), estimate.method)


@dataclass(frozen=True)
class Verdict:
    """The outcome of checking one form of one statement.

    holds + touches + unresolved + violated are the admitted cases, the `trials`; `rejected` counts, by hypothesis, the
    drawn cases that did not meet it; `margins` has for each hypothesis its smallest margin over the admitted cases.
    `lhs`, `rhs`: the sides of the worst trial; `tightness`: the largest and the median left/right (for an equality
    |difference|/scale instead, for a rate the distance from theory in half-widths). `vacuous`: why the bound is not
    informative for any possible run; None where it is. `witness`: the result of the stored case; where that case
    decides, `tightness` has its ratio too. `error`: the exception that ended the check, with its type. `complete`: all
    its cases were run; it was not interrupted.
    `would_exclude`: where the trials are too few to test the small failure probability that a claim allows, and none
    failed: the smallest probability that they would have excluded (at 95%). `standing`: of a violation, whether it was
    confirmed or only seen; `confirmation` says how. `own_data`: the cases, and so the outcome, are of the user's own
    data. `data_unused`: there are such data, and the form is not about data. `elsewhere`: with `own_data`, where the
    form is known to fail on other cases. `unmet`: for each hypothesis that rejected cases, the value that missed it.
    `not_computed`: the admitted cases that could not be computed, with the error; they are among the unresolved.
    `seen`: some of the cases, for a picture. `search`: the result of a search after the cases.
    """

    id: str
    form: Form
    kind: Kind
    outcome: Outcome
    recorded: Outcome
    holds: int
    touches: int
    unresolved: int
    violated: int
    rejected: dict[str, int]
    lhs: Side | None
    rhs: Side | None
    tightness: dict[str, float] | None
    worst_case: dict[str, Any] | None
    vacuous: Vacuous | None
    witness: Witness | None
    confirmation: str | None
    mutants: dict[str, str]
    necessity: dict[str, Needed]
    notes: tuple[str, ...]
    replay: str
    provenance: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    margins: dict[str, float] = field(default_factory=dict)
    complete: bool = True
    would_exclude: float | None = None
    standing: Standing | None = None
    own_data: bool = False
    data_unused: bool = False
    elsewhere: Elsewhere | None = None
    unmet: dict[str, Unmet] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)
    seen: Seen | None = None
    search: str | None = None

    @property
    def trials(self) -> int:
        """The number of admitted cases."""
        return self.holds + self.touches + self.unresolved + self.violated

    @property
    def mutants_killed(self) -> int:
        """How many of the mutants were called violated."""
        return sum(fate == Outcome.VIOLATED for fate in self.mutants.values())

    @property
    def mutants_total(self) -> int:
        """How many mutants were judged."""
        return len(self.mutants)

    @property
    def broken_by_search(self) -> bool:
        """Whether the cases held, and a counterexample that a search found after them decided."""
        return "search" in (self.tightness or {})

    @property
    def word(self) -> str:
        """The outcome in reports: a form that holds on too few trials to test its probability is called not refuted."""
        return NOT_REFUTED if self.would_exclude is not None else self.outcome.value

    @property
    def weakly_tested(self) -> bool:
        """Whether some mutant survived; on data that a user chose this says nothing about the check."""
        return bool(self.trials) and self.mutants_killed < self.mutants_total and not self.own_data

    @property
    def nothing_tested(self) -> bool:
        """Whether nothing was tested: too few cases were admitted, or none of them could be computed."""
        return self.outcome is Outcome.UNTESTED or 0 < self.trials == len(self.not_computed)

    @property
    def tested_and_holds(self) -> bool:
        """Whether enough was tested and nothing broke it: what is only not refuted, untested or unresolved does not."""
        return self.error is None and self.complete and self.word in (Outcome.HOLDS, Outcome.TOUCHES)

    @property
    def as_recorded(self) -> bool:
        """Whether the outcome is the settled one; touching a bound is a way of holding.

        A form recorded open has none: it stays open until it is violated, which nobody recorded.
        """
        outcome = Outcome.HOLDS if self.outcome is Outcome.TOUCHES else self.outcome
        expected = outcome is self.recorded or (self.recorded is Outcome.OPEN and outcome is not Outcome.VIOLATED)
        return self.error is None and expected

    @property
    def refutes_open(self) -> bool:
        """Whether a form that is recorded open is violated: neither as recorded nor against the record."""
        return self.error is None and (self.outcome, self.recorded) == (Outcome.VIOLATED, Outcome.OPEN)

    @property
    def contradicts_record(self) -> bool:
        """Whether the outcome differs from the recorded outcome.

        With the user's own data, on which the recorded outcomes were not settled, only the violation of a form that is
        recorded to hold counts, and a check that an exception ended. The same holds for an interrupted check. A
        violated form that is recorded open contradicts nothing; `refutes_open` says it.
        """
        if self.own_data or self.data_unused or not self.complete:
            return self.error is not None or (self.outcome, self.recorded) == (Outcome.VIOLATED, Outcome.HOLDS)
        return not self.as_recorded and not self.refutes_open

    @property
    def fails_elsewhere(self) -> bool:
        """Whether a form fails on other cases alone: not on the user's data."""
        return self.elsewhere is not None and self.outcome is not Outcome.VIOLATED

    def __str__(self) -> str:
        """The full page."""
        return as_text(self)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; a number that is not finite is "inf", "-inf" or "nan", since strict JSON has none.

        `evidence` has what the recorded outcome of one of this project's forms rests on, with the places that show it.
        `from_json` gives the verdict back.
        """
        content = strict_json(asdict(replace(self, seen=None))) | {name: getattr(self, name) for name in DERIVED}
        statement = own().get(self.id)
        rests = strict_json(evidence(statement, self.form)) if statement and self.form in statement.forms else {}
        return content | {"seen": None if self.seen is None else self.seen.to_json(), "evidence": rests}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote.

        Args:
            content: what `to_json` wrote.

        Raises:
            ValueError: the content is of an older version, which had sentences in place of values, or has an unknown
                word; the message names the field, and what it may be.
        """
        ratios, seen = content["tightness"], content.get("seen")
        given = {
            "form": _word(Form, content["form"], "form"),
            "kind": _word(Kind, content["kind"], "kind"),
            "outcome": _word(Outcome, content["outcome"], "outcome"),
            "recorded": _word(Outcome, content["recorded"], "recorded"),
            "margins": _numbers(content.get("margins", {})),
            "lhs": _side(content["lhs"]),
            "rhs": _side(content["rhs"]),
            "tightness": ratios and _numbers(ratios),
            "vacuous": _vacuous(content["vacuous"]),
            "witness": _witness(content["witness"]),
            "necessity": {name: _word(Needed, word, "necessity") for name, word in content["necessity"].items()},
            "notes": tuple(content["notes"]),
            "standing": _word(Standing, content["standing"], "standing") if content.get("standing") else None,
            "elsewhere": _elsewhere(content.get("elsewhere")),
            "unmet": {name: Unmet(**_facts(unmet, "unmet")) for name, unmet in content.get("unmet", {}).items()},
            "seen": None if seen is None else Seen.from_json(seen),
        }
        derived = {*DERIVED, "evidence"}
        return cls(**({name: part for name, part in content.items() if name not in derived} | given))


def _side(content: dict[str, Any] | None) -> Side | None:
    if content is None:
        return None
    return Side(float(content["value"]), float(content["error"]), content["method"])


def _word(kind: type[Word], text: Any, name: str) -> Word:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(repr(word.value) for word in kind)
        raise ValueError(f"{name!r} is {text!r}; here it is one of {known}: verify again") from None


def _facts(content: Any, name: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{name!r} is {content!r}, a text of an older version; here it has values: verify again")
    return content


def _numbers(content: dict[str, Any]) -> dict[str, float]:
    return {name: float(number) for name, number in content.items()}


def _vacuous(content: Any) -> Vacuous | None:
    if content is None:
        return None
    given = _facts(content, "vacuous")
    factor = given["factor"]
    return Vacuous(_numbers(given["at_least"]), _numbers(given["at_most"]), None if factor is None else float(factor))


def _witness(content: Any) -> Witness | None:
    if content is None:
        return None
    given = _facts(content, "witness")
    return Witness(
        float(given["ratio"]), _word(Outcome, given["outcome"], "outcome"), tuple(given["unmet"]), given["fallen"]
    )


def _elsewhere(content: Any) -> Elsewhere | None:
    if content is None:
        return None
    given = _facts(content, "elsewhere")
    return Elsewhere(_word(Where, given["where"], "where"), None if given["ratio"] is None else float(given["ratio"]))


def strict_json(content: Any) -> Any:
    """The same content in the types of strict JSON.

    Args:
        content: numbers, texts, lists and dictionaries.
    """
    if isinstance(content, dict):
        return {str(name): strict_json(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [strict_json(part) for part in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, StrEnum):
        return content.value
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content
