"""The page of recorded differences, and the replay files of these differences. The page is made without a run."""

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from bounds import Form, Statement
from bounds.cards import Card
from bounds.papers import own
from ntkfl import interruption
from ntkfl.messages import number_of
from verification.findings.address import replay_path
from verification.findings.findings_page import MEANING, SETTLED, about, sentence
from verification.lines import wrapped
from verification.search import stored_counterexample, written
from verification.verdict_list import escaped


def stored_replays() -> Iterator[tuple[str, str]]:
    """The name and the text of every replay file.

    The file of a finding on deep networks takes a minute or two, and the other files take an instant.
    """
    for statement in own().values():
        for form in statement.forms:
            if (path := replay_path(statement, form)) is not None:
                interruption.check()
                yield PurePosixPath(path).name, written(statement, form, stored_counterexample(statement, form))


def recorded_page(statements: Iterable[Statement]) -> str:
    """A page on every form whose difference from what holds is recorded, with the command that measures the difference.

    The differences are grouped by their nature, and the nature with the most weight comes first.

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


def recorded_list(cards: Iterable[Card], width: int) -> str:
    """The forms of `recorded_page` as text for a terminal.

    Each form has its title, and a sentence on what the difference means for a reader.

    Args:
        cards: the cards of statements of any papers, as `verification.cards.cards` returns them.
        width: columns; longer lines are wrapped between words.
    """
    forms = [(card, form, claim) for card in cards for form, claim in card.forms.items() if claim.nature]
    lines = []
    for nature, meaning in MEANING.items():
        entries = [(card, form, claim) for card, form, claim in forms if claim.nature is nature]
        if entries:
            lines += [*wrapped(f"{nature.value.upper()}: {len(entries)}. {meaning}", width), ""]
        for card, form, claim in entries:
            lines += wrapped(f"{card.id}, {form.value} ({claim.recorded.value}): {card.title}", width)
            lines += [f"    {line}" for line in textwrap.wrap(sentence(claim.consequence), width - 4)]
        lines += [""] if entries else []
    summary = (
        f"{number_of(len(forms), 'form')} of {len({card.id for card, _, _ in forms})} statements; nothing was run."
    )
    lines += wrapped(f"{summary} Formulas, reasons and evidence of one: ntkfl show ID; of all: --output FILE.", width)
    return "\n".join(lines)


def _entry(statement: Statement, form: Form) -> list[str]:
    holding = [other for other, claim in statement.forms.items() if claim.recorded in SETTLED]
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
