"""Write the tables of costs and of errors in *All of Fashion-MNIST, infinitely wide*: `python docs/limit_costs.py`.

limit_costs.json has a row for each measurement. The next commands measure the rows that they name, one after the other
and each in a process of its own. Each row is kept as soon as it is measured:

    python docs/limit_costs.py --folder TILES --measure "costs tiles 20000" "costs scaffold 20000"
    python docs/limit_costs.py --measure "errors scaffold 10000"

For costs, the first row builds the tiles (blocks of the kernel matrix) in a file of the folder, and the other rows open
that file. A row has two times: the time until the first round, and the time of ten rounds. Until the first round the
clients' blocks, limits of the step sizes, and error bounds are computed. Each time is given in processor seconds and in
wall-clock seconds. A row also has the process's peak memory, with the pages of the file, and the load of the machine at
the end. For errors, tiles in float32 and float64 are compared with the whole matrix in float64.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import stored_rows
from stored_rows import Row

from ntkfl import Problem, Setup, data, gram, kernel_regime
from ntkfl.exact_dynamics import algorithm1_limit, of_method
from ntkfl.gram.threads import blas_threads
from ntkfl.gram.tiles import Tiles
from ntkfl.limit_curves import limit_curves

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "limit_costs.json", HERE / "pages" / "infinitely_wide.py"
CLIENTS, PARTITION, STEPS = 100, "dirichlet:0.3", 5
TIMED, COMPARED = 10, (1, 10, 100)  # number of rounds that are timed, and the rounds at which errors are compared
METHODS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "fedavg": ("FedAvg", "fedavg", {}),
    "scaffold": ("SCAFFOLD", "scaffold", {}),
    "feddyn": ("FedDyn, alpha 5", "feddyn", {"alpha": 5.0}),
    "fedavgm": ("momentum .9 at the server", "fedavgm", {"momentum": 0.9}),
}
# FedAvg's server rate with the smallest residual after 100 rounds, found in the Krylov space
TUNED = {20_000: 2.6, 60_000: 3.17}
QUESTIONS = {"costs": ["tiles", *METHODS, "tuned"], "errors": list(METHODS)}
POINT = "question", "images", "method"
HEADS = {
    "costs": "| images | | processor: until the first round | ten rounds | clock: until the first round | ten rounds "
    "| memory | load |",
    "errors": "| | round | float32: residual off | bound | an entry off | bound | movement off | bound "
    "| float64: residual off | bound |",
}


def point(words: str) -> Row:
    """The row that the words "QUESTION METHOD IMAGES" name.

    Raises:
        ValueError: the words name no row.
    """
    try:
        question, method, images = words.split()
        if method not in QUESTIONS.get(question, []) or int(images) < CLIENTS:
            those = "; ".join(f"{name} of {', '.join(methods)}" for name, methods in QUESTIONS.items())
            raise ValueError(f"there are {those}; and at least {CLIENTS} images")
        if method == "tuned" and int(images) not in TUNED:
            raise ValueError(f"steps are tuned for {', '.join(map(str, TUNED))} images")
        return {"question": question, "images": int(images), "method": method}
    except ValueError as error:
        raise ValueError(f"{words!r} is no row ({error}); write it like 'costs scaffold 20000'") from None


def problem(images: int) -> Problem:
    """This number of images of Fashion-MNIST, drawn as in a run with 10,000 test images."""
    test = min(10_000, 70_000 - images)
    own = data.fashion_mnist(images, target="one-hot", clients=CLIENTS, partition=PARTITION, test=test)
    return replace(own, x_test=None, y_test=None)


def measured(of: Row, folder: Path | None = None) -> Row:
    """The row at this point.

    Raises:
        ValueError: costs are to be measured, but no folder is given. Or the costs of a method are to be measured, but
            the file of the tiles does not exist. Or the costs of the tiles are to be measured, but the file of the
            tiles exists already.
    """
    if of["question"] == "errors":
        return of | compared(problem(of["images"]), of["method"], COMPARED)
    if folder is None:
        raise ValueError("the tiles have no folder; name it with --folder")
    own, file = problem(of["images"]), folder / f"tiles-{of['images']}.bin"
    if of["method"] == "tiles" and file.exists():
        raise ValueError(f"{file} is there already, and its build is not measured; remove it, or name another folder")
    if of["method"] != "tiles" and not file.exists():
        raise ValueError(f"there are no tiles in {file}; measure 'costs tiles {of['images']}' first")
    row = of | timed(own, of, file)
    load = round(os.getloadavg()[0], 1)
    return row | {"gb": round(stored_rows.peak_gb(), 2), "load": load, "threads": blas_threads()}


def named(of: Row) -> tuple[str, str, dict[str, Any]]:
    """The method's title in the tables, its name and its options."""
    if of["method"] == "tuned":
        return f"FedAvg, server rate {TUNED[of['images']]:g}", "fedavg", {"server_rate": TUNED[of["images"]]}
    return METHODS[of["method"]]


def timed(own: Problem, of: Row, file: Path) -> Row:
    """Two times, each in processor seconds and wall-clock seconds.

    `before` is the time until the first round, and `rounds` is the time of the rounds. For the tiles, `before` is the
    time of their computation.
    """
    marks = [now()]
    if of["method"] == "tiles":
        Tiles.of(gram.infinite, own.x, "float32", file)
        return {"before": between(marks[0], now()), "rounds": None}
    _, name, options = named(of)
    limit_curves(
        own, [TIMED], None, name, options, tiles="float32", memmap=file, progress=lambda done, _: marks.append(now())
    )
    begun, first, *_, last = marks  # the times before the call, after 0 rounds, after 1 round, ...
    return {"before": between(begun, first), "rounds": between(first, last)}


def now() -> tuple[float, float]:
    """The processor seconds of this process, and the wall clock in seconds."""
    return time.process_time(), time.perf_counter()


def between(begun: tuple[float, float], end: tuple[float, float]) -> list[float]:
    """The seconds from `begun` to `end`, which are times as `now` returns them."""
    return [round(late - early, 2) for early, late in zip(begun, end, strict=True)]


def compared(own: Problem, method: str, rounds: Sequence[int]) -> Row:
    """The errors of tiles after these rounds, and their bounds. The whole matrix in float64 counts as the truth.

    Errors of residuals are divided by |y|, and errors of movements by the movement. The largest error of an entry of
    the residual is not divided.
    """
    begun, t, (_, name, options) = time.process_time(), np.array(rounds), METHODS[method]
    base = algorithm1_limit(own, Setup(local_steps=STEPS))
    setup = Setup(eta_local=float(f"{base._local_limit() / 2:.4g}"), local_steps=STEPS)
    whole = of_method(replace(base, setup=setup), name, options)
    residual, moved = whole._both(own.y, t)
    movement, size = np.array([np.sqrt(np.vdot(c, whole.gram @ c)) for c in moved]), float(np.linalg.norm(own.y))
    del base, whole, moved
    row: Row = {"rounds": list(rounds), "eta_local": setup.eta_local}
    for dtype in ("float32", "float64"):
        tiled = kernel_regime(own, setup, None, name, options, matrix_free=dtype)
        run, far = tiled._bounded(t), tiled.movement_estimate(rounds)
        off = [state.residual - known for state, known in zip(run, residual, strict=True)]
        numbers = {
            "residual": np.array([np.linalg.norm(some) for some in off]) / size,
            "residual_bound": np.array([state.norm_error for state in run]) / size,
            "entry": np.array([np.abs(some).max() for some in off]),
            "entry_bound": np.array([state.entry_error for state in run]),
            "movement": np.abs(far.value - movement) / movement,
            "movement_bound": far.error / movement,
        }
        row |= {f"{dtype}_{name}": [float(f"{v:.3g}") for v in values] for name, values in numbers.items()}
    return row | {"seconds": round(time.process_time() - begun), "gb": round(stored_rows.peak_gb(), 2)}


def kept() -> list[Row]:
    """The rows that were measured."""
    return stored_rows.kept(ROWS) if ROWS.exists() else []


def keep(row: Row) -> None:
    """Add the row to the file. It replaces a row of the same point."""
    stored_rows.keep(ROWS, kept(), row, POINT, order)


def order(row: Row) -> tuple:
    """The key by which the rows of the tables are sorted."""
    methods = QUESTIONS[row["question"]]
    return list(QUESTIONS).index(row["question"]), row["images"], methods.index(row["method"])


def tables(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The lines of the tables below their heads."""
    lines: dict[str, list[str]] = {question: [] for question in QUESTIONS}
    for row in sorted(rows, key=order):
        lines[row["question"]] += [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in _cells(row)]
    return lines


def _cells(row: Row) -> Iterator[list[str]]:
    """The cells of the table's lines for one row."""
    title = "the tiles" if row["method"] == "tiles" else named(row)[0]
    if row["question"] == "costs":
        seconds = [f"{part[kind]:.3g}" if part else "" for kind in (0, 1) for part in (row["before"], row["rounds"])]
        yield [f"{row['images']:,}", title, *seconds, f"{row['gb']:.2g} GB", f"{row['load']:.0f}"]
    else:
        names = [f"float32_{name}" for name in ("residual", "entry", "movement")]
        names.append("float64_residual")
        for k, t in enumerate(row["rounds"]):
            numbers = [row[name + end][k] for name in names for end in ("", "_bound")]
            yield ["" if k else title, str(t), *(f"{number:.1e}".replace("e-0", "e-") for number in numbers)]


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with the tables of these rows.

    Raises:
        ValueError: the page has no such tables.
    """
    for question, table in tables(rows).items():
        page = stored_rows.with_tables(page, [(HEADS[question], table)], "# ")
    return page


def main() -> None:
    """Measure the rows that are named, or write the page."""
    given = stored_rows.asked(__doc__, "QUESTION METHOD IMAGES", folder="where the files of the tiles are, for costs")
    points = [point(words) for words in given.measure]
    for row in stored_rows.measured_alone(partial(measured, folder=given.folder), points):
        keep(row)
        print(row, flush=True)
    if not points:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")


if __name__ == "__main__":
    main()
