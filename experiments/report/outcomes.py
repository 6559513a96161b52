"""How an outcome is shown: a sign and a word, so that no one needs to see its colour."""

from __future__ import annotations

from dataclasses import dataclass

from bounds.statement import Outcome
from verification.report import ORDER, contradicts_record
from verification.verdict import Verdict

SIGNS = {
    Outcome.HOLDS: "✓",
    Outcome.TOUCHES: "≈",
    Outcome.VIOLATED: "✗",
    Outcome.UNRESOLVED: "?",
    Outcome.UNTESTED: "–",
    Outcome.OPEN: "·",
}
MEANINGS = {
    Outcome.HOLDS: "no admitted case broke it",
    Outcome.TOUCHES: "it holds, and some case meets the bound to within the error of both sides",
    Outcome.VIOLATED: "a case breaks it by more than the error of both sides, and that was confirmed",
    Outcome.UNRESOLVED: "the errors are too large to tell",
    Outcome.UNTESTED: "too few cases met its hypotheses",
}


@dataclass(frozen=True)
class Shown:
    """An outcome on a page. `differs`: what is recorded instead, where that is another outcome; `rank`: 0 is worst."""

    outcome: Outcome
    differs: Outcome | None = None

    @property
    def sign(self) -> str:
        """The sign in front of the word."""
        return SIGNS[self.outcome]

    @property
    def word(self) -> str:
        """The outcome's own word."""
        return self.outcome.value

    @property
    def rank(self) -> int:
        """The place among all outcomes, worst first."""
        order = ORDER.index(self.outcome) if self.outcome in ORDER else len(ORDER)
        return order if self.differs is not None else order + len(ORDER) + 1


def shown(verdict: Verdict, own_data: bool = False) -> Shown:
    """A verdict's outcome, and the recorded one where the two differ."""
    return Shown(verdict.outcome, verdict.recorded if contradicts_record(verdict, own_data) else None)
