"""Run a study in one call, which measures and stores its cells, and returns its results and answers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import xarray

from bounds import Outcome
from experiments.studies.grid import Grid, chosen_grid
from experiments.studies.results import gathered, write
from experiments.studies.runner import planned, run
from experiments.studies.running.dask_cluster import Cluster
from experiments.studies.study import SEED, Answer
from experiments.studies.study_folder import StudyFolder
from ntkfl import interruption
from ntkfl.messages import number_of

UNSETTLED = (Outcome.UNRESOLVED, Outcome.UNTESTED)
# An answer is stuck if with four times the seeds more than this share of its error is left. If the error were noise
# alone, half of it would be left.
STUCK = 0.9


def run_study(
    name: str,
    out: Path,
    axes: Mapping[str, str] | None = None,
    processes: int | None = None,
    cluster: Cluster | None = None,
    until_resolved: float | None = None,
) -> tuple[xarray.Dataset, tuple[Answer, ...]]:
    """Run a study, and return its results and answers.

    Results and answers are also written to the folder of the cells, as by `ntkfl study run`.

    Args:
        name: name of the study, or the path of your file.
        out: the study's folder; a second call with the same folder continues the run.
        axes: values that replace the study's own, as text, by the option of the axis: {"widths": "64,128", "seeds":
            "4"}; default none.
        processes: number of processes on this machine, as in `runner.run`; default the number of cores.
        cluster: a cluster that measures the cells, as in `runner.run`; default this machine.
        until_resolved: if given, seeds are added until further seeds cannot settle any answer, or until the cells have
            taken this many seconds of processor time together; default: the seeds of the axis.

    Returns: the results, and the answers to the study's questions.

    Raises:
        ValueError, OSError: the study or an option is unknown, or the folder is another study's. RunStopped: the run
            cannot go on.
    """
    folder = StudyFolder(Path(out))

    def measure(grid: Grid) -> int:
        run(grid, folder.store, planned(grid, folder.store).todo, processes, cluster)
        return len(planned(grid, folder.store).todo)

    grid = chosen_grid(name, axes)
    folder.begin(grid)
    _, cells, answers, _ = measured_until(grid, folder, measure, until_resolved)
    return cells, answers


def measured_until(
    grid: Grid,
    folder: StudyFolder,
    measure: Callable[[Grid], int],
    budget: float | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> tuple[Grid, xarray.Dataset, tuple[Answer, ...], int]:
    """Measure a grid and, if there is a budget, add seeds as long as further seeds may settle an answer.

    Args:
        grid: the study and its cells.
        folder: the study's folder.
        measure: a function that measures a grid's cells and returns the number of failures.
        budget: processor time for all cells together, in seconds; None: no seeds are added.
        tell: a function that is called with sentences on the next number of seeds, or on the reason to stop; default:
            none.

    If there is a budget, one seed is measured first. If this seed takes longer than the budget, no other seed is added.
    No seeds are added for an answer whose error did not shrink with four times the seeds.

    Returns: the last grid, its results, its answers (none if there is no cell), and the number of cells that failed.

    Raises:
        OSError: the folder cannot be written.
    """
    errors: dict[int, dict[str, float]] = {}  # the error of each answer, by the number of seeds and then by the claim
    if budget is not None:
        grid = _affordable(grid, folder, measure, budget, tell)
    while True:
        interruption.check()
        failed = measure(grid)
        cells = kept_results(grid, folder)
        answers = () if is_empty(cells) else grid.study.answers(cells)
        if not is_empty(cells):
            folder.write_answers(grid, answers)
        left = [answer for answer in answers if answer.outcome in UNSETTLED]
        if budget is None or failed or not left:
            return grid, cells, answers, failed
        sentence = f"{len(left)} of {len(answers)} answers are not settled with {number_of(grid.shape[-1], 'seed')}"
        seeds = grid.shape[-1]
        errors[seeds] = {answer.claim: float(answer.measured.error) for answer in left if answer.measured is not None}
        stuck = [answer for answer in left if SEED in answer.settled_by and _is_stuck(answer.claim, seeds, errors)]
        others = [answer for answer in left if answer not in stuck]
        if not any(SEED in answer.settled_by for answer in others):
            known = (
                [f"{len(stuck)} {'is' if len(stuck) == 1 else 'are'} no more precise with four times the seeds"]
                if stuck
                else []
            )
            known += [_asked_for(grid, others)] if others else []
            tell(f"{sentence}, and no number of them would do: {'; '.join(known)}")
            return grid, cells, answers, failed
        most = int(budget * seeds / max(planned(grid, folder.store).seconds_kept, 1e-9))
        if most <= seeds:
            tell(f"{sentence}, and more would take the cells beyond {budget:g} s of processor time")
            return grid, cells, answers, failed
        grid = grid.with_seeds(min(2 * seeds, most))
        tell(f"{sentence}: {grid.shape[-1]} are next")
        folder.begin(grid)


def _affordable(
    grid: Grid, folder: StudyFolder, measure: Callable[[Grid], int], budget: float, tell: Callable[[str], None]
) -> Grid:
    """The grid with as many of its seeds as the budget allows.

    The cells of the first seed are measured here, and the number of seeds is estimated from the time that they take.
    """
    if not planned(grid, folder.store).todo:
        return grid
    one, seeds = grid.with_seeds(1), grid.shape[-1]
    plan = planned(one, folder.store)
    if plan.todo:
        estimate = sum(grid.study.seconds(cell.point) for cell in plan.todo)
        first = f"one seed first: {number_of(len(plan.todo), 'cell')}, some {estimate:.2g} s of processor time"
        beyond = f"more than the budget of {budget:g} s; fewer values of the axes make it less"
        within = f"and the budget of {budget:g} s holds to within one seed"
        tell(f"{first} by the study's own estimate, {beyond if estimate > budget else within}")
        folder.begin(one)
        if measure(one):
            return one
    cost = planned(one, folder.store).seconds_kept
    most = seeds if cost == 0 else max(1, int(budget / cost))
    if cost > budget:
        tell(f"one seed takes {cost:.3g} s of processor time, more than the budget of {budget:g} s: no other is added")
    elif most < seeds:
        tell(f"one seed takes {cost:.3g} s of processor time: {most} of {seeds} seeds fit into {budget:g} s")
    grid = grid if most >= seeds else grid.with_seeds(most)
    folder.begin(grid)
    return grid


def _is_stuck(claim: str, seeds: int, errors: Mapping[int, Mapping[str, float]]) -> bool:
    """Whether the error of an answer falls more slowly with the number of seeds than an error by noise alone."""
    before = [of[claim] for fewer, of in errors.items() if 4 * fewer <= seeds and claim in of]
    return bool(before) and errors[seeds].get(claim, 0.0) > STUCK * before[-1]


def _asked_for(grid: Grid, answers: Sequence[Answer]) -> str:
    """The options whose further values may settle these answers, with the number of answers for each, in words."""
    flags = {axis.name: f"--{axis.flag}" for axis in grid.axes}
    counts = Counter(" or ".join(flags.get(name, name) for name in answer.settled_by) for answer in answers)
    return "; ".join(
        f"{count} {'asks' if count == 1 else 'ask'} for more values of {names}"
        if names
        else f"{count} {'stays' if count == 1 else 'stay'} open whatever is added"
        for names, count in counts.items()
    )


def kept_results(grid: Grid, folder: StudyFolder) -> xarray.Dataset:
    """Write the stored cells as the results of the folder, and return them.

    Earlier answers are removed, since they are about other cells.

    Args:
        grid: the study and its cells.
        folder: the study's folder.
    """
    cells = gathered(grid, folder.store)
    folder.forget_answers()
    write(cells, folder.results)
    return cells


def is_empty(cells: xarray.Dataset) -> bool:
    """Whether all cells are missing.

    Args:
        cells: cells at all points, NaN where one is missing.
    """
    return bool(cells.attrs["missing"] == cells.attrs["cells"])
