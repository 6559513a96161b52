"""A comparison of two runs of `ntkfl verify`.

The comparison lists changed outcomes, bounds that became tighter or looser, new forms, and forms that are gone. A form
is one version of a statement's claim, such as the version that a paper prints.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bounds import Form, Outcome
from experiments.report.verdict_file import VerdictFile
from verification.verdict import Verdict
from verification.verdict_page import ratio_text

FACTOR = 2.0
SEVERITY = (Outcome.HOLDS, Outcome.TOUCHES, Outcome.UNTESTED, Outcome.UNRESOLVED, Outcome.VIOLATED)
WORSE_FROM = SEVERITY.index(Outcome.UNTESTED)  # the outcome "touches" counts as holding


@dataclass(frozen=True)
class Change:
    """A change of one form between the runs.

    `before` is empty if the form is new, and `now` if it is gone.
    """

    id: str
    form: Form
    what: str
    before: str
    now: str
    worse: bool = False

    def line(self) -> str:
        """The change as one line of text."""
        sides = f": {self.before or 'not there'} -> {self.now or 'not there'}"
        return f"{self.id} ({self.form.value})  {self.what}{sides}{'  WORSE' if self.worse else ''}"


@dataclass(frozen=True)
class Comparison:
    """All changes; changes for the worse come first."""

    changes: tuple[Change, ...]
    compared: int

    @property
    def worse(self) -> bool:
        """Whether some outcome got worse."""
        return any(change.worse for change in self.changes)

    @property
    def summary(self) -> str:
        """The totals, in one line."""
        counts = {what: sum(change.what == what for change in self.changes) for what in WHAT}
        summary = ", ".join(f"{count} {WHAT[what]}" for what, count in counts.items() if count) or "nothing changed"
        worse = sum(change.worse for change in self.changes)
        return f"{self.compared} verdicts in both: {summary}; {worse} worse"

    def as_text(self) -> str:
        """The changes as text, one in each line, and the summary as the last line."""
        return "\n".join([*(change.line() for change in self.changes), self.summary])


WHAT = {
    "outcome": "outcomes changed",
    "tightness": "bounds tighter or looser",
    "mutants": "told other mutants",
    "new": "new",
    "gone": "gone",
}


def compared(old: VerdictFile, new: VerdictFile, factor: float = FACTOR) -> Comparison:
    """The changes from the older run to the newer one.

    An outcome got worse if it contradicts the recorded outcome and did not before, or if it is further from holding.

    Args:
        old: verdicts of the older run.
        new: verdicts of the newer run.
        factor: the least factor by which a tightness must change to be listed; at least 1; default 2.

    Raises:
        ValueError: the factor is below 1.
    """
    if not factor >= 1:
        raise ValueError(f"the factor is {factor}; it must be at least 1")
    before = {(v.id, v.form): v for v in old.verdicts}
    now = {(v.id, v.form): v for v in new.verdicts}
    both = [key for key in now if key in before]
    changes = [
        change
        for key in both
        for change in (_outcome(before[key], now[key]), *_numbers(before[key], now[key], factor))
        if change is not None
    ]
    changes += [Change(v.id, v.form, "new", "", v.word) for key, v in now.items() if key not in before]
    changes += [Change(v.id, v.form, "gone", v.word, "") for key, v in before.items() if key not in now]
    return Comparison(tuple(sorted(changes, key=lambda change: not change.worse)), len(both))


def _outcome(before: Verdict, now: Verdict) -> Change | None:
    against = before.contradicts_record, now.contradicts_record
    if before.outcome is now.outcome and against[0] == against[1]:
        return None
    rank = SEVERITY.index(now.outcome)
    falls = rank > SEVERITY.index(before.outcome) and rank >= WORSE_FROM
    worse = against[1] and not against[0] if against[0] != against[1] else falls
    return Change(
        now.id, now.form, "outcome", _outcome_text(before, against[0]), _outcome_text(now, against[1]), worse=worse
    )


def _outcome_text(verdict: Verdict, against: bool) -> str:
    return verdict.word + (", against the record" if against else "")


def _numbers(before: Verdict, now: Verdict, factor: float) -> Sequence[Change]:
    changes = []
    for name in ("sharpest", "stored case"):
        was, is_now = ((v.tightness or {}).get(name) for v in (before, now))
        if _far(was, is_now, factor):
            changes.append(Change(now.id, now.form, "tightness", _ratio(name, was), _ratio(name, is_now)))
    killed = [f"{v.mutants_killed} of {v.mutants_total} killed" for v in (before, now)]
    return changes + ([Change(now.id, now.form, "mutants", killed[0], killed[1])] if killed[0] != killed[1] else [])


def _ratio(name: str, ratio: float | None) -> str:
    return "" if ratio is None else f"{name} {ratio_text(ratio)}"


def _far(before: float | None, now: float | None, factor: float) -> bool:
    """Whether two ratios differ by more than the factor.

    If one of them is 0 or not finite, the question is whether they differ at all.
    """
    if before is None or now is None:
        return before is not now
    if not all(math.isfinite(x) and x for x in (before, now)):
        return before != now and not (math.isnan(before) and math.isnan(now))
    return before * now < 0 or max(before / now, now / before) > factor
