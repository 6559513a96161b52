"""How far a command is, on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS_BETWEEN_LINES = 5.0


class ProgressBar:
    """A context in which `show` says how much is done; the first line is said at once, and the last one always.

    Args:
        unit: what is counted: "rounds", "cases".
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._next_line = time.monotonic()
        self._bar = _bar(unit) if sys.stderr.isatty() else None
        self._task = self._bar.add_task("starting", total=None) if self._bar else None

    def show(self, done: int, total: int, text: str) -> None:
        """So many of so many, and what is to be read beside them."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, completed=done, total=total)
        elif time.monotonic() >= self._next_line or done == total:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            typer.echo(f"{done} of {total} {self._unit}: {text}", err=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar(unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counts = MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn()
    columns = BarColumn(bar_width=30), *counts, TextColumn("{task.description}")
    return Progress(*columns, console=Console(stderr=True), transient=True)
