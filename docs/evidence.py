"""Writes bounds/evidence.json.

The file says which forms are enclosed, checked, proved on paper, and machine-checked, and where this is shown.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bounds import Form, Outcome
from bounds.evidence import FILE, Evidence
from bounds.papers import own
from verification.findings.address import anchor, check_script

ROOT = Path(__file__).parents[1]
PROVES = re.compile(r"[Pp]roves:? ((?:`[^`]+`(?: \([a-z, ]+\))?(?:, (?=`))?)+)")
ITEM = re.compile(r"`([^`]+)`(?: \(([a-z, ]+)\))?")
ROW = re.compile(r"^\| `\w+` \| `(?P<line>proofs/\w+\.v:\d+)` \| (?P<cell>[^|]*) \|", re.MULTILINE)
BALLS = re.compile(r"(ball arithmetic encloses both sides|computed again in balls of \d+ bits)$")
Fact = tuple[str, Form, Evidence, str]


def claimed(text: str) -> Iterator[tuple[str, Form]]:
    """The forms that a text says it proves.

    A text names a statement with one form as `id`. For a statement with several forms the text also names the forms
    that it proves, as in `id` (stated fails, repaired). There "stated fails" means that the stated form is proved to be
    false.

    Raises:
        ValueError: there is no such form; or there are several forms and none is named; or the text says "fails" of a
            form that is not recorded as violated; or a form is recorded as violated, and the text does not say "fails"
            of this form.
    """
    for listed in PROVES.findall(text):
        for identifier, forms in ITEM.findall(listed):
            statement = own().get(identifier)
            if statement is None:
                raise ValueError(f"`{identifier}` is said to be proved; there is no such statement")
            if not forms and len(statement.forms) > 1:
                raise ValueError(f"{identifier} has several forms; say which are proved, as in `{identifier}` (stated)")
            for entry in forms.split(", ") if forms else [form.value for form in statement.forms]:
                name, _, fails = entry.partition(" ")
                if name not in {form.value for form in statement.forms} or fails not in ("", "fails"):
                    raise ValueError(
                        f"{identifier} ({entry}) is said to be proved; it has {', '.join(statement.forms)}"
                    )
                if bool(fails) != (statement.forms[Form(name)].recorded is Outcome.VIOLATED):
                    recorded = statement.forms[Form(name)].recorded.value
                    raise ValueError(f"{identifier} ({entry}) is said to be proved; it is recorded: {recorded}")
                yield identifier, Form(name)


def facts() -> Iterator[Fact]:
    """Every piece of evidence in the repository, besides trials, with its place."""
    for page in sorted((ROOT / "docs" / "proofs").glob("*.md")):
        for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            heading = section.partition("\n")[0].lower().replace(" ", "-")
            for identifier, form in claimed(section):
                yield identifier, form, Evidence.PAPER, f"docs/proofs/{page.name}#{heading}"
    for row in ROW.finditer((ROOT / "docs" / "proofs_machine.md").read_text(encoding="utf-8")):
        for identifier, form in claimed(row["cell"]):
            yield identifier, form, Evidence.MACHINE, row["line"]
    entries = _entries((ROOT / "FINDINGS.md").read_text(encoding="utf-8"))
    for statement in own().values():
        for form in statement.forms:
            if (script := check_script(statement, form)) is not None and (ROOT / script).exists():
                yield statement.id, form, Evidence.CHECKED, script
            if BALLS.search(entries.get(anchor(statement, form), "")):
                yield statement.id, form, Evidence.ENCLOSED, f"FINDINGS.md#{anchor(statement, form)}"


def _entries(findings: str) -> dict[str, str]:
    """The evidence that FINDINGS.md names for each violated form, by the form's anchor."""
    parts = re.split(r'<a id="([^"]+)"></a>', findings)[1:]
    lines = {at: re.search(r"^- \*\*evidence\*\*: (.*VIOLATED.*)$", entry, re.MULTILINE) for at, entry in _pairs(parts)}
    return {at: line[1] for at, line in lines.items() if line}


def _pairs(parts: list[str]) -> Iterator[tuple[str, str]]:
    return zip(parts[::2], parts[1::2], strict=True)


def text() -> str:
    """The content of the file, which has the places of evidence by statement, form and kind of evidence."""
    kept: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for identifier, form, kind, place in facts():
        places = kept[identifier][form.value][kind.value]
        places += [place] if place not in places else []
    return json.dumps(kept, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
