"""Rows of measurements in a JSON file, one row a line, for the scripts that write tables from them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def kept(path: Path) -> list[Row]:
    """The rows of the file."""
    return json.loads(path.read_text(encoding="utf-8"))


def keep(path: Path, rows: Sequence[Row], row: Row, point: Sequence[str], order: Callable[[Row], tuple]) -> None:
    """Write these rows and one more in their order; it takes the place of one with the same values of `point`."""
    others = [other for other in rows if any(other[name] != row[name] for name in point)]
    lines = [json.dumps(other) for other in sorted([*others, row], key=order)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
