"""Write the table of times of random rounds in performance.md: `python docs/random_rounds_times.py`.

random_rounds_times.json has a row for each question. The next command measures the named rows, one after the other and
each in a process of its own. Each row is kept as soon as it is measured:

    python docs/random_rounds_times.py --measure "scaffold 500 rate" "nesterov 200 stationary"
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import stored_rows
from stored_rows import Row

import ntkfl
from ntkfl.exact_dynamics import random_of_method
from ntkfl.limit.infinite_width import algorithm1_limit
from ntkfl.limit.random_regime import RandomRegime

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "random_rounds_times.json", HERE / "performance.md"
SIZES = 200, 500, 2000
CLIENTS, FEATURES, STEPS, NOISE = 10, 32, 5, 0.01
ROUND, RUNS = 20, 100  # the round at which sampled runs are estimated, and the number of these runs
HALF = {"participation": 0.5}
IN_TURN = {"cohorts": [range(5), range(5, CLIENTS)]}
WAYS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "fedavg": ("FedAvg", "fedavg", {}, HALF),
    "fedavg-batches": ("FedAvg, batches of 4", "fedavg", {}, HALF | {"batch_size": 4}),
    "in-turn-batches": ("FedAvg, two cohorts in turn, batches of 4", "fedavg", {}, IN_TURN | {"batch_size": 4}),
    "fedavgm": ("FedAvgM", "fedavgm", {"momentum": 0.5}, HALF),
    "nesterov": ("Nesterov", "fedavgm", {"momentum": 0.5, "nesterov": True}, HALF),
    "scaffold": ("SCAFFOLD", "scaffold", {}, HALF),
    "scaffold-batches": ("SCAFFOLD, batches of 4", "scaffold", {}, HALF | {"batch_size": 4}),
    "feddyn": ("FedDyn", "feddyn", {"alpha": 1.0}, HALF),
}
# for each quantity: the noise, and the function that computes the quantity
QUESTIONS: dict[str, tuple[float, Callable[[RandomRegime], float]]] = {
    "rate": (0.0, lambda regime: regime.rate),
    "stationary": (NOISE, lambda regime: regime.stationary_mean_square()),
    "sampled": (0.0, lambda regime: float(regime.sampled(ROUND, runs=RUNS).mean_square.value[0])),
}
POINT = "way", "n", "question"
COLUMNS = [f"{n}: {question}" for n in SIZES for question in QUESTIONS]
HEAD = "| rounds | " + " | ".join(COLUMNS) + " |"


def point(words: str) -> Row:
    """The row that the words "WAY N QUESTION" name.

    Raises:
        ValueError: the words name no row.
    """
    try:
        way, n, question = words.split()
        if way not in WAYS or question not in QUESTIONS:
            raise ValueError(f"there are {', '.join(WAYS)}, and {', '.join(QUESTIONS)}")
        return {"way": way, "n": int(n), "question": question}
    except ValueError as error:
        raise ValueError(f"{words!r} is no row ({error}); write it like 'scaffold 500 rate'") from None


def measured(of: Row) -> Row:
    """The answer at this point, with the seconds of processor and the process's peak memory in GB.

    Steps are half of the largest step at which a client alone contracts. The Gram matrix and its clients' blocks are
    decomposed before the time begins.
    """
    _, method, options, drawn = WAYS[of["way"]]
    noise, ask = QUESTIONS[of["question"]]
    for n in (5 * CLIENTS, of["n"]):  # the first computation, on few samples, imports what is needed
        base = algorithm1_limit(ntkfl.data.sphere(n=n, d=FEATURES, clients=CLIENTS), ntkfl.Setup())
        base = base.at(ntkfl.Setup(eta_local=0.5 * base.step_limits.eta_local, local_steps=STEPS))
        begun = time.process_time()
        value = ask(random_of_method(base, method, options, noise=noise, **drawn))
    seconds, memory = time.process_time() - begun, stored_rows.peak_gb()
    return of | {"value": value if math.isfinite(value) else None, "seconds": round(seconds, 3), "gb": round(memory, 3)}


def kept() -> list[Row]:
    """The rows that were measured."""
    return stored_rows.kept(ROWS)


def keep(row: Row) -> None:
    """Add the row to the file. It replaces a row of the same point."""
    stored_rows.keep(ROWS, kept(), row, POINT, order)


def order(row: Row) -> tuple[int, ...]:
    """The key by which the rows of the table are sorted."""
    return list(WAYS).index(row["way"]), row["n"], list(QUESTIONS).index(row["question"])


def table(rows: Sequence[Row]) -> list[str]:
    """The lines of the table below its head. They show seconds; the cell of a row that was not measured is empty."""
    by_point = {tuple(row[name] for name in POINT): row for row in rows}

    def cell(way: str, n: int, question: str) -> str:
        row = by_point.get((way, n, question))
        if row is None:
            return ""
        return shown(row["seconds"]) + ("" if row["value"] is not None else " (grows)")

    return [
        f"| {title} | " + " | ".join(cell(way, n, question) for n in SIZES for question in QUESTIONS) + " |"
        for way, (title, *_) in WAYS.items()
    ]


def shown(seconds: float) -> str:
    """Seconds with two digits and without a zero before the point; from 10 on as a whole number."""
    return f"{seconds:.0f}" if seconds >= 9.95 else f"{seconds:.2g}".removeprefix("0")


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with the table of these rows.

    Raises:
        ValueError: the page has no such table.
    """
    return stored_rows.with_tables(page, [(HEAD, table(rows))])


def main(words: Iterable[str]) -> None:
    """Measure these rows, or write the page."""
    points = [point(word) for word in words]
    for row in stored_rows.measured_alone(measured, points):
        keep(row)
        print(row, flush=True)
    if not points:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")


if __name__ == "__main__":
    main(stored_rows.asked(__doc__, "WAY N QUESTION").measure)
