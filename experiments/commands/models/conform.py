"""`ntkfl conform`: tests whether an implementation of a federated method is the algorithm.

The conformance kit is a set of cases whose right results are known. The user's adapter runs the implementation on them.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import as_json, bad_input, if_stopped, reserved
from experiments.console.choices import Everything

if TYPE_CHECKING:
    from ntkfl.conformance import MethodVerdict

DIFFERS = 1

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="only this method; may be given again (all of the kit)")
]


@app.callback()
def conform() -> None:
    """Test your implementation of federated methods on cases whose right weights after every round are known."""


@app.command("cases", short_help="Write the cases and their trajectories.")
def write_cases(
    out: Annotated[Path, "a new or empty folder"],
    method: Methods = None,
) -> None:
    """Write the conformance kit: problems, options, batches and right weights, as JSON and npz without pickles.

    The folder's README.md says what the files hold. Exit status: 0 done, 2 bad input.
    """
    from ntkfl.conformance import write

    with if_stopped(lambda: f"nothing is kept; {out} is written at the end"), bad_input():
        count = write(out, method)
    typer.echo(f"{count} cases: {out}")


@app.command("run", short_help="Test an implementation on the cases.")
def run(
    adapter: Annotated[Path, typer.Argument(help="a Python file with a function run(case)")],
    method: Methods = None,
    python: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="the Python that runs the adapter, which needs numpy (the Python that runs ntkfl)",
            show_default=False,
        ),
    ] = sys.executable,
    limit: Annotated[float, "seconds for each case"] = 60.0,
    json_file: Everything = None,
    markdown: Annotated[Path | None, "write the table and a badge to this file"] = None,
) -> None:
    """Run an adapter on the kit, and say of each method whether it is equal, a known variant, or different.

    The adapter runs in a process of its own. If its weights differ, the first round and tensor that differ are named.
    Cases that the adapter leaves out do not count. Exit status: 0 all other cases are equal, 1 something differs or
    failed, 2 bad input, 130 stopped by Ctrl-C (the methods that were finished are reported).
    """
    from ntkfl.conformance import conformance, conformance_page, methods

    def show(verdict: "MethodVerdict") -> None:
        typer.echo("\n".join(conformance_page.method_lines(verdict, width)))

    with bad_input():
        width = max(map(len, methods(method)))
    with reserved(json_file, markdown, inputs=(str(adapter),)) as (write_json, write_markdown):
        with if_stopped(lambda: "no file is written"), bad_input(ValueError):
            conforming = conformance(adapter, method, python, limit, show)
        typer.echo(f"\n{conformance_page.summary(conforming)}")
        if write_json:
            write_json(as_json(conformance_page.as_json(conforming)))
        if write_markdown:
            write_markdown(conformance_page.as_markdown(conforming))
    raise typer.Exit(0 if conforming.conforms else DIFFERS)


@app.command("variants", short_help="List the known variants.")
def variants(method: Methods = None) -> None:
    """List the variants of each method that `ntkfl conform run` recognises."""
    from ntkfl.conformance import methods, variants_of

    with bad_input():
        chosen = methods(method)
    for name in chosen:
        typer.echo(f"{name}:")
        for variant in variants_of(name):
            typer.echo(f"    {variant.name}: {variant.says}")
