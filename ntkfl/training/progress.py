"""How far a run is, on stderr: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from math import isnan
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ntkfl.training.metrics import Row

SECONDS_BETWEEN_LINES = 5.0


class RunProgress:
    """A context, called with each new row and the number of rounds."""

    def __init__(self) -> None:
        self._next_line = time.monotonic()
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("", total=None) if self._bar else None

    def __call__(self, row: Row, rounds: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=described(row), completed=row.round, total=rounds)
        elif time.monotonic() >= self._next_line or row.round == rounds:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            print(f"round {row.round} of {rounds}: {described(row)}", file=sys.stderr, flush=True)

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def described(row: Row) -> str:
    """The losses and accuracies of a row, those that were measured."""
    values = {
        "test loss": f"{row.test_loss:.4g}",
        "test accuracy": f"{row.test_accuracy:.2%}",
        "train loss": f"{row.train_loss:.4g}",
        "client accuracy": f"{row.client_accuracy:.2%}",
    }
    known = [f"{name} {text}" for name, text in values.items() if not isnan(getattr(row, name.replace(" ", "_")))]
    return ", ".join(known) or "no test set, so nothing is measured"


def _bar() -> Progress:
    columns = (
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(bar_width=30),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
