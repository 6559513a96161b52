"""`ntkfl verify`: check statements and report what was found, worst first."""

import json
import os
import sys
import warnings
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.case_progress import CaseProgress
from experiments.commands.choices import chosen_problem, one_output, takes_options
from experiments.commands.output_files import reserved

if TYPE_CHECKING:
    from bounds.options import Options
    from bounds.statement import Form, Statement
    from ntkfl.problem import Problem
    from verification.verdict import Verdict

DIFFERS, INTERRUPTED = 1, 130
PIPED_WIDTH = 120
STABILITY = "eta_(local|global) = "  # how the simulator's warnings of steps beyond the stability limit begin


@takes_options
def verify(
    options: "Options",
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="statements, as `ntkfl list` names them, or .py files of yours; all unless given"),
    ] = None,
    form: Annotated[Literal["stated", "proved", "repaired"] | None, typer.Option(help="only this form")] = None,
    trials: Annotated[int | None, typer.Option(help="cases a family (at most 200, by what one costs)")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the verdicts as JSON to this file")] = None,
    markdown: Annotated[Path | None, typer.Option(help="write a Markdown report to this file")] = None,
    device: Annotated[
        str | None, typer.Option(help="run the left sides with the training engine: cpu, cuda or cuda:NUMBER")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="processes that share the work; the cores, unless given or the work is short")
    ] = None,
    meta: Annotated[
        bool, typer.Option("--meta", help="test the verifier itself: mutants it must kill, false alarms")
    ] = False,
    symbolic: Annotated[
        bool, typer.Option("--symbolic", help="prove the algebraic steps of the proofs instead of running cases")
    ] = False,
) -> None:
    """Check statements on real and synthetic data, or on data of your own.

    Exit status: 0 as expected; 1 when a verdict differs from the recorded outcome (with --data: when a form recorded to
    hold is violated); 2 for bad input; 130 when interrupted.
    """
    with ExitStack() as stack:
        with bad_input():
            if trials is not None and trials < 1:
                raise ValueError(f"trials is {trials}; it must be a positive integer")
            if processes is not None and processes < 1:
                raise ValueError(f"processes is {processes}; it must be a positive integer")
            options = replace(options, trials=trials, device=_there(device))
            if not (ids or meta or symbolic or device) and processes != 1:
                _start_early()
            statements, forms = _wanted(ids, form)
            files = [word.partition("::")[0] for word in ids or ()]
            if meta and markdown is not None:
                raise ValueError("--meta writes no Markdown; --json keeps what it finds")
            if meta and device is not None:
                raise ValueError("--meta tests the verifier on the simulator's runs; leave --device out")
            if processes is not None and (meta or symbolic or device is not None):
                raise ValueError("--processes is for checking statements: leave out --meta, --symbolic and --device")
            given = (json_file, markdown, options.data, trials, form, device)
            if symbolic and (meta or any(x is not None for x in given)):
                raise ValueError("--symbolic runs no case: it goes with ids alone, not with --meta, --data or files")
            write_json, write_markdown = stack.enter_context(
                reserved(json_file, markdown, inputs=(options.data, *files))
            )
            _check_data(statements, forms, options)
        if symbolic:
            from experiments.commands.algebra import prove_steps

            return prove_steps({statement.id for statement in statements} if ids else None)
        if meta:
            from experiments.commands.meta_run import check_verifier

            return check_verifier(statements, forms, options, whole=not ids, write_json=write_json)
        verdicts, complete = _run(statements, forms, options, processes)
        own_data = options.data is not None
        _print(verdicts, own_data, pages=len(statements) == 1)
        if write_json:
            write_json(_json(verdicts, options, complete))
        if write_markdown:
            from verification.report import as_markdown

            write_markdown(as_markdown(verdicts, own_data))
    if not complete:
        typer.echo("interrupted: what was counted until then is reported", err=True)
        raise typer.Exit(INTERRUPTED)
    if _differing(verdicts, own_data):
        raise typer.Exit(DIFFERS)


def _start_early() -> None:
    """Where several processes are going to check all statements: have what they need imported while this one does."""
    from verification.processes import cores, start_server

    if cores() > 1:
        start_server()


def _there(device: str | None) -> str | None:
    """The device asked for.

    Raises:
        ValueError: this machine does not have it.
    """
    if device is not None:
        from ntkfl.training.devices import torch_device

        torch_device(device)
    return device


def _wanted(ids: list[str] | None, form: str | None) -> "tuple[list[Statement], list[Form]]":
    """The statements and forms asked for.

    Raises:
        KeyError: an unknown id. ValueError: a form that none of the statements has.
    """
    from bounds.listing import catalogue, find
    from bounds.statement import Form

    statements = list(find(*ids) if ids else catalogue().values())
    forms = list(Form) if form is None else [Form(form)]
    if not any(wanted in statement.forms for statement in statements for wanted in forms):
        names = ", ".join(statement.id for statement in statements)
        has = ", ".join(sorted({found.value for statement in statements for found in statement.forms}))
        raise ValueError(f"{names} has no form {form!r}; it has: {has}")
    return statements, forms


def _check_data(statements: "list[Statement]", forms: "list[Form]", options: "Options") -> None:
    """Load the data once, so that what is wrong with them, or with steps chosen for them, is said before the work.

    Raises:
        ValueError, OSError: what the data, or their partition, are refused for.
    """
    chosen = (options.n, options.clients, options.partition, options.eta_local, options.eta_global, options.local_steps)
    if options.data is None and all(choice is None for choice in chosen):
        return
    from bounds.federated_run import FederatedDraw, federated_draws
    from ntkfl.exact_dynamics import warn_if_unstable

    if options.data is not None:
        _warn_of_rows(one_output(chosen_problem(options, options.data)))
    for family in federated_draws(options):
        family.problem(options.seed)
    used = (s.families(form, options) for s in statements for form in forms if form in s.forms)
    for draw in dict.fromkeys(draw for families in used for draw in families):
        if isinstance(draw, FederatedDraw):
            warn_if_unstable(draw.problem(options.seed), draw.setup)


def _warn_of_rows(problem: "Problem") -> None:
    from ntkfl.problem import UNIT_TOLERANCE

    if problem.unit_deviation > UNIT_TOLERANCE:
        warnings.warn(
            f"the rows of {problem.name} are not of unit norm, they are off by up to {problem.unit_deviation:.3g}; "
            "statements that need unit rows reject them all. --unit divides each row by its norm",
            stacklevel=2,
        )


def _run(
    statements: "list[Statement]", forms: "list[Form]", options: "Options", processes: int | None
) -> "tuple[list[Verdict], bool]":
    """The verdicts, and whether they are all that were asked for and on all cases."""
    from verification.processes import verify_in_processes

    wanted = sum(form in statement.forms for statement in statements for form in forms)
    with bad_input(FloatingPointError), warnings.catch_warnings(), CaseProgress() as progress:
        warnings.filterwarnings(
            "ignore", STABILITY
        )  # said of the user's steps already; stored cases pass it on purpose
        verdicts = verify_in_processes(statements, options, forms, progress, processes)
    return verdicts, progress.complete and len(verdicts) == wanted


def _differing(verdicts: "list[Verdict]", own_data: bool) -> "list[Verdict]":
    from verification.report import contradicts_record

    return [verdict for verdict in verdicts if contradicts_record(verdict, own_data)]


def _print(verdicts: "list[Verdict]", own_data: bool, pages: bool) -> None:
    """The pages or the table, then in one line each what differs from the record and its replay, then the totals."""
    from rich.console import Console

    from verification.page import headline
    from verification.report import as_text, table, totals, worst_first

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=PIPED_WIDTH if piped else None)
    if pages:
        for verdict in worst_first(verdicts, own_data):
            width = max(60, min(console.width, PIPED_WIDTH))
            typer.echo(as_text(verdict, width=width, own_data=own_data) + "\n")
    elif verdicts:
        with console.capture() as captured:
            console.print(table(verdicts, own_data))
        typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")
        for verdict in _differing(verdicts, own_data):
            typer.echo(f"{headline(verdict, own_data)}\n  {verdict.replay}\n")
    typer.echo(totals(verdicts, own_data))


def _json(verdicts: "list[Verdict]", options: "Options", complete: bool) -> str:
    from verification.check import origin
    from verification.report import as_json

    run: dict[str, Any] = origin(options.device, first_seed=options.seed) | {
        "options": asdict(options),
        "complete": complete and not any(verdict.error for verdict in verdicts),
    }
    return json.dumps(as_json(verdicts, run), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
