"""What `ntkfl verify` prints with --meta and with --symbolic.

With --meta it tests the verifier itself: which wrong formulas (mutants) and which planted faults of the library it
notices, and whether it raises false alarms. With --symbolic it prints every algebraic step of a proof, and whether a
machine proved it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import typer

from bounds import Form, Options, Statement
from bounds.listing import steps
from experiments.console.blocks import REPORTED, as_json, bad_input, stopped
from experiments.console.progress_bar import CaseProgress
from experiments.console.tables import as_lines
from ntkfl.trajectory import provenance
from verification import meta_tables
from verification.false_alarms import false_alarms
from verification.json_values import strict_json
from verification.mutation.matrix import mutation_matrix, only_form, true_forms
from verification.planted_faults import noticing, planted_faults
from verification.planted_faults.fault import PlantedFault
from verification.symbolic import prove

# `OF`: the width, in characters, of the column in which ids are printed. `FAILED`: the exit status if a step is not
# proved.
OF, FAILED = 22, 1
RUNS = 10_000  # number of runs of true statements, none of which may be called violated
EXPOSED = 1


def prove_steps(ids: Collection[str] | None) -> None:
    """Prove the algebraic steps that belong to these statements (None: all statements), and print a line for each.

    The exit status is 1 if a step is not proved.

    Raises:
        ValueError: no statement has such a step.
    """
    chosen = [step for step in steps() if ids is None or step.of in ids]
    with bad_input():
        if not chosen:
            known = ", ".join(sorted({step.of for step in steps()}))
            raise ValueError(f"no algebraic step belongs to {', '.join(ids or ())}; there are steps for {known}")
    proofs = []
    for step in chosen:
        proofs.append(prove(step))
        typer.echo(f"{'proved' if proofs[-1].proved else 'FAILED':<8}{step.of:<{OF}} {step.says}")
        typer.echo(f"{'':<{8 + OF}} {proofs[-1].how}")
    count = sum(proof.proved for proof in proofs)
    typer.echo(f"\n{count} of {len(proofs)} steps proved; nothing here is sampled")
    if count < len(proofs):
        raise typer.Exit(FAILED)


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
    """Print which wrong formulas (mutants) and planted faults are noticed, and false alarms on fresh cases.

    With `whole`, which means that all statements are tested, false alarms are looked for in 10,000 runs, otherwise in
    one batch of fresh cases. With `library` only the planted faults are tried, and `write_markdown` writes a page about
    them.

    The exit status is 1 if a mutant of a statement is not noticed, a planted fault changes no verdict, or a true
    statement is called violated. The exit status is 130 if the tests are interrupted.
    """
    started = time.monotonic()
    planted = planted_faults(None if whole else {statement.id for statement in statements})
    if library:
        faults, complete = _faults(planted, options)
        if write_markdown:
            write_markdown(noticing.library_markdown(faults))
        wrong, content = noticing.unnoticed(faults), {}
    else:
        chosen = [s for s in statements if any(form in forms for _, form in true_forms([s]))]
        if len(forms) == 1:
            chosen = [only_form(s, forms[0], mutants=s.mutants if s.mutated_form is forms[0] else ()) for s in chosen]
        with _measured("mutants") as progress:
            mutants, _ = mutation_matrix(chosen, options, progress)
        complete = progress.complete
        typer.echo(as_lines(meta_tables.matrix_table(mutants)) + "\n")
        typer.echo(as_lines(meta_tables.sorts_table(mutants)) + "\n")
        typer.echo(meta_tables.matrix_totals(mutants) + "\n")
        faults, all_planted = _faults(planted, options)
        with _measured("false alarms") as progress:
            alarms = false_alarms(chosen, options, (RUNS if whole else 1) if complete and all_planted else 0, progress)
        complete = complete and all_planted and progress.complete
        typer.echo(as_lines(meta_tables.alarms_table(alarms)) + "\n")
        typer.echo(meta_tables.matrix_totals(mutants))
        typer.echo(meta_tables.alarms_totals(alarms))
        wrong = meta_tables.exposed(mutants, alarms) + noticing.unnoticed(faults) if complete else []
        content = meta_tables.meta_json(mutants, alarms)
    for line in wrong:
        typer.echo(line)
    typer.echo(f"{time.monotonic() - started:.0f} s")
    if write_json:
        run = provenance(first_seed=options.seed) | {"options": asdict(options), "complete": complete}
        content |= {"library": list(map(asdict, faults))}
        write_json(as_json(strict_json({"provenance": run} | content)))
    if not complete:
        raise stopped(REPORTED)
    if wrong:
        raise typer.Exit(EXPOSED)


def _faults(planted: tuple[PlantedFault, ...], options: Options) -> tuple[list[noticing.Noticed], bool]:
    """Plant faults in the library one by one, print which are noticed, and return whether all were planted."""
    if not planted:
        return [], True
    with _measured("faults of the library") as progress:
        faults = noticing.noticed(planted, options.seed, progress)
    typer.echo(as_lines(noticing.library_table(faults)) + "\n")
    typer.echo(noticing.library_totals(faults) + "\n")
    return faults, len(faults) == len(planted)


@contextmanager
def _measured(what: str) -> Iterator[CaseProgress]:
    typer.echo(f"{what}:", err=True)
    # mutants, and cases that are stored with a statement, exceed the limits of stable steps on purpose
    with warnings.catch_warnings(action="ignore", category=UserWarning), CaseProgress() as progress:
        yield progress
