"""The card of every statement: its title and texts, read from `bounds/cards.json` or made from the statement itself.

The file lacks some statements, such as a user's own; the card of such a statement is made from the statement. `python
-m verification.cards` writes the file for the statements of this project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bounds import catalogue, find
from bounds.cards import FILE, Card, ClaimCard, as_json, kept
from bounds.listing import PART, brings_any, brought_by, named, word_for
from ntkfl.extensions import is_file

if TYPE_CHECKING:
    from bounds import Form, Statement


def cards(*words: str) -> tuple[Card, ...]:
    """The cards of the statements that these words name, without repetition.

    Args:
        words: words as `bounds.find` takes them; without words, every statement is meant.

    Raises:
        KeyError, ExtensionError: as `bounds.find`.

    Example:
        >>> from verification.cards import cards
        >>> [card.title for card in cards("fl-ntk/C.6")]
        ['Concentration of H(0) around H_inf']
    """
    known = {} if brings_any() or any(is_file(word.partition(PART)[0]) for word in words) else kept()
    if known:
        chosen = [card for word in words for card in named(word, known)] if words else known.values()
        return tuple({card.id: card for card in chosen}.values())
    return tuple(map(card_of, find(*words) if words else catalogue().values()))


def card_of(statement: Statement) -> Card:
    """The card of one statement.

    Args:
        statement: any statement.
    """
    from verification.plain_text import symbol_text
    from verification.verdict_page import symbols

    return Card(
        id=statement.id,
        title=statement.title,
        kind=statement.kind,
        source=statement.source,
        note=statement.note,
        says_left=statement.says_left,
        hypotheses=tuple(f"{h.name}: {h.says}" for h in statement.hypotheses),
        forms={form: _of_claim(statement, form) for form in statement.forms},
        mutants=tuple(mutant.name for mutant in statement.mutants),
        mutated_form=statement.mutated_form,
        necessity=tuple(statement.necessity),
        uses=statement.uses,
        symbols=tuple(f"{', '.join(map(symbol_text, group))}: {meaning}" for group, meaning in symbols(statement)),
        word=word_for(statement),
        own=brought_by(statement) is None,
    )


def _of_claim(statement: Statement, form: Form) -> ClaimCard:
    from bounds.evidence import evidence_text, strongest
    from bounds.registry import version
    from verification.plain_text import claim_lines

    claim = statement.forms[form]
    return ClaimCard(
        claim=tuple(claim_lines(statement, form)),
        hypotheses=tuple(f"{h.name}: {h.says}" for h in claim.hypotheses),
        note=claim.note,
        consequence=claim.consequence,
        version=version(statement, form),
        recorded=claim.recorded,
        nature=claim.nature,
        evidence=evidence_text(statement, form),
        strongest=strongest(statement, form),
        witness=claim.witness is not None,
    )


if __name__ == "__main__":
    from bounds.papers import own

    FILE.write_text(as_json({name: card_of(statement) for name, statement in own().items()}) + "\n", encoding="utf-8")
