"""The page of recorded differences, without running anything, and its replay files."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from bounds import Form, Outcome, Statement
from bounds.papers import own
from ntkfl import interruption
from verification.findings.address import replay_path
from verification.findings.findings_page import MEANING, about
from verification.search import stored_counterexample, written
from verification.verdict_list import escaped

HOLDING = (Outcome.HOLDS, Outcome.TOUCHES)


def stored_replays() -> Iterator[tuple[str, str]]:
    """Name and text of every replay file; the file of deep networks takes a minute or two, the others an instant."""
    for statement in own().values():
        for form in statement.forms:
            if (path := replay_path(statement, form)) is not None:
                interruption.check()
                yield PurePosixPath(path).name, written(statement, form, stored_counterexample(statement, form))


def recorded_page(statements: Iterable[Statement]) -> str:
    """Every form whose difference from what holds is recorded, the weightiest nature first, and how to measure it.

    Args:
        statements: statements of any papers.
    """
    every = tuple(statements)
    lines = ["# Findings, as recorded", "", "Nothing was run for this page; `ntkfl findings --measure` does that."]
    for nature, meaning in MEANING.items():
        entries = [
            (statement, form)
            for statement in every
            for form, claim in statement.forms.items()
            if claim.nature is nature
        ]
        if entries:
            lines += ["", f"## {nature.value.capitalize()}", "", meaning]
        for statement, form in entries:
            lines += ["", *_entry(statement, form)]
    return "\n".join(lines) + "\n"


def _entry(statement: Statement, form: Form) -> list[str]:
    holding = [other for other, claim in statement.forms.items() if claim.recorded in HOLDING]
    items = [
        ("recorded", statement.forms[form].recorded.value),
        *about(statement, form, holding[-1] if holding else None),
    ]
    return [
        f"### {escaped(statement.id)}, {form.value}: {escaped(statement.title)}",
        "",
        *(f"- **{name}**: {escaped(text)}" for name, text in items if text),
        f"- **measure**: `ntkfl verify {statement.id} --form {form.value}`",
    ]
