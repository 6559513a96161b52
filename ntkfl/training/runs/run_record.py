"""The rounds of a run as they are done: kept in memory, and in the run's folder where it has one."""

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ntkfl.training.checkpoint import Checkpoint
from ntkfl.training.engine.federation import State
from ntkfl.training.metrics import ROWS, Row, append_row, rows_digest, write_rows
from ntkfl.training.run_folder import RunFolder


class RunRecord:
    """Rows and states of a run, in a folder that has a checkpoint first and is locked until `close`, or nowhere (None).

    Raises:
        OSError: the folder cannot be written, or another run is under way in it.
    """

    def __init__(
        self,
        folder: RunFolder | None,
        every: int,
        run: dict[str, Any],
        provenance: dict[str, Any],
        loss: str,
        state: State,
        rows: Sequence[Row] = (),
    ) -> None:
        self.rows = list(rows)
        self._folder, self._every, self._run, self._provenance = folder, every, run, provenance
        self._state = state  # the last one whose row is written
        self._kept: State | None = None
        self.close: Callable[[], object] = lambda: None
        if folder:
            self.close = weakref.finalize(self, os.close, folder.lock())  # closes once, at the latest with this object
            if folder.checkpoint.is_file():  # before the checkpoint, so that it never tells of fewer rounds
                folder.describe(run["config"])
            self.keep()
            folder.describe(run["config"])
            write_rows(folder.metrics, loss, self.rows)

    def add(self, row: Row, state: State) -> None:
        """Add a row and its state. The row comes first: a resumed run drops rows that are ahead of its checkpoint."""
        if self._folder:
            append_row(self._folder.metrics, row)
        self.rows.append(row)
        self._state = state
        if state.rounds % self._every == 0:
            self.keep()

    def keep(self) -> None:
        """Write the last state, unless that has been done."""
        if self._folder and self._state is not self._kept:
            run = self._run | {ROWS: rows_digest(self.rows)}
            Checkpoint(self._state, run, self._provenance).save(self._folder.checkpoint)
            self._kept = self._state
