"""The evidence for each form's recorded outcome: trials, enclosures, independent scripts, proofs."""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

from bounds.papers import own
from bounds.statement import Statement
from bounds.vocabulary import Form, Outcome

FILE = Path(__file__).with_suffix(".json")  # written by docs/evidence.py from proofs, scripts and findings


class Evidence(StrEnum):
    """A kind of evidence that a form holds, or fails, as recorded. The kinds are in order, the weakest first."""

    SAMPLED = "sampled"
    ENCLOSED = "enclosed"
    CHECKED = "checked"
    PAPER = "proved on paper"
    MACHINE = "machine-checked"


MEANING = {
    Evidence.SAMPLED: "Trials, or a stored case, had the recorded outcome.",
    Evidence.ENCLOSED: "A stored case fails with both sides enclosed in balls: no rounding can explain it.",
    Evidence.CHECKED: "A script that imports nothing of this project comes to the same result.",
    Evidence.PAPER: "A page of docs/proofs proves the outcome in full.",
    Evidence.MACHINE: "Coq has checked a proof. It uses no axiom, or only those of Coq's real numbers for exp and ln.",
}


def evidence(statement: Statement, form: Form) -> Mapping[Evidence, tuple[str, ...]]:
    """The evidence for a form's recorded outcome, with the places in the repository that show it; weakest kind first.

    A user's own statement has only trials as evidence. A form whose outcome is recorded as open or untested has no
    evidence.
    """
    kinds: dict[Evidence, tuple[str, ...]] = {}
    if statement.forms[form].recorded not in (Outcome.OPEN, Outcome.UNTESTED):
        kinds[Evidence.SAMPLED] = ()
    if own().get(statement.id) is statement:
        kept = _kept().get(statement.id, {}).get(form.value, {})
        kinds |= {kind: tuple(kept[kind]) for kind in Evidence if kind in kept}
    return kinds


def strongest(statement: Statement, form: Form) -> str:
    """The strongest kind of evidence for a form, in one to three words; an empty text if there is none."""
    return next(reversed(list(evidence(statement, form))), "")


def evidence_text(statement: Statement, form: Form) -> str:
    """All kinds of evidence for a form in one line, weakest first, with the places that show the evidence."""
    kinds = [f"{kind.value} ({', '.join(at)})" if at else kind.value for kind, at in evidence(statement, form).items()]
    return ", ".join(kinds) or "none"


@cache
def _kept() -> dict[str, dict[str, dict[str, list[str]]]]:
    kept: dict[str, dict[str, dict[str, list[str]]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return kept
