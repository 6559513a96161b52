"""One page a statement: what is claimed, in every form, and everything that was found about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bounds.listing import catalogue
from bounds.papers import slug
from bounds.statement import Claim, Form, Hypothesis, Outcome, Statement
from experiments.report.mathml import claims, failure, inline, premise
from experiments.report.outcomes import Shown, shown
from experiments.report.verdict_file import VerdictFile
from verification.findings.page import MEANING, Finding
from verification.page import amount, answer, case_text, counts_lines, run_with, symbols, tightness_lines
from verification.seen import Seen
from verification.verdict import Side, Verdict

FORM_TITLES = {Form.STATED: "As printed", Form.PROVED: "As argued", Form.REPAIRED: "Repaired"}


@dataclass(frozen=True)
class FormPart:
    """One form on the page of its statement; `verdict` is None where the form was not checked in this run."""

    form: Form
    claim: Claim
    claims: Sequence[Markup]
    failure: Markup | None
    premise: Sequence[tuple[Markup, Markup]]
    hypotheses: Sequence[Hypothesis]
    finding: Finding | None
    verdict: Verdict | None
    shown: Shown | None

    @property
    def title(self) -> str:
        """What the form is, in words."""
        return FORM_TITLES[self.form]

    @property
    def sides(self) -> list[tuple[str, str, Side]]:
        """Left and right of the worst comparison: name, number with its error, how it is known."""
        pairs = [] if self.verdict is None else [("left", self.verdict.lhs), ("right", self.verdict.rhs)]
        return [(name, amount(side.value, side.error), side) for name, side in pairs if side is not None]

    @property
    def survivors(self) -> list[str]:
        """Mutants that the checker did not tell from the formula."""
        found = {} if self.verdict is None or not self.verdict.weakly_tested else self.verdict.mutants
        return [name for name, outcome in found.items() if outcome != Outcome.VIOLATED.value]


@dataclass(frozen=True)
class StatementPage:
    """A statement with its forms."""

    statement: Statement
    parts: Sequence[FormPart]
    used_by: Sequence[str]

    @property
    def path(self) -> str:
        """Where the page is in the report."""
        return address(self.statement.id)

    @property
    def seen(self) -> dict[Form, Seen]:
        """What the verdicts kept of their cases; nothing where an older version found them."""
        kept = {part.form: part.verdict.seen for part in self.parts if part.verdict is not None}
        return {form: seen for form, seen in kept.items() if seen is not None}

    @property
    def image(self) -> str | None:
        """Where its picture is in the report; None where there is nothing to draw."""
        return self.path.removesuffix("html") + "svg" if self.seen else None

    def picture(self) -> bytes:
        """The picture, as SVG."""
        from experiments.pictures import as_bytes, drawn  # matplotlib is slow to load, and not every report has one

        seeds = [p.verdict.provenance.get("seeds", {}) for p in self.parts if p.verdict is not None]
        seed = next((each["first_seed"] for each in seeds if "first_seed" in each), 0)
        return as_bytes(drawn(self.statement, self.seen, seed=seed), "svg", self.statement.id)

    @property
    def label(self) -> str:
        """The id without the paper."""
        return self.statement.id.partition("/")[2]

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.statement.id.partition("/")[0]

    @property
    def symbols(self) -> list[tuple[list[Markup], str]]:
        """The formulas' symbols with their meanings."""
        return [([inline(s) for s in group], meaning) for group, meaning in symbols(self.statement)]

    def part(self, form: Form) -> FormPart | None:
        """One form of it; None where it has no such form."""
        return next((part for part in self.parts if part.form is form), None)

    @property
    def natures(self) -> list[str]:
        """How its forms differ from what holds, each once."""
        return list(dict.fromkeys(str(p.claim.nature.value) for p in self.parts if p.claim.nature is not None))


def address(identifier: str) -> str:
    """Where the page of a statement is in the report."""
    return f"statements/{slug(identifier).replace('_', '-')}.html"


def statement_pages(run: VerdictFile, findings: Iterable[Finding]) -> list[StatementPage]:
    """A page for every statement that the run has a verdict of, in the catalogue's order."""
    verdicts = {(v.id, v.form): v for v in run.verdicts}
    differing = {(f.verdict.id, f.verdict.form): f for f in findings}
    wanted = dict.fromkeys(v.id for v in run.verdicts)
    return [
        StatementPage(
            statement,
            [_part(statement, form, verdicts, differing) for form in statement.forms],
            [other.id for other in catalogue().values() if identifier in other.uses],
        )
        for identifier, statement in catalogue().items()
        if identifier in wanted
    ]


def _part(
    statement: Statement,
    form: Form,
    verdicts: Mapping[tuple[str, Form], Verdict],
    differing: Mapping[tuple[str, Form], Finding],
) -> FormPart:
    claim, verdict = statement.forms[form], verdicts.get((statement.id, form))
    return FormPart(
        form,
        claim,
        claims(statement, form),
        failure(claim),
        premise(claim),
        statement.required(form),
        differing.get((statement.id, form)),
        verdict,
        None if verdict is None else shown(verdict),
    )


HELPERS: dict[str, Any] = {
    "answer": answer,
    "case_text": case_text,
    "counts_lines": counts_lines,
    "run_with": run_with,
    "tightness_lines": tightness_lines,
    "nature_meaning": MEANING,
}
