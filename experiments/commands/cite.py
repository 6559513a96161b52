"""`ntkfl cite`: BibTeX of the papers behind a result and of this tool."""

from typing import Annotated

import typer

from experiments.console.blocks import bad_input
from experiments.console.tables import on_screen

FIELD = 15  # columns before the text of a field


def cite(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID|METHOD|DIR]", help="a statement, a paper, a method, or the folder of a run or a study"
        ),
    ] = None,
) -> None:
    """Print BibTeX of the papers behind a statement, a method, a run or a study, and of this version of this tool.

    If a printed form of the statement fails, there is an entry for this finding too, with its address and the command
    that checks it. Without an argument: all papers whose statements are checked here. `ntkfl cite fl-ntk/B.12 >>
    references.bib`
    """
    from experiments.citing import citation

    with bad_input():
        cited = citation(what)
    for line in str(cited).splitlines():
        typer.echo("\n".join(on_screen(line, "% " if line.startswith("%") else " " * FIELD)))
