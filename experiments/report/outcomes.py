"""How an outcome is displayed: by a sign and a word, so that readers do not depend on colour."""

from dataclasses import dataclass

from bounds import Outcome
from verification.verdict import NOT_REFUTED, NOT_RUN, Verdict
from verification.verdict_list import ORDER

SIGNS = {  # by outcome, the sign, and what the outcome's word means
    Outcome.HOLDS: ("✓", "no case that met its hypotheses broke it"),
    Outcome.TOUCHES: ("≈", "it holds, and some case meets the bound to within the error of both sides"),
    Outcome.VIOLATED: (
        "✗",
        "a case breaks it by more than the error of both sides; confirmed, unless its page says: seen",
    ),
    Outcome.UNRESOLVED: ("?", "the errors are too large to tell"),
    Outcome.UNTESTED: ("–", "too few cases met its hypotheses"),
    Outcome.OPEN: ("·", "nobody has settled it; no case that met its hypotheses broke it"),
}
UNTRIED = "○", "no case broke it, and it allows a failure probability too small for so few cases to test"
MISSING = "–", "it needs PyTorch, which was not installed"


@dataclass(frozen=True)
class Shown:
    """An outcome on a page."""

    # the sign is shown beside the word
    sign: str
    word: str
    style: str  # the outcome's name in the style sheet
    rank: int  # the place of the outcome among all, where 0 is the worst
    meaning: str = ""  # what the word means
    # the recorded outcome, if the outcome contradicts it, or if the form is recorded as open and was refuted; else None
    differs: Outcome | None = None


def shown(outcome: Outcome, differs: Outcome | None = None, untried: bool = False, not_run: bool = False) -> Shown:
    """How an outcome is displayed; "not refuted" ranks a little worse than "holds"."""
    sign, meaning = MISSING if not_run else UNTRIED if untried else SIGNS[outcome]
    word = NOT_RUN if not_run else NOT_REFUTED if untried else outcome.value
    place = 2 * (ORDER.index(outcome) if outcome in ORDER else len(ORDER)) - untried
    rank = place if differs is not None else place + 2 * len(ORDER) + 2
    return Shown(sign, word, word.replace(" ", "-"), rank, meaning, differs)


def shown_verdict(verdict: Verdict) -> Shown:
    """How the outcome of a verdict is displayed.

    The recorded outcome is shown too if the outcome contradicts it, or if it is open and the form was refuted.
    """
    notable = verdict.contradicts_record or verdict.refutes_open
    differs = verdict.recorded if notable else None
    return shown(verdict.outcome, differs, verdict.would_exclude is not None, verdict.not_run)
