"""The register of what each form of each statement claims. A form whose meaning changes gets a new version.

`python -m bounds.registry` adds new meanings to registry.json and removes nothing.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import sympy as sp

from bounds.papers import own
from bounds.statement import Statement
from bounds.vocabulary import Form

FILE = Path(__file__).with_suffix(".json")
# for each id and form, the hashes of its meanings; the last hash belongs to today's meaning
Register = dict[str, dict[str, list[str]]]


def meaning(statement: Statement, form: Form) -> str:
    """The hash of a form's claim: its kind, formulas, failure probability, premise, and hypotheses in words.

    Titles, notes and the measurement of the left side are not part of the meaning.
    """
    claim = statement.forms[form]
    premise = sorted((str(symbol), _spelled(needed)) for symbol, needed in (claim.premise or {}).items())
    hypotheses = sorted((h.name, h.says) for h in statement.required(form))
    formulas = [*map(_spelled, claim.parts), _spelled(claim.lower), _spelled(claim.failure)]
    content = json.dumps([statement.id, form.value, statement.kind.value, formulas, premise, hypotheses])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def version(statement: Statement, form: Form) -> int | None:
    """Number of meanings that a form has had under its id; None for a statement that is not this project's."""
    return len(registered().get(statement.id, {}).get(form.value, ())) or None


def with_changes(register: Register, statements: dict[str, Statement]) -> Register:
    """The register with missing meanings added. Every entry stays, even if its form no longer exists."""
    forms = {(name, form): list(hashes) for name, kept in register.items() for form, hashes in kept.items()}
    for statement in statements.values():
        for form in statement.forms:
            hashes = forms.setdefault((statement.id, form.value), [])
            if (today := meaning(statement, form)) not in hashes[-1:]:
                hashes.append(today)
    names = sorted({name for name, _ in forms})
    return {name: {form: hashes for (of, form), hashes in sorted(forms.items()) if of == name} for name in names}


@cache
def registered() -> Register:
    """The register as written in its file; empty if there is no file yet."""
    kept: Register = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return kept


def _spelled(expression: Any) -> str:
    return "" if expression is None else sp.srepr(sp.sympify(expression))


if __name__ == "__main__":
    FILE.write_text(json.dumps(with_changes(registered(), own()), indent=1) + "\n", encoding="utf-8")
