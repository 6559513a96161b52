"""The page of one statement that is shown before anything is run: its claim in every form, and how it is checked."""

from bounds.cards import Card
from verification.lines import entry, nature_text, wrapped


def as_text(card: Card, width: int = 100) -> str:
    """Claim, hypotheses, formulas, source, how each side is measured, mutants and symbols, as plain text.

    Args:
        card: the card of the statement, as `verification.cards.card_of` returns it.
        width: columns; longer lines are wrapped between words; default 100.
    """
    lines = wrapped(f"{card.id}  {card.title}", width)
    lines += entry("kind", [card.kind.value], width)
    lines += entry("source", [str(card.source), card.note], width)
    lines += entry("needs", card.hypotheses or ["no hypothesis"], width)
    for form, claim in card.forms.items():
        lines += ["", *entry(form.value, claim.claim, width)]
        lines += entry("", [*(f"needs also {hypothesis}" for hypothesis in claim.hypotheses), claim.note], width)
        meaning = [f"meaning: version {claim.version}"] if claim.version else []
        lines += entry("", [*meaning, f"recorded: {claim.recorded.value}", nature_text(claim)], width)
        lines += entry("", [f"evidence: {claim.evidence}"], width)
        if claim.witness:
            lines += entry("", ["a stored case shows the violation"], width)
    mutants = f"{', '.join(card.mutants)} (of the {card.mutated_form.value} form)" if card.mutants else "none"
    lines += ["", *entry("left is", [card.says_left], width)]
    lines += entry("right is", ["the formula above, in ball arithmetic, from quantities of the case"], width)
    lines += entry("mutants", [mutants], width)
    lines += entry("necessity", [f"a stored case shows that {name} is needed" for name in card.necessity], width)
    lines += entry("uses", [", ".join(card.uses)], width)
    lines += ["", *entry("symbols", card.symbols, width)]
    lines += entry("check it", [f"ntkfl verify {card.word}"], width)
    return "\n".join(lines)
