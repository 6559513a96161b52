"""The command line `ntkfl`: a line of SECTIONS for each command; `new`, `study` and `conform` have subcommands."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from experiments.commands.bench import bench
from experiments.commands.check import check
from experiments.commands.cite import cite
from experiments.commands.doctor import doctor
from experiments.commands.limits.certificate import certify
from experiments.commands.limits.convergence import rate
from experiments.commands.limits.fastest import fastest
from experiments.commands.limits.gram_matrix import gram_matrix
from experiments.commands.limits.limit import limit
from experiments.commands.limits.privacy import privacy
from experiments.commands.limits.simulation import simulation
from experiments.commands.limits.tune import tune
from experiments.commands.models.barrier import barrier_between
from experiments.commands.models.compare import compare
from experiments.commands.models.conform import app as conform
from experiments.commands.models.connectivity_table import connectivity_table
from experiments.commands.models.miniature import miniature
from experiments.commands.models.train import train
from experiments.commands.report import report
from experiments.commands.study import app as study
from experiments.commands.theorems.applies import applies
from experiments.commands.theorems.attack import attack
from experiments.commands.theorems.catalogue_pages import list_statements, show
from experiments.commands.theorems.exponents import exponents
from experiments.commands.theorems.findings import findings
from experiments.commands.theorems.new import app as new
from experiments.commands.theorems.requirements import requirements
from experiments.commands.theorems.verification_run import verify
from experiments.console.interrupts import Interruptible


class Sections(Interruptible):
    """A group whose help lists its commands under headings, in the order in which they were added."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A list for each heading; all lists share the width of the column of names."""
        longest = max(map(len, self.commands))
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            short = command.get_short_help_str(formatter.width - 6 - longest)
            rows.setdefault(getattr(command, "rich_help_panel", ""), []).append((name.ljust(longest), short))
        for heading, those in rows.items():
            with formatter.section(heading):
                formatter.write_dl(those)


app = typer.Typer(
    name="ntkfl",
    cls=Sections,
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


SECTIONS: dict[str, dict[str, tuple[Callable | typer.Typer, str]]] = {
    "Theorems": {
        "check": (check, "A first look at your data, on one screen."),
        "verify": (verify, "Check statements on real and synthetic data."),
        "applies": (applies, "Which statements apply to your data and setup."),
        "list": (list_statements, "List the statements."),
        "show": (show, "Show one statement in full."),
        "attack": (attack, "Search for a counterexample, or replay one."),
        "findings": (findings, "Where printed forms differ from what holds."),
        "requirements": (requirements, "What Theorem B.3 requires: width, step, rounds."),
        "exponents": (exponents, "Growth with the width, theory and measured."),
        "new": (new, "Begin a statement, method, network or study of yours."),
    },
    "The limit of wide networks": {
        "rate": (rate, "Rate and stability limits at infinite width."),
        "limit": (limit, "How a method learns a whole data set at infinite width."),
        "fastest": (fastest, "Which method and steps are fastest on your data."),
        "tune": (tune, "The best outer optimizer and steps for a budget."),
        "privacy": (privacy, "What a privacy budget costs on your data."),
        "certify": (certify, "Certify that a network converges."),
        "simulate": (simulation, "Algorithm 1, finite, linearised or infinitely wide."),
        "gram": (gram_matrix, "The Gram matrix of data and its extreme eigenvalues."),
    },
    "Models": {
        "train": (train, "Train a federation with any of the methods."),
        "compare": (compare, "Methods side by side over several seeds."),
        "barrier": (barrier_between, "Exact barriers between saved networks."),
        "connectivity-table": (connectivity_table, "Bounds on the barrier beside the exact barrier."),
        "miniature": (miniature, "The papers' experiments in small."),
        "conform": (conform, "Test whether your implementation is the algorithm."),
    },
    "Many runs, reports, this tool": {
        "study": (study, "Studies: width scaling, convergence and more."),
        "report": (report, "Verdicts and studies as pages; two runs compared."),
        "cite": (cite, "BibTeX of the papers behind a result, and of this tool."),
        "bench": (bench, "Speed, beside other packages and the machine's limit."),
        "doctor": (doctor, "What is installed and found here, and what is missing."),
    },
}
for section, commands in SECTIONS.items():
    for name, (command, short_help) in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, short_help=short_help, rich_help_panel=section)
        else:
            app.command(name, short_help=short_help, rich_help_panel=section)(command)
