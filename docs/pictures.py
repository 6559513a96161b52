"""Measure the numbers behind the pictures of statements: `python docs/pictures.py [ID|PAPER]...`, some ten minutes.

The script writes `statement_pictures.json` anew, or only the entries of the statements that are named. From that file
it draws the picture of the README. The build of the pages draws from the file too, and measures statements that the
file lacks.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bounds import Form, Statement, find
from bounds.papers import own
from experiments.console.progress_bar import CaseProgress
from experiments.pictures import as_bytes, drawn, themed
from verification.case_points import CasePoints
from verification.judging.check import KEPT
from verification.statement_picture import seen_of

DATA = Path(__file__).parent / "statement_pictures.json"
FRONT, FRONT_OF = Path(__file__).parent / "movement.svg", "fl-ntk/B.12"
ON_A_PHONE = FRONT.with_stem("movement_on_a_phone")


def read(path: Path = DATA) -> dict[str, dict[Form, CasePoints]]:
    """The stored numbers of every statement, for each of its forms."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return {
        identifier: {Form(form): CasePoints.from_json(seen) for form, seen in forms.items()}
        for identifier, forms in content.items()
    }


def measured(statements: Sequence[Statement]) -> dict[str, dict[Form, CasePoints]]:
    """The numbers of these statements, measured now, for each of their forms."""
    with CaseProgress() as progress:
        seen = seen_of(statements, progress=progress, limit=KEPT)
    return {
        statement.id: {form: of_form for (identifier, form), of_form in seen.items() if identifier == statement.id}
        for statement in statements
    }


def write(words: Sequence[str] = ()) -> None:
    """Measure these statements, or all statements, and keep the numbers."""
    statements = find(*words) if words else tuple(own().values())
    kept: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8")) if words and DATA.exists() else {}
    for identifier, forms in measured(statements).items():
        kept[identifier] = {form: seen.to_json() for form, seen in forms.items()}
    _keep(kept)


def write_seen_by_verify(verdicts: Path) -> None:
    """Keep the numbers that `ntkfl verify --json FILE` has written for all statements."""
    kept: dict[str, dict[str, Any]] = {}
    for verdict in json.loads(verdicts.read_text(encoding="utf-8"))["verdicts"]:
        kept.setdefault(verdict["id"], {})[verdict["form"]] = verdict["seen"]
    _keep(kept)


def _keep(kept: dict[str, dict[str, Any]]) -> None:
    lines = [f"{json.dumps(identifier)}: {json.dumps(kept[identifier])}" for identifier in own() if identifier in kept]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    FRONT.write_bytes(front())
    ON_A_PHONE.write_bytes(front(narrow=True))


def front(narrow: bool = False) -> bytes:
    """The README's picture, with one panel for each form of a lemma.

    The form that fails is the lemma as a machine read its text from a scan of the paper.
    """
    forms = read()[FRONT_OF]
    return themed(as_bytes(drawn(own()[FRONT_OF], forms, most=len(forms), narrow=narrow), "svg", FRONT_OF))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="ID|PAPER", help="only these statements")
    parser.add_argument("--from", dest="verdicts", type=Path, help="a file of a whole `ntkfl verify --json FILE`")
    given = parser.parse_args()
    if given.verdicts:
        write_seen_by_verify(given.verdicts)
    else:
        write(given.words)
