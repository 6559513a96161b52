"""Cells measured on this machine, in this process or in worker processes that measure one cell after another."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from threadpoolctl import threadpool_limits

from experiments.studies.running.cell_store import Cell, CellStore
from experiments.studies.running.code_version import ROOT
from experiments.studies.running.measuring import RunStopped, Status, keep, settle
from experiments.studies.running.one_thread import limit_to_one_thread
from experiments.studies.running.worker import READY
from ntkfl import interruption


class InProcess(ExitStack):
    """This process as the only worker, for grids that take less time than a process takes to start."""

    def __init__(self, spec: str, store: CellStore) -> None:
        super().__init__()
        self._spec, self._store = spec, store
        self.enter_context(threadpool_limits(1))

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Status]]:
        """Measure the cells, and yield each one with its status.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        for cell in cells:
            interruption.check()
            yield cell, settle(self._store, self._spec, cell)


class LocalProcesses(ExitStack):
    """Worker processes of one thread each.

    The processes start when cells are first given, and end with the block.
    """

    def __init__(self, spec: str, store: CellStore, count: int) -> None:
        super().__init__()
        self._spec, self._store, self._count = spec, store, count
        self._workers: list[_Worker] = []

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Status]]:
        """Measure the cells, and yield each one with its status when it is finished.

        A worker that dies is replaced, and its cell counts as failed.

        Raises:
            RunStopped: a worker cannot start, or cannot store a cell. OSError: as `CellStore.keep_failure`.
        """
        left = list(reversed(cells))
        while left or any(worker.cell for worker in self._workers):
            while len(self._workers) < min(self._count, len(cells)):
                self._workers.append(_Worker(self._store.folder, self._spec))
                self.callback(self._workers[-1].end)
            for worker in self._workers:
                if left and worker.idle:
                    worker.give(left.pop())
            interruption.check()
            for worker in select.select(self._workers, [], [])[0]:
                cell, status = worker.cell, worker.answer()
                if not worker.ready:  # the process cannot start, or has died
                    self._workers.remove(worker)
                    how = worker.last_words()
                    status = keep(self._store, cell, how) if cell else None
                if cell and status:
                    yield cell, status


class _Worker:
    """A worker process, and the cell that it measures, or None."""

    def __init__(self, folder: Path, spec: str) -> None:
        environment = dict(os.environ)
        limit_to_one_thread(environment)
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([known] if known else [])])
        self.cell: Cell | None = None
        self.ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "experiments.studies.running.worker", str(folder), spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environment,
            process_group=0,  # Ctrl-C then interrupts the run's own process alone, and that process ends its workers
        )

    def fileno(self) -> int:
        """The file descriptor for `select`, which is readable when there is an answer."""
        assert self._process.stdout
        return self._process.stdout.fileno()

    @property
    def idle(self) -> bool:
        """Whether the process waits for a cell."""
        return self.ready and self.cell is None and self._process.poll() is None

    def give(self, cell: Cell) -> None:
        """Give the process its next cell.

        If the process has died, the missing answer will show that.
        """
        assert self._process.stdin
        self.cell = cell
        with suppress(BrokenPipeError):
            self._process.stdin.write(cell.inputs.encode() + b"\n")

    def answer(self) -> Status | None:
        """The status of the worker's cell; None if the worker had no cell, or has died.

        Raises:
            RunStopped: the worker cannot continue, or died before it was ready.
        """
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            if not self.ready:
                raise RunStopped(f"a worker process cannot start: {self.last_words()}")
            self.ready = False
            return None
        message = json.loads(line)
        if "stop" in message:
            raise RunStopped(message["stop"])
        self.cell, self.ready = None, True
        return None if message["status"] == READY else Status(message["status"])

    def last_words(self) -> str:
        """How the process died, in words; to be called when there are no more answers."""
        status = self._process.wait()
        self.end()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"the worker process ended with {how}; what it printed is on the run's standard error"

    def end(self) -> None:
        """End the process; an unfinished cell is lost, while stored cells are kept."""
        with self._process:
            self._process.kill()
