"""`ntkfl findings`: a page about all printed forms that do not hold as printed.

A form of a statement is one version of its claim, such as the version that a paper prints.
"""

from pathlib import Path
from typing import Annotated

import typer

from experiments.console.blocks import bad_input, if_stopped, reserved, stopped
from experiments.console.tables import page_width

ANNOUNCED = (
    "checking every statement, as `ntkfl verify` does: some minutes of processor time; --from FILE in its place takes "
    "the verdicts that `ntkfl verify --json FILE` has kept"
)


def findings(
    verdicts_file: Annotated[
        Path | None,
        typer.Option("--from", help="with the numbers of a file that `ntkfl verify --json` wrote"),
    ] = None,
    measure: Annotated[bool, "with new numbers, for which every statement is checked, which takes minutes"] = False,
    output: Annotated[Path | None, "write the page, in Markdown, to this file"] = None,
    replays: Annotated[
        Path | None, "an existing folder, for replay files of the stored cases of findings of substance"
    ] = None,
) -> None:
    """List the printed forms that differ from what holds, as they are recorded, without running anything.

    With --output the list becomes a page of Markdown, with formulas, reasons and evidence. With --measure or --from the
    page also has the verdicts, the size of each difference, and the commands that repeat the checks.
    """
    from bounds import Options, catalogue
    from experiments.console.progress_bar import CaseProgress
    from experiments.report.verdict_file import read
    from verification.cards import cards
    from verification.findings.findings_page import as_page
    from verification.findings.recorded import recorded_list, recorded_page
    from verification.processes import verify_in_processes

    with reserved(output, inputs=(str(verdicts_file),) if verdicts_file else ()) as (write,):
        with bad_input():
            if replays is not None and not replays.is_dir():
                raise NotADirectoryError(
                    f"--replays is {replays}, which is no folder; make it, or name one that is there"
                )
            if measure and verdicts_file:
                raise ValueError("--measure and --from both say where the numbers come from: give one of them")
            verdicts = list(read(verdicts_file).verdicts) if verdicts_file else None
        if measure:
            typer.echo(ANNOUNCED, err=True)
            with CaseProgress() as progress:
                verdicts = verify_in_processes(catalogue().values(), Options(), progress=progress)
            wanted = sum(len(statement.forms) for statement in catalogue().values())
            if not progress.complete or len(verdicts) < wanted:
                raise stopped("no page is written from a part of the verdicts")
        if write:
            write(recorded_page(catalogue().values()) if verdicts is None else as_page(verdicts))
        else:
            typer.echo(recorded_list(cards(), page_width()) if verdicts is None else as_page(verdicts))
        if replays is not None:
            _keep(replays)


def _keep(folder: Path) -> None:
    from verification.findings.recorded import stored_replays

    with if_stopped(lambda: f"the replay files that are done are in {folder}"):
        for name, text in stored_replays():
            with reserved(folder / name) as (write,):
                assert write is not None
                write(text)
