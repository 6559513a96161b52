"""`ntkfl findings`: the page of every printed form that differs from what holds."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.bad_input import bad_input
from experiments.commands.output_files import reserved


def findings(
    verdicts_file: Annotated[
        Path | None,
        typer.Option("--from", help="a file that `ntkfl verify --json` wrote; else every statement is checked"),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="write the page to this file; else it is printed")] = None,
) -> None:
    """Write, as Markdown, where printed forms differ from what holds, with evidence and replay commands."""
    from bounds.listing import catalogue
    from bounds.options import Options
    from experiments.commands.case_progress import CaseProgress
    from verification.engine import verify_all
    from verification.findings import as_page

    with ExitStack() as stack:
        with bad_input():
            inputs = (str(verdicts_file),) if verdicts_file else ()
            (write,) = stack.enter_context(reserved(output, inputs=inputs))
            verdicts = _read(verdicts_file) if verdicts_file else None
        if verdicts is None:
            with CaseProgress() as progress:
                verdicts = verify_all(catalogue().values(), Options(), progress=progress)
            if not progress.complete:
                typer.echo("interrupted: no page is written from a part of the verdicts", err=True)
                raise typer.Exit(130)
        page = as_page(verdicts)
        if write:
            write(page)
        else:
            typer.echo(page)


def _read(path: Path) -> list:
    """The verdicts of a file.

    Raises:
        ValueError: not a file that `ntkfl verify --json` wrote, or a statement that this version does not have.
    """
    from bounds.listing import catalogue
    from verification.verdict import Verdict

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        verdicts = [Verdict.from_json(entry) for entry in content["verdicts"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a file that `ntkfl verify --json` wrote: {error}") from error
    unknown = [verdict.id for verdict in verdicts if verdict.id not in catalogue()]
    if unknown:
        raise ValueError(f"{path} has a verdict of {unknown[0]}, a statement that this version does not have")
    return verdicts
