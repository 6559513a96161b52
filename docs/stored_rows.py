"""Rows of measurements in a JSON file, one row a line, for the scripts that write tables from them."""

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def kept(path: Path) -> list[Row]:
    """The rows of the file."""
    return json.loads(path.read_text(encoding="utf-8"))


def keep(path: Path, rows: Sequence[Row], row: Row, point: Sequence[str], order: Callable[[Row], tuple]) -> None:
    """Write these rows and `row` in their order; `row` replaces a row with the same values of `point`."""
    others = [other for other in rows if any(other[name] != row[name] for name in point)]
    lines = [json.dumps(other) for other in sorted([*others, row], key=order)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def with_tables(page: str, tables: Iterable[tuple[str, Sequence[str]]], mark: str = "") -> str:
    """The page with these lines below its tables' heads; tables are in the page's order, and `mark` begins each line.

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
    """The rows of these points, each measured in a separate process, whose peak memory is thus that of the row."""
    for point in points:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            yield alone.submit(measured, point).result()


def asked(about: str | None, row: str) -> list[str]:
    """The rows named after --measure; an empty list if the page is to be written."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="+", default=[], metavar="ROW", help=repr(row))
    return parser.parse_args().measure
