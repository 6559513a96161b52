"""`ntkfl new`: writes a first file for a statement, a method, an architecture or a study of the user."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from experiments.console.blocks import bad_input

if TYPE_CHECKING:
    from experiments.new_file import Kind

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(help="of a-z and 0-9, with single dashes between")]
Out = Annotated[Path | None, typer.Option(help="the file (NAME.py, here)", show_default=False)]
RUN = {
    "method": "ntkfl train {} --data digits --rounds 5",
    "architecture": "ntkfl train fedavg --model {} --data digits --rounds 5",
    "study": "ntkfl study run {} --out {}-cells",
}
COMMIT = {  # by kind of file, what else is needed if the file is in the project's own folder
    "method": "  add its plain loop to LOOPS in ntkfl/conformance/loops.py, and its cases to OPTIONS in "
    "ntkfl/conformance/kit_cases.py\n  add its paper to experiments/references.bib, with its name as a keyword, "
    "and a journal or booktitle\n"
    "  python tests/ntkfl/method_matrix.py --output METHODS.md",
    "architecture": "  pytest -n 0 tests/ntkfl/training/test_models.py",
    "study": "  add a test on invented results to tests/experiments/studies, with planted.py there",
}


@app.callback()
def new() -> None:
    """Write a first file for a statement, a method, an architecture or a study of your own."""


@app.command("statement", short_help="The file of a statement of yours.")
def statement(
    name: Annotated[str, typer.Argument(help="LABEL, or PAPER/LABEL: mine/T1")],
    about: Annotated[
        Literal["training", "initialisation", "kernel"],
        "what it is about: runs of FedAvg, networks before training, or kernels at infinite width",
    ] = "training",
    title: Annotated[str, typer.Option(help="a title in one line (the label)", show_default=False)] = "",
    source: Annotated[str, typer.Option(help="the paper it is from (my notes)", show_default=False)] = "",
    out: Annotated[Path | None, typer.Option(help="the file (LABEL.py, here)", show_default=False)] = None,
) -> None:
    """Write the file of a statement, which runs as it is: ntkfl new statement my-bound --title "A bound of mine"

    The comments in the file say what to put where. Then `ntkfl verify FILE.py` checks the statement, and `ntkfl attack
    FILE.py` looks for a counterexample. An existing file is not overwritten. In a checkout of this project, a name such
    as fl-ntk/LABEL means a statement of the project. Its file goes into the folder of that paper, and nothing else has
    to be edited.
    """
    from experiments.new_file import new_statement

    with bad_input():
        template = new_statement(name, about, title, source)
        path = Path(template.file) if out is None else out
        _written(path, template.text)
    word = template.id if template.ours and out is None else path
    typer.echo(f"{path} has {template.id}; next:\n  ntkfl verify {word}\n  ntkfl attack {word}")
    if template.ours:
        typer.echo(
            "before it is committed:\n  python -m bounds.registry\n  python -m verification.cards\n"
            "  python docs/evidence.py, if a page of docs/proofs proves it"
        )


@app.command("method", short_help="The file of a federated method of yours.")
def method(name: Name, out: Out = None) -> None:
    """Write the file of a federated method, which trains as it is: ntkfl new method my-method

    Its comments say what to put where. If --out names a file in ntkfl/training/methods of a checkout, the method
    becomes one of the project's. An existing file is not overwritten.
    """
    _begin("method", name, out)


@app.command("architecture", short_help="The file of a network architecture of yours.")
def architecture(name: Name, out: Out = None) -> None:
    """Write the file of a network architecture, which is trained as it is: ntkfl new architecture my-network

    Its comments say what to put where. If --out names a file in ntkfl/training/models of a checkout, the architecture
    becomes one of the project's. An existing file is not overwritten.
    """
    _begin("architecture", name, out)


@app.command("study", short_help="The file of a study of yours.")
def study(name: Name, out: Out = None) -> None:
    """Write the file of a study, which runs as it is: ntkfl new study my-question

    Its comments say what to put where. If --out names a file in experiments/studies/questions of a checkout, the study
    becomes one of the project's. An existing file is not overwritten.
    """
    _begin("study", name, out)


def _begin(kind: "Kind", name: str, out: Path | None) -> None:
    from experiments.new_file import HOMES, new_file

    with bad_input():
        template = new_file(kind, name)
        path = Path(template.file) if out is None else out
        if (ours := path.resolve().parent == HOMES[kind].resolve()) and path.name != template.file:
            raise ValueError(f"the file is {path}; in that folder it must be {template.file}, as the {kind} is called")
        _written(path, template.text)
    word = name if ours else f"{'' if path.parent.parts else './'}{path}"
    typer.echo(f"{path} has {name}; next:\n  {RUN[kind].format(word, name)}")
    if ours:
        typer.echo(f"before it is committed:\n{COMMIT[kind]}")


def _written(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
