"""The first page: how many statements hold, what a reader must know, and the matrix of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bounds.formula import Nature
from bounds.listing import papers
from bounds.statement import Form, Outcome
from experiments.report.outcomes import shown
from experiments.report.statement_pages import StatementPage
from experiments.report.verdict_file import VerdictFile
from verification.findings import MEANING, SETTLED, PaperFindings
from verification.report import ORDER, contradicts_record, totals
from verification.verdict import Verdict

WORDS = {
    Outcome.HOLDS: "hold",
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
        return totals(self.run.verdicts, self.run.own_data)

    @property
    def differing(self) -> list[Verdict]:
        """What differs from the record."""
        return [v for v in self.run.verdicts if contradicts_record(v, self.run.own_data)]

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
        own = self.run.own_data
        found = [
            ("Vacuous", "they hold, or do not, where nobody can run them", [v for v in self.run.verdicts if v.vacuous]),
            (
                "Weakly tested",
                "a wrong formula was not told from the right one",
                [v for v in self.run.verdicts if v.trials and v.mutants_killed < v.mutants_total],
            ),
            (
                "Undecided",
                "too few cases, or errors too large",
                [v for v in self.run.verdicts if v.outcome in (Outcome.UNTESTED, Outcome.UNRESOLVED)],
            ),
            (
                "Broken by stored cases alone",
                "no drawn case breaks them",
                [
                    v
                    for v in self.run.verdicts
                    if v.outcome is Outcome.VIOLATED and not v.violated and not contradicts_record(v, own)
                ],
            ),
        ]
        return [caveat for caveat in found if caveat[2]]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes that occur, worst first."""
        return [outcome for outcome in ORDER if any(v.outcome is outcome for v in self.run.verdicts)]

    def rank(self, page: StatementPage, form: Form) -> int:
        """By which a column of outcomes sorts; forms without a verdict come last."""
        part = page.part(form)
        return 99 if part is None or part.verdict is None else shown(part.verdict, self.run.own_data).rank

    def _of(self, paper: str) -> list[Verdict]:
        return [v for v in self.run.verdicts if v.id.startswith(f"{paper}/")]

    def _count(self, paper: str, form: Form) -> str:
        found = Counter(v.outcome for v in self._of(paper) if v.form is form)
        return ", ".join(f"{found[outcome]} {word}" for outcome, word in WORDS.items() if found[outcome])


def holding_as_printed(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """How many printed forms hold as they stand, and how many there are."""
    printed = [v for v in verdicts if v.form is Form.STATED]
    return sum(v.outcome in SETTLED for v in printed), len(printed)
