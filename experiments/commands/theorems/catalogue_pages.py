"""`ntkfl list` and `ntkfl show`: what is recorded about the statements.

A form of a statement is one version of its claim, such as the version that a paper prints.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, reserved, shown_warnings
from experiments.console.choices import OnlyPaper
from experiments.console.tables import page_width, print_lines

if TYPE_CHECKING:
    from bounds import Statement
    from bounds.cards import ClaimCard

PICTURES = ("png", "svg", "pdf")


def list_statements(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|FILE]...", help="only these, or those of a .py file of yours")
    ] = None,
    paper: OnlyPaper = None,
    search: Annotated[
        str,
        typer.Option(
            metavar="WORDS", help="only those with all of these words in their texts, in which formulas do not count"
        ),
    ] = "",
) -> None:
    """List the statements with id, title and kind, and the recorded outcome and strongest evidence of each form."""
    from bounds.listing import narrowed
    from ntkfl.messages import number_of
    from verification.cards import cards

    with shown_warnings(), bad_input():
        statements = narrowed(cards(*words or ()), paper, search)
    for statement in statements:
        forms_said = (f"{form.value} {_recorded(claim)}" for form, claim in statement.forms.items())
        print_lines(f"{statement.id}  {statement.title}", f"    {statement.kind.value}: {', '.join(forms_said)}")
    forms = sum(len(statement.forms) for statement in statements)
    counts = f"{number_of(len(statements), 'statement')} in {number_of(forms, 'form')}"
    print_lines(f"{counts}, each with its recorded outcome and its strongest evidence")


def show(
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="ID|FILE",
            help="a statement, as `ntkfl list` names it, a .py file of yours, or a paper for its conventions",
        ),
    ],
    tex: Annotated[
        bool,
        typer.Option(
            "--tex",
            "--latex",
            help="as LaTeX for amsmath, amssymb and amsthm: a theorem for each form, and what is recorded",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="draw left side and bound on the cases that verify runs: .png or .svg; .pdf for one panel",
        ),
    ] = None,
) -> None:
    """Show one statement: claim, hypotheses, formulas, source, how each side is measured, wrong variants, and symbols.

    With --plot the cases of the statement are run, which may take a minute.
    """
    from bounds import find
    from bounds.papers import PAPERS
    from verification.cards import cards
    from verification.statement_page import as_text

    if identifier in PAPERS and plot is None:
        return typer.echo("\n".join(_conventions(identifier)))
    with bad_input():
        if plot is not None:
            _plot(find(identifier), plot)
        if tex:
            from experiments.formulas.theorem import as_tex

            return typer.echo("\n\n".join(map(as_tex, find(identifier))))
        chosen = cards(identifier)
    typer.echo("\n\n".join(as_text(card, page_width()) for card in chosen))


def _plot(statements: "tuple[Statement, ...]", path: Path) -> None:
    suffix = path.suffix[1:].lower()
    if suffix not in PICTURES:
        raise ValueError(f"--plot {path} ends in {path.suffix or 'nothing'}; it must end in .png, .svg or .pdf")
    if len(statements) != 1:
        named = ", ".join(statement.id for statement in statements[:3])
        raise ValueError(f"--plot draws one statement, these are {len(statements)} ({named}, ...); name one")
    from experiments.console.progress_bar import CaseProgress
    from experiments.pictures import as_bytes, drawn, thumbnail
    from verification.statement_picture import seen_of

    (statement,) = statements
    with reserved(path) as (write,), shown_warnings(), CaseProgress() as progress:
        seen = {form: cases for (_, form), cases in seen_of(statements, progress=progress).items()}
        assert write is not None
        figure = thumbnail(statement, seen, legend=True) if suffix == "pdf" else drawn(statement, seen)
        write(as_bytes(figure, suffix, statement.id))
    typer.echo(f"picture: {path}", err=True)


def _conventions(paper: str) -> list[str]:
    from bounds.papers import conventions
    from verification.lines import entry, wrapped

    lines, width = [f"{paper}: conventions"], page_width()
    for convention in conventions(paper):
        lines += ["", *wrapped(convention.about, width), *entry("used", [convention.used], width)]
        lines += entry("printed", [convention.printed] if convention.printed else [], width)
    return lines


def _recorded(claim: "ClaimCard") -> str:
    outcome = claim.recorded.value + (f" ({claim.nature.value})" if claim.nature else "")
    return outcome + (f" [{claim.strongest}]" if claim.strongest else "")
