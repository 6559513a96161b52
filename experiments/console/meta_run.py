"""What `ntkfl verify --meta` does: the mutation matrix, faults of the library, and the verifier's false alarms."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from experiments.console.case_progress import CaseProgress
from experiments.console.interruptible import REPORTED, stopped
from experiments.console.output_files import as_json
from experiments.console.tables import as_lines

if TYPE_CHECKING:
    from bounds.options import Options
    from bounds.statement import Form, Statement
    from verification.planted_faults.fault import PlantedFault
    from verification.planted_faults.noticing import Noticed

RUNS = 10_000  # of true statements, over which no false alarm may occur
EXPOSED = 1


def check_verifier(
    statements: list[Statement],
    forms: list[Form],
    options: Options,
    *,
    whole: bool,
    library: bool = False,
    write_json: Callable[[str], None] | None = None,
    write_markdown: Callable[[str], None] | None = None,
) -> None:
    """Print which mutants are killed, by statement and by kind, faults of the library, false alarms on fresh cases.

    With `whole`, where all statements are asked for, 10,000 runs are made, otherwise one batch of fresh cases. With
    `library` only the faults planted in the library are tried, and `write_markdown` gets their page.

    Exit status 1 where an own mutant of a statement survives, a fault of the library changes no verdict, or a true
    statement is called violated; 130 when interrupted.
    """
    from verification import mutation_report as report
    from verification.false_alarms import false_alarms
    from verification.mutation.matrix import mutation_matrix, only_form, true_forms
    from verification.planted_faults import noticed_faults, planted_faults

    started = time.monotonic()
    planted = planted_faults(None if whole else {statement.id for statement in statements})
    if library:
        faults, complete = _faults(planted, options)
        if write_markdown:
            write_markdown(noticed_faults.library_markdown(faults))
        wrong, content = noticed_faults.unnoticed(faults), {"library": noticed_faults.library_json(faults)}
        return _finish(started, wrong, complete, options, write_json, content)
    chosen = [s for s in statements if any(form in forms for _, form in true_forms([s]))]
    if len(forms) == 1:
        chosen = [only_form(s, forms[0], mutants=s.mutants if s.mutated_form is forms[0] else ()) for s in chosen]
    with _measured("mutants") as progress:
        mutants, _ = mutation_matrix(chosen, options, progress)
    complete = progress.complete
    typer.echo(as_lines(report.matrix_table(mutants)) + "\n")
    typer.echo(as_lines(report.sorts_table(mutants)) + "\n")
    typer.echo(report.matrix_totals(mutants) + "\n")
    faults, all_planted = _faults(planted, options)
    with _measured("false alarms") as progress:
        alarms = false_alarms(chosen, options, (RUNS if whole else 1) if complete and all_planted else 0, progress)
    complete = complete and all_planted and progress.complete
    typer.echo(as_lines(report.alarms_table(alarms)) + "\n")
    typer.echo(report.matrix_totals(mutants))
    typer.echo(report.alarms_totals(alarms))
    wrong = report.exposed(mutants, alarms) + noticed_faults.unnoticed(faults) if complete else []
    content = report.meta_json(mutants, alarms) | {"library": noticed_faults.library_json(faults)}
    _finish(started, wrong, complete, options, write_json, content)


def _faults(planted: tuple[PlantedFault, ...], options: Options) -> tuple[list[Noticed], bool]:
    """Plant faults in the library, print what became of them; and whether all were planted."""
    from verification.planted_faults import noticed_faults
    from verification.planted_faults.noticing import noticed

    if not planted:
        return [], True
    with _measured("faults of the library") as progress:
        seen_faults = noticed(planted, options.seed, progress)
    typer.echo(as_lines(noticed_faults.library_table(seen_faults)) + "\n")
    typer.echo(noticed_faults.library_totals(seen_faults) + "\n")
    return seen_faults, len(seen_faults) == len(planted)


def _finish(
    started: float,
    wrong: list[str],
    complete: bool,
    options: Options,
    write_json: Callable[[str], None] | None,
    content: dict[str, Any],
) -> None:
    """Say what speaks against the verifier, write the JSON, and leave with the exit status."""
    from ntkfl.trajectory import provenance
    from verification.verdict import strict_json

    for line in wrong:
        typer.echo(line)
    typer.echo(f"{time.monotonic() - started:.0f} s")
    if write_json:
        run = provenance(first_seed=options.seed) | {"options": asdict(options), "complete": complete}
        write_json(as_json(strict_json({"provenance": run} | content)))
    if not complete:
        raise stopped(REPORTED)
    if wrong:
        raise typer.Exit(EXPOSED)


@contextmanager
def _measured(what: str) -> Iterator[CaseProgress]:
    typer.echo(f"{what}:", err=True)
    with warnings.catch_warnings(), CaseProgress() as progress:
        warnings.simplefilter("ignore", UserWarning)  # mutants and stored cases pass limits on purpose
        yield progress
