"""The output of `ntkfl study`, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from experiments.console.study_progress import span

if TYPE_CHECKING:
    import xarray

    from experiments.studies.grid import Grid
    from experiments.studies.study import Answer, Study
    from experiments.studies.study_folder import StudyFolder
    from ntkfl.estimate import Estimate

SHOWN = 12  # most values of an axis that are shown


def option_lines(study: Study) -> list[str]:
    """Every axis: its option with the default values, and its meaning."""
    lines = []
    for axis in study.axes:
        values = [f"{value:g}" if isinstance(value, float) else str(value) for value in axis.values]
        if axis.flag == "seeds":
            values = [str(len(values))]
        shown = ",".join(values) if len(values) <= SHOWN else f"{','.join(values[: SHOWN - 1])},...,{values[-1]}"
        lines.append(f"--{axis.flag} {shown}  {axis.says}" + ("" if axis.unit == "1" else f" [{axis.unit}]"))
    return lines


def dry_lines(grid: Grid, folder: StudyFolder | None, processes: int | None) -> list[str]:
    """The number of cells and of missing ones, and their cost by the study's own estimates."""
    from experiments.studies.runner import planned
    from verification.processes import cores

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
    """The state of the run in a folder, and its failures."""
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
    """The answers as a table, worst first; below it each note once, and the number of cells behind the answers."""
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
