"""The cells of a study, that is, its single measurements, compared with the same computation without a study.

Cells are measured in this process, in other processes and on a Dask cluster.

This file is also the file of the study that is run. Its cells do nothing, or hash a given number of MiB.
"""

import hashlib
import math
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from experiments.benchmarks.workload import Call, Candidate, Sizes, Timed, Workload
from experiments.studies.study import Axis, Measured, Point, Quantity, Study

SPEC = str(Path(__file__).resolve())
BLOCK = bytes(2**20)


def measure(point: Point) -> Measured:
    """Hash a number of MiB, and return the digest as a number."""
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


def _in_process(store):
    from experiments.studies.running.local_processes import InProcess

    return InProcess(SPEC, store)


def _in_processes(store, count: int):
    from experiments.studies.running.local_processes import LocalProcesses

    return LocalProcesses(SPEC, store, count)


@contextmanager
def _on_dask(store, count: int):
    from distributed import LocalCluster

    from experiments.studies.running.dask_cluster import Cluster, DaskCluster

    with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as machines:
        with DaskCluster(SPEC, store, Cluster(machines.scheduler_address)) as workers:
            workers.wait_for_workers(count)
            yield workers


def _by(workers: Callable) -> Callable[[Sizes], Call]:
    """Measure the cells by these workers, and store them in a new folder.

    The clock starts once the workers have done some other cells.
    """

    def build(sizes: Sizes) -> Call:
        from experiments.studies.grid import chosen_grid
        from experiments.studies.running.cell_store import CellStore

        count = sizes["cells"]
        cells, first = (
            list(chosen_grid(SPEC, {"work": str(sizes["MiB"]), "numbers": ",".join(map(str, numbers))}).cells())
            for numbers in (range(count), range(count, count + 4))
        )

        def work():
            with tempfile.TemporaryDirectory() as there:
                store = CellStore(Path(there))
                with workers(store) as running:
                    list(running.run(first))
                    begun = time.perf_counter()
                    statuses = {str(status) for _, status in running.run(cells)}
                    clock = time.perf_counter() - begun
                if statuses != {"done"}:
                    raise RuntimeError(f"cells came out as {statuses}; all must be done")
                digests = [store.kept(cell).arrays["digest"] for cell in cells]  # type: ignore[union-attr]
            return Timed(digests, clock, math.nan)  # the processor time of other processes is not known

        return work

    return build


def _bare(sizes: Sizes) -> Call:
    """The hashing alone, in this process and without a study."""
    points = [{"work": sizes["MiB"], "number": number} for number in range(sizes["cells"])]
    return lambda: [measure(point)["digest"] for point in points]


WORKLOAD = Workload(
    name="study-cells",
    says="cells of a study that hash some MiB each; the limit hashes as much and stores nothing",
    sizes=({"cells": 1000, "MiB": 0}, {"cells": 20, "MiB": 300}),
    candidates=(
        Candidate("ntkfl", _by(_in_process), "ours"),
        *(Candidate(f"{n} processes", _by(partial(_in_processes, count=n)), "also ours") for n in (1, 2)),
        *(Candidate(f"{n} Dask workers", _by(partial(_on_dask, count=n)), "also ours", "distributed") for n in (1, 2)),
        Candidate("bare hashing", _bare, "limit"),
    ),
    along="cells",
    tolerance=0.0,
)
