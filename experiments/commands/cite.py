"""`ntkfl cite`: BibTeX entries for the papers behind a result, and for this tool."""

from typing import Annotated

import typer

from experiments.console.blocks import bad_input
from experiments.console.tables import on_screen

FIELD = 15  # column at which the text of a field begins


def cite(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID|METHOD|DIR]", help="a statement, a paper, a method, or the folder of a run or a study"
        ),
    ] = None,
) -> None:
    """Print BibTeX for the papers behind a statement, a method, a run or a study, and for this version of this tool.

    A form of a statement is one version of its claim. For every form that does not hold as printed, one more entry
    cites the finding that the form does not hold. This entry has the address of the page of the finding and, if there
    is one, the name of the script that checks the finding independently. Without an argument, the entries of all papers
    whose statements are checked here are printed. Example: `ntkfl cite fl-ntk/B.12 >> references.bib`
    """
    from experiments.citing import citation

    with bad_input():
        cited = citation(what)
    for line in str(cited).splitlines():
        typer.echo("\n".join(on_screen(line, "% " if line.startswith("%") else " " * FIELD)))
