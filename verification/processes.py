"""Many statements checked by several processes, with the verdicts that one process would give.

The worker processes are forked from a process that has imported the code and has computed nothing, because JAX does not
survive a fork once it has computed something. Each worker uses one thread for linear algebra.
"""

import json
import multiprocessing
import os
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from bounds import Form, Options, Statement, catalogue
from bounds.listing import loaded_files
from ntkfl import interruption
from ntkfl.exact_dynamics import UnstableSteps
from ntkfl.messages import require_size
from verification.cores import cores
from verification.engine import Progress, chosen_forms, verify_all
from verification.judging.check import begun
from verification.verdict import Verdict
from verification.workers.units import Unit, kept_apart, next_for, units
from verification.workers.worker import STOP, serve

WORTHWHILE = 20.0  # with less work than these seconds, starting processes costs more than it saves
PRELOADED = "verification.workers.preloaded"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ProcessEnded(RuntimeError):
    """A process ended before the statements it was checking had their verdicts."""


def start_server() -> None:
    """Start the process from which workers are forked, unless it runs; its imports run while the caller goes on."""
    with _for_a_worker():
        forkserver.set_forkserver_preload([PRELOADED])
        forkserver.ensure_running()


def verify_in_processes(
    statements: Iterable[Statement],
    options: Options,
    forms: Iterable[Form] | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[Verdict]:
    """Verdicts as `verify_all` returns them, computed by several processes, or by this process if that is as fast.

    Statements that other processes cannot look up, because the catalogue lacks their ids or has other statements with
    these ids, are checked in this process. If a process ends early (killed, or out of memory), the verdicts on its
    statements say so, and the other processes go on.

    Args:
        statements: the statements to check.
        options: data, sizes, steps and seed of the cases.
        forms: the only forms to check; default: all.
        progress: a function that is called with the family, the number of cases done and the number of all cases;
            default none.
        processes: number of processes; default one for each core.

    Raises:
        ValueError: `processes` is not positive.
    """
    require_size("processes", processes, optional=True)
    statements, forms = list(statements), None if forms is None else list(forms)
    work = units(statements, options, forms)
    short = sum(unit.seconds for unit in work) < WORTHWHILE
    count = min(processes or (1 if short else cores()), len(work))
    alone = any(catalogue().get(statement.id) is not statement for statement in statements)
    if count < 2 or options.device is not None or alone:
        return verify_all(statements, options, forms, progress)
    return _Pool(statements, options, forms, progress, work).run(count)


class _Worker:
    """A worker process, the connection to it, and the unit of work that it has."""

    def __init__(self, options: Options, forms: Sequence[Form] | None) -> None:
        context = multiprocessing.get_context("forkserver")
        self.connection, theirs = context.Pipe()
        files = [(file.name, file.source) for file in loaded_files()]
        self.process: BaseProcess = context.Process(target=serve, args=(theirs, options, forms, files), daemon=True)
        start_server()
        self.process.start()
        theirs.close()  # without this, reading would not end when the process is gone
        self.unit: Unit | None = None
        self.done = 0  # number of cases of the unit that are done
        self.loaded: frozenset[str] = frozenset()  # the libraries that the process has loaded for all its units so far

    @property
    def cases(self) -> int:
        """The number of the unit's cases, as progress counts them.

        The number of cases that are drawn may differ, because fewer cases may decide the outcomes, and some cases may
        be drawn twice.
        """
        return self.unit.cases if self.unit else 0

    def take(self, unit: Unit | None) -> None:
        """Hand out a unit; if no unit is left, the process ends."""
        self.unit, self.done = unit, 0
        if unit is not None:
            self.loaded |= unit.loads
        with suppress(OSError):  # the process has ended; reading from it reports this
            self.connection.send_bytes(json.dumps(unit.statements if unit else []).encode())


class _Pool:
    def __init__(self, statements, options: Options, forms, progress: Progress | None, work: list[Unit]) -> None:
        self.statements, self.options, self.forms, self.progress = statements, options, forms, progress
        self.waiting = deque(work)
        self.total = sum(unit.cases for unit in work)
        self.done = 0
        self.verdicts: list[Verdict] = []
        self.workers: dict[Connection, _Worker] = {}

    def run(self, processes: int) -> list[Verdict]:
        """All verdicts, in the order of the statements."""
        self.waiting = deque(kept_apart(self.waiting, processes))
        try:
            with interruption.instead(self._stop):
                while self.waiting and len(self.workers) < processes:
                    self._start()
                while self.workers:
                    for connection in wait(list(self.workers)):
                        self._hear(self.workers[connection])  # type: ignore[index]
                for unit in self.waiting:
                    self._give_up(unit, "no process was left to check it")
        finally:
            for worker in self.workers.values():
                worker.process.kill()
                worker.process.join()
        order = {key: i for i, key in enumerate((s.id, form) for s, form in chosen_forms(self.statements, self.forms))}
        return sorted(self.verdicts, key=lambda verdict: order[verdict.id, verdict.form])

    def _next(self, worker: _Worker) -> Unit | None:
        others = [other.loaded for other in self.workers.values() if other is not worker]
        waiting = list(self.waiting)
        try:
            unit = waiting[next_for(worker.loaded, frozenset[str]().union(*others), waiting)]
            self.waiting.remove(unit)
        except (IndexError, ValueError):  # Ctrl-C may empty the list at any moment
            return None
        return unit

    def _start(self) -> None:
        worker = _Worker(self.options, self.forms)
        self.workers[worker.connection] = worker

    def _hear(self, worker: _Worker) -> None:
        try:
            kind, *content = json.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):  # an OSError is raised if a message was cut in two
            return self._ended(worker)
        if kind == "case":
            worker.done += 1
            self._counted(int(worker.done <= worker.cases), *content)
        elif kind == "warning":
            of_steps, text, filename, lineno = content
            warnings.warn_explicit(text, UnstableSteps if of_steps else UserWarning, filename, lineno)
        else:
            if kind == "verdicts":
                self.verdicts += [Verdict.from_json(verdict) for verdict in content[0]]
                self._counted(max(0, worker.cases - worker.done), "decided")
            worker.take(self._next(worker))

    def _counted(self, cases: int, family: str) -> None:
        self.done += cases
        if self.progress is not None and cases:
            self.progress(family, self.done, self.total)

    def _ended(self, worker: _Worker) -> None:
        """Handle a process that is gone, either because it was told to end or without an outcome for its unit."""
        del self.workers[worker.connection]
        worker.connection.close()
        worker.process.join()
        if worker.unit is not None:
            code = worker.process.exitcode or 0
            how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
            self._give_up(worker.unit, f"the process that checked it {how}", min(worker.done, worker.cases))
            if self.waiting:
                self._start()

    def _give_up(self, unit: Unit, why: str, counted: int = 0) -> None:
        """Make verdicts without an outcome for the claims that will not be checked."""
        for statement, form in chosen_forms((s for s in self.statements if s.id in unit.statements), self.forms):
            check = begun(statement, form, self.options)
            check.fail(ProcessEnded(why))
            self.verdicts.append(check.verdict(self.options))
        self._counted(unit.cases - counted, "given up")

    def _stop(self) -> None:
        """Hand out no more units and end the running checks, whose verdicts then rest on the cases counted so far."""
        self.waiting.clear()
        for worker in self.workers.values():
            if worker.unit is None:
                worker.process.kill()  # the process may still be starting
            elif worker.process.pid is not None and worker.process.is_alive():
                with suppress(ProcessLookupError):
                    os.kill(worker.process.pid, STOP)


@contextmanager
def _for_a_worker() -> Iterator[None]:
    """Set, for a while, the state that worker processes inherit.

    The worker processes have one thread of linear algebra, import modules only from the paths of this process, and
    ignore a terminal's Ctrl-C.
    """
    given = ONE_THREAD | {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    # when multiprocessing's resource tracker starts, signals are let through again; so it starts before they are
    # blocked
    resource_tracker.ensure_running()
    try:
        with interruption.blocked():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
