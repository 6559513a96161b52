"""The page of one statement, before anything is run: what it claims, in every form, and how it is checked."""

from bounds.evidence import evidence_text
from bounds.listing import word_for
from bounds.registry import version
from bounds.statement import Statement
from verification.plain_text import claim_lines, symbol_text
from verification.verdict_page import entry, nature_text, symbols, wrapped


def as_text(statement: Statement, width: int = 100) -> str:
    """Claim, hypotheses, formulas, source, how each side is measured, mutants and symbols, as plain text.

    Args:
        statement: to show.
        width: columns; longer lines are wrapped between words.
    """
    hypotheses = {h.name: h.says for h in statement.hypotheses}
    lines = wrapped(f"{statement.id}  {statement.title}", width)
    lines += entry("kind", [statement.kind.value], width)
    lines += entry("source", [str(statement.source), statement.source.note], width)
    lines += entry("needs", [f"{name}: {says}" for name, says in hypotheses.items()] or ["no hypothesis"], width)
    for form, claim in statement.forms.items():
        more = [f"needs also {h.name}: {h.says}" for h in claim.hypotheses]
        lines += ["", *entry(form.value, claim_lines(statement, form), width)]
        lines += entry("", [*more, claim.note], width)
        meaning = [f"meaning: version {known}"] if (known := version(statement, form)) else []
        lines += entry("", [*meaning, f"recorded: {claim.recorded.value}", nature_text(claim)], width)
        lines += entry("", [f"evidence: {evidence_text(statement, form)}"], width)
        if claim.witness is not None:
            lines += entry("", ["a stored case shows the violation"], width)
    mutants = ", ".join(mutant.name for mutant in statement.mutants)
    meanings = [f"{', '.join(map(symbol_text, group))}: {meaning}" for group, meaning in symbols(statement)]
    lines += ["", *entry("left is", [statement.says_left], width)]
    lines += entry("right is", ["the formula above, in ball arithmetic, from quantities of the case"], width)
    lines += entry("mutants", [f"{mutants} (of the {statement.mutated_form.value} form)" if mutants else "none"], width)
    lines += entry("necessity", [f"a stored case shows that {name} is needed" for name in statement.necessity], width)
    lines += entry("uses", [", ".join(statement.uses)], width)
    lines += ["", *entry("symbols", meanings, width)]
    lines += entry("check it", [f"ntkfl verify {word_for(statement)}"], width)
    return "\n".join(lines)
