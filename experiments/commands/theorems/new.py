"""`ntkfl new statement`: writes a first file for a statement of the user's own."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from experiments.console.bad_input import bad_input

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def new() -> None:
    """Begin something of your own."""


@app.command("statement", short_help="The file of a statement of yours.")
def statement(
    name: Annotated[str, typer.Argument(help="LABEL, or PAPER/LABEL: mine/T1")],
    about: Annotated[
        Literal["training", "initialisation"],
        typer.Option(help="what it is about: runs of FedAvg, or networks before training"),
    ] = "training",
    title: Annotated[str, typer.Option(help="a title in one line (the label)", show_default=False)] = "",
    source: Annotated[str, typer.Option(help="the paper it is from (my notes)", show_default=False)] = "",
    out: Annotated[Path | None, typer.Option(help="the file (LABEL.py, here)", show_default=False)] = None,
) -> None:
    """Write the file of a statement, which runs as it is: ntkfl new statement my-bound --title "A bound of mine"

    Its comments say what to put where. Then `ntkfl verify FILE.py` checks it and `ntkfl attack FILE.py` looks for a
    counterexample. An existing file is not overwritten. In a checkout, fl-ntk/LABEL and the like are statements of the
    project: the file goes into the folder of its paper, and nothing else has to be edited.
    """
    from experiments.new_statement import new_statement

    with bad_input():
        template = new_statement(name, about, title, source)
        path = Path(template.file) if out is None else out
        with path.open("x", encoding="utf-8") as file:
            file.write(template.text)
    word = template.id if template.ours and out is None else path
    typer.echo(f"{path} has {template.id}; next:\n  ntkfl verify {word}\n  ntkfl attack {word}")
    if template.ours:
        typer.echo("before it is committed:\n  python -m bounds.registry\n  python -m verification.cards")
