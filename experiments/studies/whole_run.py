"""A study in one call: its cells measured and kept, its results and its answers."""

from collections.abc import Mapping
from pathlib import Path

import xarray

from experiments.studies.grid import Grid, chosen_grid
from experiments.studies.results import gathered, write
from experiments.studies.runner import planned, run
from experiments.studies.running.dask_cluster import Cluster
from experiments.studies.study import Answer
from experiments.studies.study_folder import StudyFolder


def run_study(
    name: str,
    out: Path,
    axes: Mapping[str, str] | None = None,
    processes: int | None = None,
    cluster: Cluster | None = None,
) -> tuple[xarray.Dataset, tuple[Answer, ...]]:
    """The results of a study and its answers, as `ntkfl study run` leaves them in the folder; cells there are kept.

    Args:
        name: of the study, or the path of your file.
        out: its folder; the same again goes on.
        axes: other values, by option and as text: {"widths": "64,128", "seeds": "4"}.
        processes: on this machine, as in `runner.run`.
        cluster: measures in place of this machine, as in `runner.run`.

    Returns: the results, and the answers to the study's questions.

    Raises:
        ValueError, OSError: an unknown study or option, a folder of another. RunStopped: the run cannot go on.
    """
    grid, folder = chosen_grid(name, axes), StudyFolder(Path(out))
    folder.begin(grid)
    run(grid, folder.store, planned(grid, folder.store).todo, processes, cluster)
    cells = kept_results(grid, folder)
    if is_empty(cells):
        return cells, ()
    answers = grid.study.answers(cells)
    folder.write_answers(grid, answers)
    return cells, answers


def kept_results(grid: Grid, folder: StudyFolder) -> xarray.Dataset:
    """The cells that are there, gathered and written as the folder's results; earlier answers were of others.

    Args:
        grid: the study and its cells.
        folder: of the study.
    """
    cells = gathered(grid, folder.store)
    folder.forget_answers()
    write(cells, folder.results)
    return cells


def is_empty(cells: xarray.Dataset) -> bool:
    """Whether no cell is there.

    Args:
        cells: of all points, NaN where one is missing.
    """
    return bool(cells.attrs["missing"] == cells.attrs["cells"])
