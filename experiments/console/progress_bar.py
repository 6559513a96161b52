"""The progress of commands, verifications and studies, shown on stderr as a bar on a terminal, otherwise as lines."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from math import isnan
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress

    from experiments.studies.runner import Plan
    from experiments.studies.running.cell_store import Cell
    from experiments.studies.running.measuring import Status
    from experiments.studies.study import Point
    from ntkfl.training.metrics import Row


SECONDS_BETWEEN_LINES = 5.0


class Reporter(ExitStack):
    """A context in which `report` shows progress.

    If `unit` is None, the bar shows no counts of finished items.
    """

    def __init__(self, unit: str | None = None, text: str = "starting", total: float | None = None) -> None:
        super().__init__()
        self._next_line = time.monotonic()
        self._bar = self.enter_context(_bar(unit)) if sys.stderr.isatty() else None
        self._task = self._bar.add_task(text, total=total) if self._bar else None

    def report(self, done: float, total: float, text: str, line: str, last: bool = False) -> None:
        """Move the bar, or print a line if there is no bar.

        The first line is printed at once, and a later line if some seconds have passed or if it is the `last`.
        """
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, completed=done, total=total)
        elif time.monotonic() >= self._next_line or last:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            typer.echo(line, err=True)


class ProgressBar(Reporter):
    """A context in which `show` shows the number of finished items.

    Without a bar, the line about the last item is always printed.
    """

    def __init__(self, unit: str) -> None:
        super().__init__(unit)
        self._unit = unit

    def show(self, done: int, total: int, text: str) -> None:
        """Show the progress of the work."""
        self.report(done, total, text, f"{done} of {total} {self._unit}: {text}", last=done == total)


def _bar(unit: str | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

    columns: list[ProgressColumn] = [BarColumn(bar_width=30)]
    if unit is not None:
        columns += [MofNCompleteColumn(), *([TextColumn(unit)] if unit else []), TimeRemainingColumn()]
    columns.append(TextColumn("{task.description}"))
    return Progress(*columns, console=Console(stderr=True), transient=True)


class RunProgress(ProgressBar):
    """A context that shows the progress of a run; call it with each new row of results and the number of rounds."""

    def __init__(self) -> None:
        super().__init__("rounds")

    def __call__(self, row: Row, rounds: int) -> None:
        self.show(row.round, rounds, described(row))


def described(row: Row) -> str:
    """The losses and accuracies that were measured in a round, as text."""
    values = {
        "test loss": f"{row.test_loss:.4g}",
        "test accuracy": f"{row.test_accuracy:.2%}",
        "train loss": f"{row.train_loss:.4g}",
        "client accuracy": f"{row.client_accuracy:.2%}",
        "personal accuracy": f"{row.personal_accuracy:.2%}",
    }
    known = [f"{name} {text}" for name, text in values.items() if not isnan(getattr(row, name.replace(" ", "_")))]
    return ", ".join(known) or "no test set, so nothing is measured"


class CaseProgress(Reporter):
    """The progress callback of `verify_all`."""

    def __init__(self) -> None:
        super().__init__(unit="")
        self._seen = (0, 1)

    @property
    def complete(self) -> bool:
        """Whether all cases were run."""
        done, total = self._seen
        return done == total

    def __call__(self, family: str, done: int, total: int) -> None:
        self._seen = done, total
        text = "settling the verdicts" if done == total else family
        self.report(done, total, text, f"{done} of {total} cases ({family})")


# The least number of seconds of a cell. The time left is estimated from the seconds of the remaining cells, not from
# their number.
SHORTEST = 1e-6


class StudyProgress(Reporter):
    """The progress callback of `runner.run`: it shows how many cells are done, failed and left, and the time left."""

    def __init__(self, plan: Plan, seconds: Callable[[Point], float]) -> None:
        self.done, self.failed, self.total = len(plan.kept), 0, plan.total
        self._seconds = seconds
        self._work = sum(self._weight(cell) for cell in plan.todo)
        self._worked = self._worked_first = 0.0
        self._first = 0.0  # time of the first report, after which the time left is estimated
        super().__init__(text=self.text, total=self._work)

    @property
    def text(self) -> str:
        """The state of the study in one line."""
        remaining = self.total - self.done - self.failed
        parts = [f"{self.done} of {self.total} cells", f"{self.failed} failed", f"{remaining} remaining"]
        if remaining and self._worked > self._worked_first:
            pace = (time.monotonic() - self._first) / (self._worked - self._worked_first)
            parts.append(f"{span(pace * (self._work - self._worked))} left")
        return ", ".join(parts)

    def __call__(self, cell: Cell, status: Status) -> None:
        failed = status == "failed"
        self.failed += failed
        self.done += not failed
        self._worked += self._weight(cell)
        if not self._first:
            self._first, self._worked_first = time.monotonic(), self._worked
        self.report(self._worked, self._work, self.text, self.text)

    def _weight(self, cell: Cell) -> float:
        return max(self._seconds(cell.point), SHORTEST)


def span(seconds: float) -> str:
    """A duration in words."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1g} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
