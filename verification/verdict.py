"""What a check found, as a value: every report is made from it, and it survives JSON unchanged."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from bounds.statement import Form, Kind, Outcome


@dataclass(frozen=True)
class Side:
    """One side of the worst comparison: value, error, how the error was obtained."""

    value: float
    error: float
    method: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of checking one form of one statement.

    trials = holds + touches + unresolved + violated are the admitted cases; `rejected` counts, by hypothesis, the drawn
    cases that did not meet one; `margins`: the smallest of each over the admitted cases. `lhs`, `rhs`: the sides of the
    worst trial; `tightness`: the largest left/right and the median (for an equality, of |difference|/scale; for a rate,
    distance from theory in half-widths). `vacuous`: why the bound says nothing that can be run, with the number; None
    where it does. `witness`: what the stored case showed; where that decides, `tightness` has its ratio too. `error`:
    the exception that ended the check, with its type.
    """

    id: str
    form: Form
    kind: Kind
    outcome: Outcome
    recorded: Outcome
    trials: int
    holds: int
    touches: int
    unresolved: int
    violated: int
    rejected: dict[str, int]
    lhs: Side | None
    rhs: Side | None
    tightness: dict[str, float] | None
    worst_case: dict[str, Any] | None
    vacuous: str | None
    witness: str | None
    confirmation: str | None
    mutants_killed: int
    mutants_total: int
    mutants: dict[str, str]
    necessity: dict[str, str]
    notes: tuple[str, ...]
    replay: str
    provenance: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    margins: dict[str, float] = field(default_factory=dict)

    @property
    def as_recorded(self) -> bool:
        """Whether the outcome is the settled one; touching a bound is a way of holding."""
        found = Outcome.HOLDS if self.outcome is Outcome.TOUCHES else self.outcome
        return self.error is None and (self.recorded is Outcome.OPEN or found is self.recorded)

    def __str__(self) -> str:
        """The full page."""
        from verification.page import as_text  # which is made of verdicts

        return as_text(self)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, a number that is not finite as the string "inf", "-inf" or "nan": strict JSON has none.

        `from_json` gives the verdict back.
        """
        return strict_json(asdict(self))

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote."""
        sides = {name: _side(content[name]) for name in ("lhs", "rhs")}
        ratios = content["tightness"]
        tightness = {"tightness": ratios and {name: float(ratio) for name, ratio in ratios.items()}}
        margins = {"margins": {name: float(margin) for name, margin in content.get("margins", {}).items()}}
        words = {"form": Form(content["form"]), "kind": Kind(content["kind"])}
        outcomes = {name: Outcome(content[name]) for name in ("outcome", "recorded")}
        return cls(**(content | sides | tightness | margins | words | outcomes | {"notes": tuple(content["notes"])}))


def contradicts_record(verdict: Verdict, own_data: bool = False) -> bool:
    """Whether the outcome differs from the one that is recorded.

    own_data: the cases are the user's own, on which the recorded outcomes were not settled: then only the violation of
    a form that is recorded to hold counts, and a check that an exception ended.
    """
    if own_data:
        return verdict.error is not None or (verdict.outcome, verdict.recorded) == (Outcome.VIOLATED, Outcome.HOLDS)
    return not verdict.as_recorded


def _side(content: dict[str, Any] | None) -> Side | None:
    if content is None:
        return None
    return Side(float(content["value"]), float(content["error"]), content["method"])


def strict_json(content: Any) -> Any:
    """The same content in the types of strict JSON."""
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
