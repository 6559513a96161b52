"""A page for each statement, with the claim of every form and all results of its checks.

A form is one version of a statement's claim, such as the version that a paper prints.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bounds import Claim, Form, Statement, catalogue
from bounds.papers import slug
from experiments.formulas.mathml import claims, failure, inline, premise
from experiments.report.outcomes import Shown, shown_verdict
from experiments.report.verdict_file import VerdictFile
from verification.case_points import CasePoints
from verification.findings.findings_page import Finding
from verification.plain_text import case_text
from verification.verdict import Verdict
from verification.verdict_list import READ_AS
from verification.verdict_page import (
    amount,
    counts_lines,
    elsewhere_text,
    needed_text,
    result_text,
    run_with,
    symbols,
    tightness_lines,
    vacuous_text,
    witness_text,
)

FORM_TITLES = {
    Form.STATED: "As printed",
    Form.PROVED: "As argued",
    Form.REPAIRED: "Repaired",
    Form.NEW: "New, in no paper",
}


@dataclass(frozen=True)
class FormPart:
    """One form on the page of its statement.

    `verdict` is None if the form was not checked in this run.
    """

    statement: Statement
    form: Form
    finding: Finding | None
    verdict: Verdict | None

    @property
    def title(self) -> str:
        """The title of the form.

        A stated form is called printed only if the paper prints the form. A form that was read from a scan of the paper
        or from a report about the paper is not called printed.
        """
        read_as = READ_AS.get(self.claim.nature) if self.form is Form.STATED else None
        return read_as.capitalize() if read_as else FORM_TITLES[self.form]

    @property
    def shown(self) -> Shown | None:
        """How the outcome of the form is displayed; None without a verdict."""
        return None if self.verdict is None else shown_verdict(self.verdict)

    @property
    def claim(self) -> Claim:
        """The claim of the form."""
        return self.statement.forms[self.form]


@dataclass(frozen=True)
class StatementPage:
    """The page of a statement."""

    statement: Statement
    parts: Mapping[Form, FormPart]
    used_by: Sequence[str]

    @property
    def path(self) -> str:
        """The path of the page in the report."""
        return address(self.statement.id)

    @property
    def seen(self) -> dict[Form, CasePoints]:
        """The numbers of the cases that are stored in the verdicts, by form; verdicts of an older version have none."""
        kept = {form: part.verdict.seen for form, part in self.parts.items() if part.verdict is not None}
        return {form: seen for form, seen in kept.items() if seen is not None}

    @property
    def image(self) -> str | None:
        """The path of the statement's picture in the report; None if there is nothing to draw."""
        return self.path.removesuffix("html") + "svg" if self.seen else None

    @cached_property
    def picture(self) -> bytes:
        """The picture as SVG, in colours for the reader's light or dark page."""
        # imported here, since matplotlib is slow to load and not every report has pictures
        from experiments.pictures import as_bytes, drawn, themed

        verdicts = [part.verdict for part in self.parts.values() if part.verdict is not None]
        seeds = [verdict.provenance.get("seeds", {}) for verdict in verdicts]
        seed = next((kept["first_seed"] for kept in seeds if "first_seed" in kept), 0)
        return themed(as_bytes(drawn(self.statement, self.seen, seed=seed), "svg", self.statement.id))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels, which a page reserves before the picture is loaded."""
        from experiments.pictures import pixels

        return pixels(self.picture)


def address(identifier: str) -> str:
    """The path of a statement's page in the report."""
    return f"statements/{slug(identifier).replace('_', '-')}.html"


def statement_pages(run: VerdictFile, findings: Iterable[Finding]) -> list[StatementPage]:
    """The pages of all statements that have a verdict in the run, in the catalogue's order."""
    verdicts = {(v.id, v.form): v for v in run.verdicts}
    differing = {(f.verdict.id, f.verdict.form): f for f in findings}
    wanted = dict.fromkeys(v.id for v in run.verdicts)
    return [
        StatementPage(
            statement,
            {
                form: FormPart(statement, form, differing.get((identifier, form)), verdicts.get((identifier, form)))
                for form in statement.forms
            },
            [other.id for other in catalogue().values() if identifier in other.uses],
        )
        for identifier, statement in catalogue().items()
        if identifier in wanted
    ]


# functions that the templates call
OF_FORMULAS = (claims, failure, inline, premise)
OF_VERDICTS = (
    *(amount, result_text, case_text, counts_lines, elsewhere_text, needed_text),
    *(run_with, symbols, tightness_lines, vacuous_text, witness_text),
)
