"""The texts of the catalogue, kept in cards.json. Reading the texts builds no formulas, which would take seconds.

`python -m verification.cards` writes the file anew after a change of `bounds`; until then the file is not read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bounds.vocabulary import Form, Kind, Nature, Outcome, Provenance, Source

FILE = Path(__file__).with_suffix(".json")
PRINTER = FILE.parents[1] / "verification/plain_text.py"  # writes formulas as text
ENUMERATED = {"kind": Kind, "mutated_form": Form, "recorded": Outcome, "nature": Nature, "read": Provenance}


@dataclass(frozen=True, eq=False)
class ClaimCard:
    """One form of a statement as texts."""

    claim: tuple[str, ...]
    hypotheses: tuple[str, ...]  # the hypotheses of this form alone, without the statement's
    note: str
    consequence: str
    version: int | None  # None: the statement is not this project's
    recorded: Outcome
    nature: Nature | None
    evidence: str
    strongest: str
    witness: bool


@dataclass(frozen=True, eq=False)
class Card:
    """One statement as texts; its fields have the names that `Statement` gives them."""

    id: str
    title: str
    kind: Kind
    source: Source
    note: str
    says_left: str
    hypotheses: tuple[str, ...]
    forms: Mapping[Form, ClaimCard]
    mutants: tuple[str, ...]
    mutated_form: Form
    necessity: tuple[str, ...]
    uses: tuple[str, ...]
    symbols: tuple[str, ...]
    word: str  # the word by which `bounds.find` finds the statement
    own: bool  # whether the statement is this project's


@cache
def kept() -> Mapping[str, Card]:
    """The cards of this project's statements by id.

    The result is empty if a source file has changed since the cards were written.
    """
    written = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return {card["id"]: _card(card) for card in written["cards"]} if written.get("sources") == sources() else {}


def as_json(cards: Mapping[str, Card]) -> str:
    """The text of cards.json: a hash of every source, then the cards."""
    return json.dumps({"sources": sources(), "cards": list(map(asdict, cards.values()))}, indent=1, ensure_ascii=False)


def sources() -> dict[str, str]:
    """The hash of every file from which a card's text may come, by the file's path."""
    folder = FILE.parent
    files = [path for ending in ("py", "json") for path in folder.rglob(f"*.{ending}") if path != FILE]
    return {
        path.relative_to(folder.parent).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted([*files, PRINTER])
    }


def _card(fields: Mapping[str, Any]) -> Card:
    forms = {Form(form): ClaimCard(**_typed(claim)) for form, claim in fields["forms"].items()}
    return Card(**_typed(fields) | {"source": Source(**_typed(fields["source"])), "forms": forms})


def _typed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A value read from JSON, with tuples in place of lists, and members of enumerations in place of their values."""
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return {**fields, **lists, **{key: kind(fields[key]) for key, kind in ENUMERATED.items() if fields.get(key)}}
