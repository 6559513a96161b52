"""How far a verification is, on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType

import typer

SECONDS_BETWEEN_LINES = 5.0


class CaseProgress:
    """The progress callback of `verify_all`; `complete` says whether every case was run."""

    def __init__(self) -> None:
        self._seen = (0, 1)
        self._next_line = time.monotonic()  # the first case is said at once: the work has begun
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("starting", total=None) if self._bar else None

    @property
    def complete(self) -> bool:
        """Whether all cases were run."""
        done, total = self._seen
        return done == total

    def __call__(self, family: str, done: int, total: int) -> None:
        self._seen = done, total
        if self._bar is not None and self._task is not None:
            description = "settling the verdicts" if done == total else family
            self._bar.update(self._task, description=description, completed=done, total=total)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            typer.echo(f"{done} of {total} cases ({family})", err=True)

    def __enter__(self) -> CaseProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar():
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=Console(stderr=True), transient=True)
