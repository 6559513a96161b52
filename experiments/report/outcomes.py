"""How an outcome is shown: a sign and a word, so that no one needs to see its colour."""

from __future__ import annotations

from dataclasses import dataclass

from bounds.statement import Outcome
from verification.report import ORDER
from verification.verdict import NOT_REFUTED, Verdict

SIGNS = {
    Outcome.HOLDS: "✓",
    Outcome.TOUCHES: "≈",
    Outcome.VIOLATED: "✗",
    Outcome.UNRESOLVED: "?",
    Outcome.UNTESTED: "–",
    Outcome.OPEN: "·",
}
UNTRIED = "○"  # the sign of what is not refuted

MEANINGS = {
    Outcome.HOLDS: "no admitted case broke it",
    Outcome.TOUCHES: "it holds, and some case meets the bound to within the error of both sides",
    Outcome.VIOLATED: "a case breaks it by more than the error of both sides; confirmed, unless its page says: seen",
    Outcome.UNRESOLVED: "the errors are too large to tell",
    Outcome.UNTESTED: "too few cases met its hypotheses",
    Outcome.OPEN: "nobody has settled it; no admitted case broke it",
}
UNTRIED_MEANING = "no case broke it, and it allows a failure probability too small for so few cases to test"


@dataclass(frozen=True)
class Shown:
    """An outcome on a page.

    `differs`: what is recorded instead, where that is another outcome, or open; `untried`: it is not refuted, no more.
    """

    outcome: Outcome
    differs: Outcome | None = None
    untried: bool = False

    @property
    def sign(self) -> str:
        """The sign in front of the word."""
        return UNTRIED if self.untried else SIGNS[self.outcome]

    @property
    def word(self) -> str:
        """The outcome's own word."""
        return NOT_REFUTED if self.untried else self.outcome.value

    @property
    def style(self) -> str:
        """The word as the name of a style."""
        return self.word.replace(" ", "-")

    @property
    def meaning(self) -> str:
        """What the word says."""
        return UNTRIED_MEANING if self.untried else MEANINGS[self.outcome]

    @property
    def rank(self) -> int:
        """The place among all outcomes; 0 is worst, and what is not refuted is a little worse than what holds."""
        order = 2 * (ORDER.index(self.outcome) if self.outcome in ORDER else len(ORDER)) - self.untried
        return order if self.differs is not None else order + 2 * len(ORDER) + 2


def shown(verdict: Verdict) -> Shown:
    """A verdict's outcome, and the recorded one where the two differ or that is open and refuted."""
    said = verdict.contradicts_record or verdict.refutes_open
    return Shown(verdict.outcome, verdict.recorded if said else None, verdict.would_exclude is not None)
