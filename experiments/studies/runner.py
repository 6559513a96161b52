"""Run a study: workers measure the missing cells until none is left.

The workers are this process, other processes, or those of a Dask cluster.
"""

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

SECONDS_TO_START = 3.0  # seconds that a worker process takes to start, since it imports the project
SECONDS_BETWEEN_LOOKS = 0.5  # seconds between two checks whether the cells of another process are measured
Report = Callable[[Cell, Status], None]


@dataclass(frozen=True)
class Plan:
    """The cells of a grid by their state.

    `damaged` says which files of cells are damaged, and how.
    """

    todo: tuple[Cell, ...]
    kept: tuple[Cell, ...]
    damaged: tuple[str, ...]
    seconds_kept: float

    @property
    def total(self) -> int:
        """The number of cells of the grid."""
        return len(self.todo) + len(self.kept)


def planned(grid: Grid, store: CellStore | None) -> Plan:
    """Look at the file of every cell, and return which cells are measured and which are missing.

    Missing cells are ordered by the time that they take, with the longest first, so that no worker idles at the end.

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
    """Raise an error if the largest cells, by the study's own estimates, do not fit into this machine's memory.

    Args:
        grid: the study and its cells.
        todo: the missing cells.
        processes: number of worker processes; default: the number of cores.

    Raises:
        TooLittleMemory: the message says which sizes, or which number of processes, would fit.
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
    """Measure and store cells, and wait for cells that another process measures.

    If measuring a cell fails, the failure is stored.

    Args:
        grid: the study and its cells.
        store: the folder of the cells.
        todo: the missing cells.
        processes: number of processes on this machine; None: as many as there are cores, or only this process if
            starting others takes longer than the cells.
        cluster: a cluster that measures the cells; default: this machine measures them.
        report: a function that is called with each cell and its result; default: none.

    Raises:
        RunStopped: the disk is full, a worker has another version of the code, or the connection to the scheduler is
            lost. Stored cells are kept.
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
