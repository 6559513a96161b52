"""Rows of measurements in a JSON file, with one row on each line, for the scripts that write tables from them."""

import argparse
import json
import multiprocessing
import resource
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def kept(path: Path) -> list[Row]:
    """The rows of the file."""
    return json.loads(path.read_text(encoding="utf-8"))


def keep(path: Path, rows: Sequence[Row], row: Row, point: Sequence[str], order: Callable[[Row], tuple]) -> None:
    """Write these rows and `row`, sorted by `order`. A row with the same values of `point` is replaced by `row`."""
    others = [other for other in rows if any(other[name] != row[name] for name in point)]
    lines = [json.dumps(other) for other in sorted([*others, row], key=order)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def with_tables(page: str, tables: Iterable[tuple[str, Sequence[str]]], mark: str = "") -> str:
    """The page with these lines in place of the lines below its tables' heads.

    The tables come in the order of the page, and each line begins with `mark`.

    Raises:
        ValueError: the page has no such tables.
    """
    lines, place = page.split("\n"), 0
    for head, table in tables:
        first = lines.index(f"{mark}{head}", place) + 2
        last = next(k for k in range(first, len(lines)) if not lines[k].startswith(f"{mark}|"))
        lines[first:last] = [f"{mark}{line}" for line in table]
        place = first
    return "\n".join(lines)


def measured_alone(measured: Callable[[Row], Row], points: Iterable[Row]) -> Iterable[Row]:
    """The rows of these points.

    Each row is measured in a separate process, so that the peak memory of the process is that of the row.
    """
    for point in points:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            yield alone.submit(measured, point).result()


def asked(about: str | None, row: str, **paths: str) -> argparse.Namespace:
    """The command line's arguments.

    `measure` has the rows that are named after --measure; it is empty if the page is to be written. `paths` are further
    options by their name, with their help texts.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="+", default=[], metavar="ROW", help=repr(row))
    for name, says in paths.items():
        parser.add_argument(f"--{name}", type=Path, help=says)
    return parser.parse_args()


def peak_gb() -> float:
    """The peak memory of this process, in GB of 10^9 bytes (the system counts in units of 1024 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
