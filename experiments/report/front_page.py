"""The first page: how many statements hold, by paper and form, and in a line."""

from collections import Counter
from collections.abc import Sequence

from bounds import Form, Outcome
from experiments.report.outcomes import Shown, shown
from verification.findings.findings_page import SETTLED, counts_as_printed, of_papers
from verification.verdict import NOT_REFUTED, Verdict

WORDS: dict[str, str] = {
    Outcome.HOLDS: "hold",
    NOT_REFUTED: NOT_REFUTED,
    Outcome.TOUCHES: "touch",
    Outcome.VIOLATED: "violated",
    Outcome.UNRESOLVED: "unresolved",
    Outcome.UNTESTED: "untested",
}


def counts(verdicts: Sequence[Verdict]) -> list[tuple[str, list[str]]]:
    """For each paper, the number of its forms with each outcome; empty if there is none."""
    rows = []
    for paper, own in of_papers(verdicts):
        by_form = [Counter(v.word for v in own if v.form is form) for form in Form]
        rows.append((paper, [", ".join(f"{n[w]} {said}" for w, said in WORDS.items() if n[w]) for n in by_form]))
    return rows


def outcomes(verdicts: Sequence[Verdict]) -> list[Shown]:
    """The outcomes that occur, worst first."""
    shown_outcomes = {shown(v.outcome, untried=v.would_exclude is not None) for v in verdicts}
    return sorted(shown_outcomes, key=lambda outcome: outcome.rank)


def headline(verdicts: Sequence[Verdict]) -> str:
    """A run's result in a line: on printed claims, on the user's own statements, and on the user's data."""
    on_data = [v for v in verdicts if v.own_data]
    if on_data:
        outcomes_there = Counter(v.outcome for v in on_data)
        untried = sum(v.would_exclude is not None for v in on_data)
        tried = [v for v in on_data if v.would_exclude is None]
        others = [
            (untried, NOT_REFUTED),
            (outcomes_there[Outcome.VIOLATED], "violated"),
            (outcomes_there[Outcome.UNTESTED], "could not be tested"),
            (outcomes_there[Outcome.UNRESOLVED], "unresolved"),
        ]
        holding = _of(tried, "form", count=len(on_data))
        said = ", ".join([f"On your data, {holding}", *(f"{n} {what}" for n, what in others if n)])
        elsewhere = sum(verdict.fails_elsewhere for verdict in on_data)
        return said + (f"; {elsewhere} {'fails' if elsewhere == 1 else 'fail'} elsewhere" if elsewhere else "")
    own = [v for v in verdicts if "statement" in v.provenance]
    printed = [v for v in verdicts if "statement" not in v.provenance and counts_as_printed(v)]
    parts = [_of(printed, "printed claim", (" as it stands", " as they stand"))] if printed or not own else []
    parts += [_of(own, "form of your own")] if own else []
    said = "; ".join(parts)
    return said[0].upper() + said[1:]


def _of(verdicts: Sequence[Verdict], what: str, how: tuple[str, str] = ("", ""), count: int | None = None) -> str:
    """ "of 3 forms, 2 hold": the settled forms, of `count` or of all; `how` has words for one form that holds, and for
    several."""
    right, count = sum(v.outcome in SETTLED for v in verdicts), len(verdicts) if count is None else count
    noun = what if count == 1 else what.replace("form", "forms").replace("claim", "claims")
    return f"of {count} {noun}, {right} {f'holds{how[0]}' if right == 1 else f'hold{how[1]}'}"
