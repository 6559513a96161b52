"""The progress of a command, on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from math import isnan
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

    from ntkfl.training.metrics import Row


SECONDS_BETWEEN_LINES = 5.0


class Reporter:
    """A context in which `report` shows progress, the first line at once; a bar without a unit has no counts."""

    def __init__(self, unit: str | None = None, text: str = "starting", total: float | None = None) -> None:
        self._next_line = time.monotonic()
        self._bar = _bar(unit) if sys.stderr.isatty() else None
        self._task = self._bar.add_task(text, total=total) if self._bar else None

    def report(self, done: float, total: float, text: str, line: str, last: bool = False) -> None:
        """Move the bar; without a bar print a line, if the last line is some seconds old."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, completed=done, total=total)
        elif time.monotonic() >= self._next_line or last:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            typer.echo(line, err=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


class ProgressBar(Reporter):
    """A context in which `show` prints the number of finished items; the last line is always printed."""

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
    """A context in which a call with each new row and the number of rounds shows the progress of a run."""

    def __init__(self) -> None:
        super().__init__("rounds")

    def __call__(self, row: Row, rounds: int) -> None:
        self.show(row.round, rounds, described(row))


def described(row: Row) -> str:
    """The measured losses and accuracies of a row."""
    values = {
        "test loss": f"{row.test_loss:.4g}",
        "test accuracy": f"{row.test_accuracy:.2%}",
        "train loss": f"{row.train_loss:.4g}",
        "client accuracy": f"{row.client_accuracy:.2%}",
        "personal accuracy": f"{row.personal_accuracy:.2%}",
    }
    known = [f"{name} {text}" for name, text in values.items() if not isnan(getattr(row, name.replace(" ", "_")))]
    return ", ".join(known) or "no test set, so nothing is measured"
