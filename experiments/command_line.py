"""The command line `ntkfl`: one command a line of COMMANDS, and the groups `study` and `conform`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from experiments.commands.applies import applies
from experiments.commands.attack import attack
from experiments.commands.barrier import barrier_between
from experiments.commands.bench import bench
from experiments.commands.catalogue_pages import list_statements, show
from experiments.commands.certificate import certify
from experiments.commands.cite import cite
from experiments.commands.compare import compare
from experiments.commands.conform import app as conform
from experiments.commands.connectivity_table import connectivity_table
from experiments.commands.convergence import rate
from experiments.commands.doctor import doctor
from experiments.commands.exponents import exponents
from experiments.commands.fastest import fastest
from experiments.commands.findings import findings
from experiments.commands.gram_matrix import gram_matrix
from experiments.commands.miniature import miniature
from experiments.commands.new import app as new
from experiments.commands.report import report
from experiments.commands.requirements import requirements
from experiments.commands.simulation import simulation
from experiments.commands.study import app as study
from experiments.commands.train import train
from experiments.commands.verification_run import verify
from experiments.console.interruptible import Interruptible

app = typer.Typer(
    name="ntkfl",
    cls=Interruptible,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _say_version(asked: bool) -> None:
    if asked:
        from ntkfl.version import VERSION

        typer.echo(f"ntkfl {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="say the version", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Check the theorems of federated learning on wide networks, with an error bound on every number."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows "?" instead of failing


COMMANDS: dict[str, tuple[Callable, str]] = {
    "verify": (verify, "Check statements on real and synthetic data."),
    "applies": (applies, "Which statements apply to your data and setup."),
    "list": (list_statements, "List the statements."),
    "show": (show, "Show one statement in full."),
    "certify": (certify, "Certify that a network converges."),
    "rate": (rate, "Rate and stability limits at infinite width."),
    "fastest": (fastest, "Which method and steps are fastest on your data."),
    "simulate": (simulation, "Algorithm 1, finite, linearised or infinitely wide."),
    "gram": (gram_matrix, "The Gram matrix of data and its extreme eigenvalues."),
    "exponents": (exponents, "Powers of the width, theory and measured."),
    "attack": (attack, "Search for a counterexample, or replay one."),
    "findings": (findings, "Where printed forms differ from what holds."),
    "report": (report, "Verdicts and studies as pages; two runs compared."),
    "connectivity-table": (connectivity_table, "Theorem 3.5, R1, R2 and the exact barrier side by side."),
    "barrier": (barrier_between, "Exact barriers between saved networks."),
    "train": (train, "Train a federation with any of the methods."),
    "compare": (compare, "Methods side by side over several seeds, with paired intervals."),
    "miniature": (miniature, "The papers' experiments in small, and what is seen of their orderings."),
    "bench": (bench, "Speed beside peers and the machine's limit."),
    "requirements": (requirements, "What theorem B.3 asks for: width, step, rounds."),
    "cite": (cite, "BibTeX of the papers behind a result, and of this tool."),
    "doctor": (doctor, "What is installed and found here, and what is missing."),
}
for name, (command, short_help) in COMMANDS.items():
    app.command(name, short_help=short_help)(command)
app.add_typer(new, name="new", short_help="Begin a statement of your own.")
app.add_typer(study, name="study", short_help="Studies: width scaling, convergence and more, with pictures.")
app.add_typer(conform, name="conform", short_help="Is your implementation the algorithm? Cases, and a verdict.")
