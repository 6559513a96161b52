"""The command line `ntkfl`.

SECTIONS has a line for each command. The commands `new`, `study` and `conform` have subcommands.
"""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from experiments.console.blocks import Interruptible
from experiments.console.choices import with_help


class Sections(Interruptible):
    """A group whose help lists its commands under headings, in the order in which they were added."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list of commands for each heading; the names have a column of the same width in all lists."""
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


# By heading and by the command's name: the module of `experiments.commands`, the name of its function or group there,
# and a line of help.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Theorems": {
        "check": ("check:check", "A first look at your data, on one screen."),
        "verify": ("theorems.verification_run:verify", "Check statements on real and synthetic data."),
        "applies": ("theorems.applies:applies", "Which statements apply to your data and setup."),
        "list": ("theorems.catalogue_pages:list_statements", "List the statements."),
        "show": ("theorems.catalogue_pages:show", "Show one statement in full."),
        "attack": ("theorems.attack:attack", "Search for a counterexample, or replay one."),
        "findings": ("theorems.findings:findings", "Where printed forms differ from what holds."),
        "requirements": ("theorems.requirements:requirements", "What Theorem B.3 requires: width, step, rounds."),
        "exponents": ("theorems.exponents:exponents", "Growth with the width, theory and measured."),
        "new": ("theorems.new:app", "Begin a statement, method, network or study of yours."),
    },
    "The limit of wide networks": {
        "rate": ("limits.convergence:rate", "Rate and stability limits at infinite width."),
        "limit": ("limits.limit:limit", "How a method learns a whole data set at infinite width."),
        "fastest": ("limits.fastest:fastest", "Which method and steps are fastest on your data."),
        "tune": ("limits.tune:tune", "The best outer optimizer and steps for a budget."),
        "privacy": ("limits.privacy:privacy", "What a privacy budget costs on your data."),
        "certify": ("limits.certificate:certify", "Certify that a network converges."),
        "simulate": ("limits.simulation:simulation", "Algorithm 1, finite, linearised or infinitely wide."),
        "gram": ("limits.gram_matrix:gram_matrix", "The Gram matrix of data and its extreme eigenvalues."),
    },
    "Models": {
        "train": ("models.train:train", "Train a federation with any of the methods."),
        "compare": ("models.compare:compare", "Methods side by side over several seeds."),
        "barrier": ("models.barrier:barrier_between", "Exact barriers between saved networks."),
        "connectivity-table": (
            "models.connectivity_table:connectivity_table",
            "Bounds on the barrier beside the exact barrier.",
        ),
        "miniature": ("models.miniature:miniature", "The papers' experiments in small."),
        "conform": ("models.conform:app", "Test whether your implementation is the algorithm."),
    },
    "Many runs, reports, this tool": {
        "study": ("study:app", "Studies: width scaling, convergence and more."),
        "report": ("report:report", "Verdicts and studies as pages; two runs compared."),
        "cite": ("cite:cite", "BibTeX of the papers behind a result, and of this tool."),
        "bench": ("bench:bench", "Speed, beside other packages and the machine's limit."),
        "doctor": ("doctor:doctor", "What is installed and found here, and what is missing."),
    },
}
for section, commands in SECTIONS.items():
    for name, (place, short_help) in commands.items():
        module, _, function = place.partition(":")
        command = getattr(import_module(f"experiments.commands.{module}"), function)
        if isinstance(command, typer.Typer):
            for own in command.registered_commands:
                own.callback = with_help(own.callback) if own.callback else None
            app.add_typer(command, name=name, short_help=short_help, rich_help_panel=section)
        else:
            app.command(name, short_help=short_help, rich_help_panel=section)(with_help(command))
