"""`ntkfl study`: list the studies, run a study, and show its progress and its answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.console.blocks import bad_input, if_stopped, shown_warnings
from experiments.console.choices import KeptRuns
from experiments.console.cluster_options import Scheduler, TlsCa, TlsCert, TlsKey, chosen_cluster
from experiments.console.durations import duration
from experiments.console.progress_bar import StudyProgress, span

if TYPE_CHECKING:
    import xarray

    from experiments.studies.grid import Grid
    from experiments.studies.running.dask_cluster import Cluster
    from experiments.studies.study import Answer, Study
    from experiments.studies.study_folder import StudyFolder
    from ntkfl.estimate import Estimate


SHOWN = 12  # the largest number of values of an axis that are shown


def option_lines(study: Study) -> list[str]:
    """A line for every axis: its option, the default values, and its meaning."""
    lines = []
    for axis in study.axes:
        values = [f"{value:g}" if isinstance(value, float) else str(value) for value in axis.values]
        if axis.flag == "seeds":
            values = [str(len(values))]
        shown = ",".join(values) if len(values) <= SHOWN else f"{','.join(values[: SHOWN - 1])},...,{values[-1]}"
        lines.append(f"--{axis.flag} {shown}  {axis.says}" + ("" if axis.unit == "1" else f" [{axis.unit}]"))
    return lines


def dry_lines(grid: Grid, folder: StudyFolder | None, processes: int | None) -> list[str]:
    """Lines with the numbers of cells and of missing cells, and what these would cost by the study's own estimates."""
    from experiments.studies.runner import planned
    from verification.cores import cores

    study = grid.study
    plan = planned(grid, folder.store if folder else None)
    workers = min(processes or cores(), max(1, len(plan.todo)))
    times = [study.seconds(cell.point) for cell in plan.todo]
    together = max([sum(times) / workers, *times]) if times else 0.0
    largest = sorted((study.megabytes(cell.point) for cell in plan.todo), reverse=True)[:workers]
    return [
        f"{study.name}: {plan.total} cells ({_shape(grid)}): {len(plan.kept)} done, {len(plan.todo)} to do",
        f"processor time: about {span(sum(times))}; {span(together)} on {workers} processes",
        f"memory: about {sum(largest):.0f} MB for {workers} processes at once",
        *(f"damaged, to be measured again: {damaged}" for damaged in plan.damaged),
    ]


def status_lines(folder: StudyFolder) -> list[str]:
    """Lines with the state of the run in a folder, and its failures."""
    from experiments.studies.runner import planned
    from experiments.studies.running.code_version import version_of

    grid, store = folder.grid(), folder.store
    plan = planned(grid, store)
    failed = [(cell, text) for cell in plan.todo if (text := store.failure(cell)) is not None]
    left = sum(grid.study.seconds(cell.point) for cell in plan.todo)
    lines = [
        f"{grid.study.name}: {len(plan.kept)} of {plan.total} cells done ({_shape(grid)}), {len(failed)} failed, "
        f"{len(plan.todo) - len(failed)} remaining",
        f"processor time: {span(plan.seconds_kept)} taken, about {span(left)} left",
    ]
    if folder.version != version_of(grid.spec):
        lines.append("the code has changed since the last run: its cells are kept, but do not count")
    lines += [f"failed: {cell}: {text.strip().splitlines()[-1]} ({store.failure_path(cell)})" for cell, text in failed]
    return lines + [f"damaged: {damaged}" for damaged in plan.damaged]


def answer_lines(study: Study, cells: xarray.Dataset, answers: Sequence[Answer]) -> list[str]:
    """The answers as a table, worst first.

    Below the table, each note appears once, followed by the number of cells that the answers rest on.
    """
    from rich.text import Text

    from bounds import Outcome
    from experiments.console.tables import as_lines, console
    from experiments.studies.study import counted
    from verification.tables import plain_table

    order = [Outcome.VIOLATED, Outcome.UNRESOLVED, Outcome.UNTESTED]
    rows = sorted(answers, key=lambda answer: order.index(answer.outcome) if answer.outcome in order else len(order))
    notes = list(dict.fromkeys(answer.note for answer in rows if answer.note))
    table = plain_table(("outcome", "theory", "measured", "claim"), wrapped=("claim",))
    for answer in rows:
        outcome = answer.outcome.value + (
            " (as recorded)" if answer.outcome is answer.recorded is Outcome.VIOLATED else ""
        )
        theory = "" if answer.theory is None else f"{answer.theory:.4g}"
        note = f" [{notes.index(answer.note) + 1}]" if answer.note else ""
        claim = f"{answer.claim} ({answer.source}){note}"
        table.add_row(*map(Text, (outcome, theory, _measured(answer.measured), claim)))
    width = console().width
    lines = [*wrap(study.question, width), *as_lines(table).splitlines()]
    for number, note in enumerate(notes, 1):
        lines += wrap(f"[{number}] {note}", width, subsequent_indent="    ", break_on_hyphens=False)
    total, missing = int(cells.attrs["cells"]), int(cells.attrs["missing"])
    return [*lines, f"{counted(answer.outcome for answer in answers)}; from {total - missing} of {total} cells"]


def _measured(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    error = f" ± {float(estimate.error):.2g}" if estimate.error.any() else ""
    return f"{float(estimate.value):.4g}{error}"


def _shape(grid: Grid) -> str:
    return " x ".join(f"{len(axis.values)} {axis.flag}" for axis in grid.axes)


SURPRISED, BAD_INPUT = 1, 2

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def study() -> None:
    """List, run and show studies. A study answers a question by a grid of runs, and compares the answer with theory."""


def _names(incomplete: str) -> list[str]:
    from experiments.studies import names

    return [name for name in names() if name.startswith(incomplete)]


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="the folder of a study", exists=True, file_okay=False)]
Charts = Annotated[bool, typer.Option("--plot", help="draw the charts, into DIR/charts")]


@app.command("list", short_help="List the studies.")
def list_studies(
    chosen: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="only these (all)", autocompletion=_names)
    ] = None,
) -> None:
    """List the studies with names, questions and sources, and the options that replace the values of their axes."""
    from experiments.studies import catalogue, find

    with bad_input():
        studies = [find(name) for name in chosen] if chosen else catalogue().values()
    for study in studies:
        typer.echo(f"{study.name}: {study.question} ({study.source})")
        for line in option_lines(study):
            typer.echo(f"    {line}")


@app.command(
    "run",
    short_help="Run a study, or go on with it.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="a study, as `ntkfl study list` names it, or a file of yours", autocompletion=_names)
    ],
    out: KeptRuns = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="number of processes on this machine (as many as cores)")
    ] = None,
    scheduler: Scheduler = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    until_resolved: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=duration,
            help="add seeds while more seeds may settle an answer, until all cells together have taken this processor "
            "time: 60s, 30m or 2h; the first seed is measured in any case",
        ),
    ] = None,
    dry_run: Annotated[bool, "only print what would be run"] = False,
    plot: Charts = False,
) -> None:
    """Run a study: ntkfl study run width-scaling --widths 64,128,256 --seeds 4 --out DIR

    Every axis of the grid has an option that replaces its values; `ntkfl study list` shows these options. Every cell of
    the grid is one run, and is stored in a file. So the same command continues where it was stopped. A cell that failed
    leaves its traceback, and is tried again by the same command. Exit status: 0 done, 1 an answer contradicts theory
    and the contradiction is not recorded, or cells failed, 2 bad input or a run that cannot go on, 130 stopped by
    Ctrl-C.
    """
    from experiments.studies.running.one_thread import limit_to_one_thread

    limit_to_one_thread(os.environ)  # set before numpy and jax are imported, as in worker processes
    from experiments.studies.grid import chosen_grid
    from experiments.studies.study_folder import StudyFolder
    from experiments.studies.whole_run import is_empty, measured_until

    with bad_input():
        grid = chosen_grid(name, axis_options(context.args))
        if scheduler is not None and processes is not None:
            raise ValueError(
                "--processes is for this machine; with --scheduler the cluster's workers measure: leave it out"
            )
        cluster = chosen_cluster(scheduler, tls_ca, tls_cert, tls_key)
        if out is None and not dry_run:
            raise ValueError("give the folder that keeps the cells: --out DIR")
        folder = None if out is None else StudyFolder(out)
        if dry_run:
            return _say(dry_lines(grid, folder, processes))
        assert folder is not None
        if until_resolved is not None:
            if not 0 <= until_resolved < float("inf"):
                raise ValueError(
                    f"--until-resolved is {until_resolved:g} s; it must be a time that is not negative, such as 30m"
                )
            grid.with_seeds(1)  # raises an error for a study without seeds
        folder.begin(grid)
    with shown_warnings(), bad_input(OSError):

        def measure(of: Grid) -> int:
            failed = _measure(of, folder, processes, cluster)
            if failed:  # printed first, since computing the answers may fail without these cells
                tell(f"{failed} of {prod(of.shape)} cells failed: ntkfl study status {folder.path}")
            return failed

        def tell(sentence: str) -> None:
            typer.echo(sentence, err=True)

        grid, cells, answers, failed = measured_until(grid, folder, measure, until_resolved, tell)
        wrong = is_empty(cells) or _finish(grid, folder, cells, answers, plot) or failed
    raise typer.Exit(SURPRISED if wrong else 0)


@app.command("status", short_help="The progress of a study.")
def status(folder: Folder) -> None:
    """Show the progress of the study in a folder: how many cells are done, failed or remaining.

    For a failed cell, the last line of its traceback is shown.
    """
    from experiments.studies.study_folder import StudyFolder

    with bad_input():
        _say(status_lines(StudyFolder(folder)))


@app.command("show", short_help="The answers of a study.")
def show(
    folder: Folder,
    plot: Charts = False,
) -> None:
    """Show the answers of the study in a folder, computed again from its results.

    Exit status: 0 done, 1 an answer contradicts theory and the contradiction is not recorded, or there are no results,
    2 bad input.
    """
    from experiments.studies.running.code_version import version_of
    from experiments.studies.study_folder import StudyFolder
    from experiments.studies.whole_run import is_empty

    with bad_input():
        there = StudyFolder(folder)
        grid, cells = there.measured()
        if there.grid() != grid:
            typer.echo("a run with another grid was begun later; these are the results of the earlier run", err=True)
        if cells.attrs["version"] != version_of(grid.spec):
            typer.echo("the code has changed since these results were measured", err=True)
    if is_empty(cells):
        typer.echo(f"none of the {cells.attrs['cells']} cells is done: ntkfl study status {folder}", err=True)
        raise typer.Exit(SURPRISED)
    with shown_warnings():
        surprised = _finish(grid, there, cells, grid.study.answers(cells), plot)
    raise typer.Exit(SURPRISED if surprised else 0)


def axis_options(words: Sequence[str]) -> dict[str, str]:
    """The values of the axes' options, by name, from the words that typer did not parse.

    An option is `--widths 64,128` or `--widths=64,128`.

    Raises:
        ValueError: a word that is not an option, an option without a value, or an option given twice.
    """
    options: dict[str, str] = {}
    left = list(words)
    while left:
        option, given, value = left.pop(0).partition("=")
        if not option.startswith("--") or len(option) == 2:
            raise ValueError(f"unexpected {option!r}: values go behind an option, with commas between: --widths 64,128")
        if not given:
            if not left or left[0].startswith("--"):
                raise ValueError(f"{option} has no value")
            value = left.pop(0)
        if option[2:] in options:
            raise ValueError(f"{option} is given twice; give all its values at once, with commas between")
        options[option[2:]] = value
    return options


def _measure(grid: Grid, folder: StudyFolder, processes: int | None, cluster: Cluster | None) -> int:
    """Measure all missing cells, and return the number of cells that failed."""
    from experiments.studies.runner import planned, require_memory, run
    from experiments.studies.running.measuring import RunStopped
    from ntkfl.memory import TooLittleMemory

    with bad_input(OSError, TooLittleMemory):
        plan = planned(grid, folder.store)
        if cluster is None:
            require_memory(grid, plan.todo, processes)
    for damaged in plan.damaged:
        typer.echo(f"measured again: {damaged}", err=True)

    def kept() -> str:
        with bad_input(OSError):
            left = planned(grid, folder.store)  # a worker may have stored a cell without being able to report it
        return f"{len(left.kept)} of {left.total} cells are kept in {folder.path}; the same command goes on from there"

    try:
        with if_stopped(kept), StudyProgress(plan, grid.study.seconds) as progress:
            run(grid, folder.store, plan.todo, processes, cluster, progress)
            return progress.failed
    except RunStopped as error:
        typer.echo(f"error: {error}\n{kept()}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _finish(grid: Grid, folder: StudyFolder, cells: xarray.Dataset, answers: Sequence[Answer], plot: bool) -> bool:
    """Print the answers, write pictures into the folder, and return whether an answer is an unexpected violation."""
    _say(answer_lines(grid.study, cells, answers))
    if plot:
        _draw(grid, folder, cells)
    return any(answer.surprises for answer in answers)


def _draw(grid: Grid, folder: StudyFolder, cells: xarray.Dataset) -> None:
    from experiments.studies.default_charts import charts_of
    from experiments.studies.drawing import save

    charts = charts_of(grid.study, cells)
    if not charts:
        typer.echo(f"{grid.study.name} has no chart of these cells", err=True)
    for chart in charts:
        with bad_input(OSError):
            typer.echo(f"chart: {save(chart, folder.charts)[0]}", err=True)


def _say(lines: Sequence[str]) -> None:
    typer.echo("\n".join(lines))
