"""The result of a check as a value, which is written to JSON and read back unchanged. Every report is made from it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from bounds import Form, Kind, Outcome
from bounds.evidence import evidence
from bounds.listing import NO_TORCH
from bounds.papers import own
from ntkfl.estimate import Estimate
from ntkfl.messages import refusing
from verification.case_points import CasePoints
from verification.compare import Comparison
from verification.facts import Confirmation, Counts, Data, Elsewhere, Fact, Needed, Standing, Vacuous, Witness
from verification.json_values import read_as, read_fields, refused, strict_json
from verification.verdict_page import as_text

NOT_REFUTED = "not refuted"
NOT_RUN = "not run"
COUNTS = {part.name for part in fields(Counts)}
# names that files use; a file stores the values of a group, such as `counts`, beside the other fields
FLAT = COUNTS | {"lhs", "rhs", "worst_case", "standing", "own_data", "data_unused"}
MOVED = {name: f"it is verdict.counts.{name}" for name in COUNTS - {"would_exclude"}} | {
    "worst_case": "it is verdict.worst.case",
    "standing": "it is verdict.confirmation.standing",
    "own_data": "give data=Data.OWN",
    "data_unused": "compare verdict.data with Data.UNUSED",
}
DERIVED = "trials", "mutants_killed", "mutants_total", "broken_by_search", "lhs", "rhs", "own_data"


@dataclass(frozen=True)
class Side:
    """One side of the worst comparison: its value, its error, and how the error was obtained."""

    value: float
    error: float
    method: str

    @classmethod
    def of(cls, estimate: Estimate) -> Side:
        """A side with the value, the error and the method of an estimate of one number.

        Args:
            estimate: the estimate.
        """
        return cls(float(estimate.value), float(estimate.error), estimate.method)


@dataclass(frozen=True)
class Worst:
    """The worst comparison: both sides, and the case on which they were measured."""

    left: Side
    right: Side
    case: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, comparison: Comparison, case: dict[str, Any]) -> Worst:
        """The worst comparison, made from the estimates of its two sides.

        Args:
            comparison: the comparison.
            case: the family and seed of the case, and its description.
        """
        return cls(Side.of(comparison.left), Side.of(comparison.right), case)


@refusing(MOVED)
@dataclass(frozen=True)
class Verdict:
    """The outcome of checking one form of one statement.

    `counts`: what became of the drawn cases. `worst`: the worst comparison. `tightness`: the largest and the median
    tightness of the comparisons (`compare.Comparison`). The tightness of a comparison is left/right or right/left for a
    bound, |difference|/scale for an equality, and the distance from theory in half-widths for a rate. `vacuous`: why
    the bound is not informative for any possible run; None if the bound is informative. `witness`: the result of the
    stored case. If the stored case decides, `tightness` includes its ratio. `confirmation`: how a violation was redone.
    `error`: the exception that ended the check, with its type. `complete`: whether all cases were run, without an
    interruption. `data`: whose data the cases are made of; the outcome is about the same data. `elsewhere`: for the
    user's data, the other cases on which the form is known to fail. `seen`: some of the cases, for a picture. `search`:
    the result of a search that followed the cases.
    """

    id: str
    form: Form
    kind: Kind
    outcome: Outcome
    recorded: Outcome
    counts: Counts
    worst: Worst | None
    tightness: dict[str, float] | None
    vacuous: Vacuous | None
    witness: Witness | None
    confirmation: Confirmation | None
    mutants: dict[str, Outcome]
    necessity: dict[str, Needed]
    notes: tuple[Fact, ...]
    replay: str
    provenance: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    complete: bool = True
    data: Data = Data.BUILT_IN
    elsewhere: Elsewhere | None = None
    seen: CasePoints | None = None
    search: Fact | None = None

    @property
    def lhs(self) -> Side | None:
        """The left side of the worst comparison."""
        return None if self.worst is None else self.worst.left

    @property
    def rhs(self) -> Side | None:
        """The right side of the worst comparison."""
        return None if self.worst is None else self.worst.right

    @property
    def own_data(self) -> bool:
        """Whether the cases are made of the user's own data, so that the outcome is about these data."""
        return self.data is Data.OWN

    @property
    def would_exclude(self) -> float | None:
        """For too few trials, the smallest failure probability that they would have excluded; see `Counts`."""
        return self.counts.would_exclude

    @property
    def trials(self) -> int:
        """The number of admitted cases."""
        return self.counts.trials

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
        """Whether the cases held, but a search after them found a counterexample, which decided the outcome."""
        return "search" in (self.tightness or {})

    @property
    def word(self) -> str:
        """The outcome in reports.

        The word is "not refuted" for a form that holds on too few trials to test the form's failure probability.
        """
        if self.not_run:
            return NOT_RUN
        return NOT_REFUTED if self.would_exclude is not None else self.outcome.value

    @property
    def not_run(self) -> bool:
        """Whether the check needs PyTorch, which was not installed."""
        return self.error == NO_TORCH

    @property
    def weakly_tested(self) -> bool:
        """Whether some mutant was not called violated. On data that a user chose, a mutant that is not called violated
        says nothing about the check.
        """
        told = self.mutants_killed == self.mutants_total or self.own_data or self.not_run
        return bool(self.trials) and not told

    @property
    def nothing_tested(self) -> bool:
        """Whether nothing was tested: too few cases were admitted, or none of them could be computed."""
        return self.outcome is Outcome.UNTESTED or 0 < self.trials == len(self.counts.not_computed)

    @property
    def tested_and_holds(self) -> bool:
        """Whether enough cases were tested and none of them broke the form.

        A form whose outcome is called "not refuted" does not count.
        """
        return self.error is None and self.complete and self.word in (Outcome.HOLDS, Outcome.TOUCHES)

    @property
    def as_recorded(self) -> bool:
        """Whether the outcome is the recorded one; an outcome that touches the bound counts as holding.

        A form that is recorded as open agrees with every outcome except a violation.
        """
        outcome = Outcome.HOLDS if self.outcome is Outcome.TOUCHES else self.outcome
        expected = outcome is self.recorded or (self.recorded is Outcome.OPEN and outcome is not Outcome.VIOLATED)
        return self.error is None and expected

    @property
    def refutes_open(self) -> bool:
        """Whether a form that is recorded as open is violated.

        Such a violation neither agrees with the record nor contradicts it.
        """
        return self.error is None and (self.outcome, self.recorded) == (Outcome.VIOLATED, Outcome.OPEN)

    @property
    def contradicts_record(self) -> bool:
        """Whether the outcome differs from the recorded outcome.

        The recorded outcomes were not found on the user's own data. With such data only two things count as a
        difference: a form that is recorded to hold is violated, or an exception ended the check. For an interrupted
        check, too, only these two things count. A violated form that is recorded as open contradicts nothing; see
        `refutes_open`. A check that was not run contradicts nothing either.
        """
        if self.not_run:
            return False
        if self.data is not Data.BUILT_IN or not self.complete:
            return self.error is not None or (self.outcome, self.recorded) == (Outcome.VIOLATED, Outcome.HOLDS)
        return not self.as_recorded and not self.refutes_open

    @property
    def fails_elsewhere(self) -> bool:
        """Whether a form fails on other cases only, and not on the user's data."""
        return self.elsewhere is not None and self.outcome is not Outcome.VIOLATED

    def __str__(self) -> str:
        """The full page of the verdict."""
        return as_text(self)

    def to_json(self) -> dict[str, Any]:
        """The verdict in plain JSON types, from which `from_json` restores it.

        A number that is not finite is written "inf", "-inf" or "nan", since strict JSON has no such numbers. The values
        of `counts`, `worst`, `confirmation` and `data` are stored beside the other fields. For a form of this project,
        `evidence` says on what its recorded outcome rests, and where that is shown.
        """
        statement, redone = own().get(self.id), self.confirmation
        grouped = ("counts", "worst", "confirmation", "data")
        content = {part.name: getattr(self, part.name) for part in fields(self) if part.name not in grouped}
        content |= {part.name: getattr(self.counts, part.name) for part in fields(self.counts)}
        content |= {name: getattr(self, name) for name in DERIVED}
        content |= {
            "worst_case": self.worst and self.worst.case,
            "confirmation": redone and redone.how,
            "standing": redone and redone.standing,
            "data_unused": self.data is Data.UNUSED,
            "evidence": evidence(statement, self.form) if statement and self.form in statement.forms else {},
        }
        return strict_json(content)

    @classmethod
    def from_json(cls, content: dict[str, Any], name: str = "") -> Verdict:
        """The verdict that `to_json` wrote. A file of an older version, which has texts in place of facts, is read too.

        Args:
            content: what `to_json` wrote.
            name: its place in a file, for messages; default none.

        Raises:
            ValueError: a value of the wrong type, an unknown word, a missing field; the message names the field, its
                value, and what it may be.
        """
        verdict, place = cls(**read_fields(cls, _grouped(content, name), name)), f"{name}." if name else ""
        if verdict.outcome is Outcome.OPEN:
            raise refused(f"{place}outcome", "open", "an outcome of a check, which is never open")
        kinds = {"versions": dict[str, Any], "seeds": dict[str, int], "statement": dict[str, str]}
        for part, kind in kinds.items():
            read_as(kind, verdict.provenance.get(part, {}), f"{place}provenance.{part}")
        return verdict


def _grouped(content: Any, name: str) -> Any:
    """The content of a file, in which the values of each group are moved into a dictionary of their own."""
    if not isinstance(content, dict):
        return content
    place = f"{name}." if name else ""
    own_data, unused = (read_as(bool, content.get(flag, False), place + flag) for flag in ("own_data", "data_unused"))
    redone, standing = content.get("confirmation"), content.get("standing")
    sides = {"left": content.get("lhs"), "right": content.get("rhs")}
    return {name: part for name, part in content.items() if name not in FLAT} | {
        "counts": {name: content[name] for name in COUNTS & content.keys()},
        "worst": None if sides == {"left": None, "right": None} else sides | {"case": content.get("worst_case") or {}},
        "confirmation": (redone or standing) and {"standing": standing or Standing.FALLEN.value, "how": redone},
        "data": (Data.OWN if own_data else Data.UNUSED if unused else Data.BUILT_IN).value,
    }
