"""Checks shared by the tests of those scripts of `docs` that keep measured rows beside a page."""

from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure


def lines_of(figure: Figure) -> list[str]:
    """Returns the points of each line as text, so that a missing point (NaN) equals itself."""
    return [str(line.get_xydata().tolist()) for axes in figure.axes for line in axes.lines]


def own_rows(script: ModuleType, changed: str) -> list[dict]:
    """Returns the stored rows.

    Asserts that the rows are in order, that no row occurs twice, that the page shows them, and that other rows would
    change the page.
    """
    page, rows = script.PAGE.read_text(encoding="utf-8"), script.kept()
    assert script.written(page, rows) == page
    assert sorted(rows, key=script.order) == rows and len({str(script.order(row)) for row in rows}) == len(rows)
    other = [
        row | {changed: [2 * v for v in row[changed]] if isinstance(row[changed], list) else 2 * row[changed]}
        if row.get(changed)
        else row
        for row in rows
    ]
    assert script.written(page, other) != page
    return rows


def measured_again(script: ModuleType, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict, dict]:
    """Returns the stored row that `words` name, and the same row measured again.

    The new row is given to `keep` twice. Asserts that the file then has this row once.
    """
    wanted = script.point(words)
    (stored,) = (row for row in script.kept() if all(row[name] == wanted[name] for name in script.POINT))
    monkeypatch.setattr(script, "ROWS", folder / "rows.json")
    script.ROWS.write_text("[]", encoding="utf-8")
    again = script.measured(wanted)
    script.keep(again)
    script.keep(again)
    (kept,) = script.kept()
    assert kept.items() >= again.items()
    return stored, kept
