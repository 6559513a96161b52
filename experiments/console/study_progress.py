"""The progress of a study, on stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from experiments.console.progress_bar import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.studies.runner import Plan
    from experiments.studies.running.cell import Cell
    from experiments.studies.running.measuring import Status
    from experiments.studies.study import Point

SHORTEST = 1e-6  # least seconds of a cell; the time left follows from the seconds of remaining cells, not their number


class StudyProgress(Reporter):
    """The report of `runner.run`: cells done, failed and remaining, and the time left."""

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
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1g} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
