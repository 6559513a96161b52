"""What `ntkfl verify --meta` says of faults planted in the library: which statement notices each, and how."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from verification.planted_faults.noticing import Noticed
from verification.tables import markdown_row, plain_table

COLUMNS = ("function", "fault", "noticed by", "verdict", "how")

HEAD = """# Faults planted in the library

One public function at a time, or a part of one, is replaced by a faulty version, and the statements that use it are
checked. Each row names the statement whose verdict changes. For an equality the last column has the value
measured with the fault, against the right one. `ntkfl verify --meta --library --markdown FILE` writes this page.
"""


def library_table(found: Sequence[Noticed]) -> Table:
    """One row a fault."""
    table = plain_table(COLUMNS, wrapped=COLUMNS, gap=1)
    for fault in found:
        table.add_row(*(Text(cell, "" if fault.id else "bold red") for cell in _cells(fault)))
    return table


def library_totals(found: Sequence[Noticed]) -> str:
    """One line: how many faults changed a verdict."""
    return f"faults planted in the library: {sum(one.id is not None for one in found)}/{len(found)} change a verdict"


def unnoticed(found: Sequence[Noticed]) -> list[str]:
    """What speaks against the catalogue: faults that no statement noticed."""
    return [f"{fault.function}: no statement notices the fault {fault.name!r}" for fault in found if fault.id is None]


def library_json(found: Sequence[Noticed]) -> list[dict[str, Any]]:
    """Every fault in full."""
    return [asdict(fault) for fault in found]


def library_markdown(found: Sequence[Noticed]) -> str:
    """The page that is kept in the documentation."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [(f"`{function}`", *rest) for function, *rest in map(_cells, found)]
    lines = [markdown_row(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([HEAD, *lines, "", library_totals(found) + ".", ""])


def _cells(one: Noticed) -> tuple[str, ...]:
    if one.id is None or one.form is None:
        return one.function, one.name, "none", "", ""
    return one.function, one.name, f"{one.id} ({one.form.value})", f"{one.recorded} -> {one.outcome}", one.how
