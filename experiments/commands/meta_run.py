"""What `ntkfl verify --meta` does: the mutation matrix and the false alarms of the verifier itself."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.case_progress import CaseProgress

if TYPE_CHECKING:
    from rich.table import Table

    from bounds.options import Options
    from bounds.statement import Form, Statement

RUNS = 10_000  # of true statements, over which no false alarm may occur
EXPOSED, INTERRUPTED = 1, 130
PIPED_WIDTH = 120


def check_verifier(
    statements: list[Statement],
    forms: list[Form],
    options: Options,
    *,
    whole: bool,
    write_json: Callable[[str], None] | None = None,
) -> None:
    """Print which mutants are killed, by statement and by kind, and the false alarms on fresh cases.

    Args:
        whole: all statements are asked for: then 10,000 runs are made, otherwise one batch of fresh cases.

    Exit status 1 where an own mutant of a statement survives or a true statement is called violated; 130 when
    interrupted.
    """
    from ntkfl.trajectory import provenance
    from verification import mutation_report as report
    from verification.false_alarms import false_alarms
    from verification.mutation import mutation_matrix, only_form, true_forms
    from verification.verdict import strict_json

    chosen = [s for s in statements if any(form in forms for _, form in true_forms([s]))]
    if len(forms) == 1:
        chosen = [only_form(s, forms[0], mutants=s.mutants if s.mutated_form is forms[0] else ()) for s in chosen]
    started = time.monotonic()
    with _measured("mutants") as progress:
        found, _ = mutation_matrix(chosen, options, progress)
    complete = progress.complete
    _print(report.matrix_table(found))
    _print(report.sorts_table(found))
    typer.echo(report.matrix_totals(found) + "\n")
    with _measured("false alarms") as progress:
        alarms = false_alarms(chosen, options, RUNS if whole else 1, progress)
    complete = complete and progress.complete
    _print(report.alarms_table(alarms))
    typer.echo(report.matrix_totals(found))
    typer.echo(report.alarms_totals(alarms))
    wrong = report.exposed(found, alarms)
    for line in wrong:
        typer.echo(line)
    typer.echo(f"{time.monotonic() - started:.0f} s")
    if write_json:
        run = provenance(first_seed=options.seed) | {"options": asdict(options), "complete": complete}
        content = strict_json({"provenance": run} | report.meta_json(found, alarms))
        write_json(json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    if not complete:
        typer.echo("interrupted: what was counted until then is reported", err=True)
        raise typer.Exit(INTERRUPTED)
    if wrong:
        raise typer.Exit(EXPOSED)


@contextmanager
def _measured(what: str) -> Iterator[CaseProgress]:
    typer.echo(f"{what}:", err=True)
    with bad_input(FloatingPointError), warnings.catch_warnings(), CaseProgress() as progress:
        warnings.simplefilter("ignore", UserWarning)  # mutants and stored cases pass limits on purpose
        yield progress


def _print(table: Table) -> None:
    from rich.console import Console

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=PIPED_WIDTH if piped else None)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")
