"""The first page: how many statements hold, what a reader must know, and the matrix of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bounds.listing import papers
from bounds.statement import Form, Nature, Outcome
from experiments.report.outcomes import Shown, shown
from experiments.report.statement_pages import StatementPage
from experiments.report.verdict_file import VerdictFile
from verification.findings.page import MEANING, SETTLED, PaperFindings
from verification.report import totals
from verification.verdict import NOT_REFUTED, Verdict

WORDS: dict[str, str] = {
    Outcome.HOLDS: "hold",
    NOT_REFUTED: NOT_REFUTED,
    Outcome.TOUCHES: "touch",
    Outcome.VIOLATED: "violated",
    Outcome.UNRESOLVED: "unresolved",
    Outcome.UNTESTED: "untested",
}


@dataclass(frozen=True)
class FrontPage:
    """What the first page says of a run."""

    run: VerdictFile
    pages: Sequence[StatementPage]
    papers: Sequence[PaperFindings]

    @property
    def totals(self) -> str:
        """How many verdicts of each outcome, in one line."""
        return totals(self.run.verdicts)

    @property
    def differing(self) -> list[Verdict]:
        """What differs from the record."""
        return [v for v in self.run.verdicts if v.contradicts_record]

    @property
    def counts(self) -> list[tuple[str, list[str]]]:
        """For each paper, how many of its forms have which outcome; nothing where it has no such form."""
        return [(paper, [self._count(paper, form) for form in Form]) for paper in papers() if self._of(paper)]

    @property
    def natures(self) -> list[tuple[Nature, str, list[Verdict]]]:
        """The forms that differ from what holds, by nature, the weightiest first, with what the nature means."""
        found = [finding for paper in self.papers for finding in paper.differing]
        groups = [
            (nature, meaning, [f.verdict for f in found if f.nature is nature]) for nature, meaning in MEANING.items()
        ]
        return [group for group in groups if group[2]]

    @property
    def caveats(self) -> list[tuple[str, str, list[Verdict]]]:
        """What a verdict does not say: name, meaning, and the verdicts concerned."""
        found = [
            ("Vacuous", "they hold, or do not, where nobody can run them", [v for v in self.run.verdicts if v.vacuous]),
            (
                "Weakly tested",
                "a wrong formula was not told from the right one",
                [v for v in self.run.verdicts if v.weakly_tested],
            ),
            (
                "Undecided",
                "too few cases, or errors too large",
                [v for v in self.run.verdicts if v.outcome in (Outcome.UNTESTED, Outcome.UNRESOLVED)],
            ),
            (
                "Not refuted",
                "no case broke them, and they allow failures too rare for so few cases to test",
                [v for v in self.run.verdicts if v.would_exclude is not None],
            ),
            (
                "Violated, recorded open",
                "nobody had settled them",
                [v for v in self.run.verdicts if v.refutes_open],
            ),
            (
                "Broken by stored cases alone",
                "no drawn case breaks them",
                [
                    v
                    for v in self.run.verdicts
                    if v.outcome is Outcome.VIOLATED and not v.violated and not v.contradicts_record
                ],
            ),
            (
                "Fail elsewhere",
                "no outcome on your data, but known: other cases break them",
                [v for v in self.run.verdicts if v.elsewhere is not None],
            ),
        ]
        return [caveat for caveat in found if caveat[2]]

    @property
    def outcomes(self) -> list[Shown]:
        """The outcomes that occur, worst first."""
        found = {Shown(v.outcome, untried=v.would_exclude is not None) for v in self.run.verdicts}
        return sorted(found, key=lambda one: one.rank)

    def rank(self, page: StatementPage, form: Form) -> int:
        """By which a column of outcomes sorts; forms without a verdict come last."""
        part = page.part(form)
        return 99 if part is None or part.verdict is None else shown(part.verdict).rank

    def _of(self, paper: str) -> list[Verdict]:
        return [v for v in self.run.verdicts if v.id.startswith(f"{paper}/")]

    def _count(self, paper: str, form: Form) -> str:
        found = Counter(v.word for v in self._of(paper) if v.form is form)
        return ", ".join(f"{found[word]} {said}" for word, said in WORDS.items() if found[word])


def headline(verdicts: Sequence[Verdict]) -> str:
    """What a run found, in a line: of printed claims, of statements of the user's own, and on data of the user's."""
    on_data = [v for v in verdicts if v.own_data]
    if on_data:
        untested = sum(v.outcome is Outcome.UNTESTED for v in on_data)
        elsewhere = sum(v.elsewhere is not None for v in on_data)
        said = f"On your data, {_of(on_data, 'form')}"
        said += f", {untested} could not be tested" if untested else ""
        return said + (f"; {elsewhere} {'fails' if elsewhere == 1 else 'fail'} elsewhere" if elsewhere else "")
    own = [v for v in verdicts if "statement" in v.provenance]
    printed = [v for v in verdicts if v.form is Form.STATED and "statement" not in v.provenance]
    parts = [_of(printed, "printed claim", " as they stand")] if printed or not own else []
    parts += [_of(own, "form of your own", "")] if own else []
    said = "; ".join(parts)
    return said[0].upper() + said[1:]


def _of(verdicts: Sequence[Verdict], what: str, how: str = "") -> str:
    """ "of 3 forms, 2 hold": what is settled, of all."""
    right, count = sum(v.outcome in SETTLED for v in verdicts), len(verdicts)
    noun = what if count == 1 else what.replace("form", "forms").replace("claim", "claims")
    return f"of {count} {noun}, {right} {'holds' if right == 1 else 'hold'}{how}"
