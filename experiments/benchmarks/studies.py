"""The cost of running a study: the overhead of a cell on this machine, and the speed of two Dask workers over one.

Run `python -m experiments.benchmarks.studies` (about a minute on 2 idle cores). On a machine that others use too, two
processes may be no faster than one: bare processes are timed for comparison. This file is also the study that is run:
its cells do nothing, or hash a given number of MiB.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from experiments.studies.grid import Grid, chosen_grid
from experiments.studies.runner import Workers, planned
from experiments.studies.running.dask_cluster import Cluster, DaskCluster
from experiments.studies.running.local_processes import InProcess, LocalProcesses
from experiments.studies.study import Axis, Measured, Point, Quantity, Study
from experiments.studies.study_folder import StudyFolder

SPEC = str(Path(__file__).resolve())
BLOCK = bytes(2**20)


def measure(point: Point) -> Measured:
    """Hash a number of MiB, and give the digest as a number."""
    digest = hashlib.sha256()
    for _ in range(int(point["work"])):
        digest.update(BLOCK)
    digest.update(str(point["number"]).encode())
    return {"digest": float(int.from_bytes(digest.digest()[:6], "big"))}


STUDY = Study(
    name="benchmark",
    question="What does running a study cost?",
    source="this file",
    axes=(Axis("work", (0,), "hashed", "MiB"), Axis("number", (0,), "of the cell", option="numbers")),
    quantities=(Quantity("digest", "first six bytes of the hash"),),
    measure=measure,
    summarise=lambda cells: (),
    seconds=lambda point: 1e-3 * int(point["work"]),
    megabytes=lambda point: 200.0,
)


def grid_of(work: int, count: int) -> Grid:
    """A grid of `count` cells, each with this amount of work."""
    return chosen_grid(SPEC, {"work": str(work), "numbers": ",".join(map(str, range(count)))})


def wall(grid: Grid, folder: StudyFolder, workers: Workers) -> float:
    """Seconds that workers take for the cells of a grid, after each has done a first cell."""
    begun = time.perf_counter()
    statuses = [str(status) for _, status in workers.run(planned(grid, folder.store).todo)]
    if set(statuses) != {"done"}:
        raise RuntimeError(f"cells came out as {set(statuses)}; all must be done")
    return time.perf_counter() - begun


@contextmanager
def cluster(workers: int) -> Iterator[Cluster]:
    """A scheduler and `workers` workers, each a process with one thread."""
    options = ("--host", "127.0.0.1", "--no-dashboard")
    processes = [_dask("scheduler", "--port", "0", *options)]
    try:
        assert processes[0].stderr
        address = next(line.split()[-1] for line in processes[0].stderr if "Scheduler at:" in line)
        processes += [
            _dask("worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny") for _ in range(workers)
        ]
        yield Cluster(address)
    finally:
        for process in processes:
            with process:
                process.kill()


def _dask(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dask", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


BARE = "import hashlib, sys; d = hashlib.sha256(); b = bytes(2**20); [d.update(b) for _ in range(int(sys.argv[1]))]"


def bare(work: int, count: int) -> float:
    """Seconds that `count` processes take for the same hashing without a scheduler: the machine's own speed."""
    begun = time.perf_counter()
    processes = [subprocess.Popen([sys.executable, "-c", BARE, str(work // count)]) for _ in range(count)]
    for process in processes:
        process.wait()
    return time.perf_counter() - begun


def overhead(cells: int, there: Path) -> None:
    """Print the time of a cell that does nothing, in this process and in worker processes."""
    idle, folder = grid_of(0, cells), StudyFolder(there / "here")
    with InProcess(SPEC, folder.store) as here:
        print(f"in this process: {1e3 * wall(idle, folder, here) / cells:.2f} ms a cell")
    for count in (1, 2):
        folder = StudyFolder(there / f"{count} processes")
        with LocalProcesses(SPEC, folder.store, count) as local:
            wall(grid_of(1, 4), folder, local)
            print(f"{count} worker process(es): {1e3 * wall(idle, folder, local) / cells:.2f} ms a cell")


def speed_up(work: int, cells: int, repeats: int, there: Path) -> None:
    """Print the times of one and two Dask workers for the same cells, in turns, and the ratio of the shortest."""
    times: dict[int, list[float]] = {1: [], 2: []}
    alone: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        clusters = {}
        for count in times:
            folder = StudyFolder(there / f"{count} Dask workers")
            dask = stack.enter_context(DaskCluster(SPEC, folder.store, stack.enter_context(cluster(count))))
            dask.wait_for_workers(count)
            wall(grid_of(1, 4 * count), folder, dask)
            clusters[count] = dask
        for repeat in range(repeats):
            for count, dask in clusters.items():
                folder = StudyFolder(there / f"{count} Dask workers, {repeat}")
                dask.store = folder.store
                times[count].append(wall(grid_of(work, cells), folder, dask))
                alone[count].append(bare(work * cells, count))
    print(f"two bare processes are {min(alone[1]) / min(alone[2]):.2f} times one")
    for count, times_of in times.items():
        print(f"{count} Dask worker(s): {', '.join(f'{seconds:.1f}' for seconds in times_of)} s for {cells} cells")
    print(f"two Dask workers are {min(times[1]) / min(times[2]):.2f} times one")


def main() -> None:
    """Print overhead and speed-up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000, help="cells that do nothing")
    parser.add_argument("--long-cells", type=int, default=20, help="cells that hash, for the Dask workers")
    parser.add_argument("--work", type=int, default=300, help="MiB that each of those hashes")
    parser.add_argument("--repeats", type=int, default=3, help="turns of the Dask workers")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as there:
        overhead(chosen.cells, Path(there))
        speed_up(chosen.work, chosen.long_cells, chosen.repeats, Path(there))


if __name__ == "__main__":
    main()
