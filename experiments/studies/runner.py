"""Run a study: workers of any kind measure the missing cells until none is left."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.studies.grid import Grid
from experiments.studies.running.cell_store import Cell, CellStore, DamagedCell
from experiments.studies.running.code_version import OtherCode
from experiments.studies.running.dask_cluster import Cluster, DaskCluster
from experiments.studies.running.local_processes import InProcess, LocalProcesses
from experiments.studies.running.measuring import RunStopped, Status
from experiments.studies.study import SEED, Point
from ntkfl.memory import require
from verification.cores import cores

SECONDS_TO_START = 3.0  # seconds to start a worker process, which imports the laboratory
SECONDS_BETWEEN_LOOKS = 0.5  # between two checks of the cells on which another process works
Report = Callable[[Cell, Status], None]


@dataclass(frozen=True)
class Plan:
    """The cells by their state; `damaged` says which files are damaged, and how."""

    todo: tuple[Cell, ...]
    kept: tuple[Cell, ...]
    damaged: tuple[str, ...]
    seconds_kept: float

    @property
    def total(self) -> int:
        """Number of cells of the grid."""
        return len(self.todo) + len(self.kept)


def planned(grid: Grid, store: CellStore | None) -> Plan:
    """Look at every cell's file; the cells to do are ordered by length, longest first, so that no worker idles.

    Args:
        grid: the study and its cells.
        store: the folder of the cells; None: there is none.
    """
    todo, kept, damaged, seconds = [], [], [], 0.0
    for cell in grid.cells():
        contents = None
        try:
            contents = store.kept(cell) if store else None
        except DamagedCell as error:
            damaged.append(str(error))
        if contents is None:
            todo.append(cell)
        else:
            kept.append(cell)
            seconds += contents.seconds
    todo.sort(key=lambda cell: -grid.study.seconds(cell.point))
    return Plan(tuple(todo), tuple(kept), tuple(damaged), seconds)


def require_memory(grid: Grid, todo: Sequence[Cell], processes: int | None) -> None:
    """Refuse a run whose largest cells, by the study's own estimates, do not fit into this machine's memory.

    Args:
        grid: the study and its cells.
        todo: the missing cells.
        processes: number of worker processes; default: the cores.

    Raises:
        TooLittleMemory: the message gives the sizes, or the number of processes, that would fit.
    """
    if not todo:
        return

    def needs(point: Point) -> float:
        return 1e6 * grid.study.megabytes(point)

    largest = max(todo, key=lambda cell: needs(cell.point)).point
    counts = {name: value for name, value in largest.items() if isinstance(value, int) and name != SEED}
    settings = ", ".join(f"{name} = {value}" for name, value in largest.items())
    require(f"the cell of {settings}", lambda **sizes: needs({**largest, **sizes}), None, "", **counts)
    sizes = sorted((needs(cell.point) for cell in todo), reverse=True)
    together = min(processes or cores(), len(todo))
    require("measuring on all processes", lambda processes: sum(sizes[:processes]), processes=together)


def run(
    grid: Grid,
    store: CellStore,
    todo: Sequence[Cell],
    processes: int | None = None,
    cluster: Cluster | None = None,
    report: Report = lambda cell, status: None,
) -> None:
    """Measure and store cells, and wait for cells that another process measures. A failure is stored as such.

    Args:
        grid: the study and its cells.
        store: the folder of the cells.
        todo: the missing cells.
        processes: number of processes on this machine; None: as many as cores, or only this process if starting others
            takes longer.
        cluster: a cluster that measures instead; default this machine.
        report: a function that is called with each cell and its result; default: none.

    Raises:
        RunStopped: the disk is full, a worker has other code, or the scheduler is lost. Stored cells stay.
    """
    left = list(todo)
    try:
        with _workers(grid, store, todo, processes, cluster) as workers:
            while left:
                busy = []
                for cell, status in workers.run(left):
                    if status is Status.BUSY:
                        busy.append(cell)
                    else:
                        report(cell, status)
                if len(busy) == len(left):
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                left = busy
    except (OSError, OtherCode) as error:
        raise RunStopped(str(error)) from error


def _workers(
    grid: Grid, store: CellStore, todo: Sequence[Cell], processes: int | None, cluster: Cluster | None
) -> InProcess | LocalProcesses | DaskCluster:
    if cluster is not None:
        return DaskCluster(grid.spec, store, cluster)
    if processes is None and sum(grid.study.seconds(cell.point) for cell in todo) < SECONDS_TO_START:
        return InProcess(grid.spec, store)
    return LocalProcesses(grid.spec, store, processes or cores())
