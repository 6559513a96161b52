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


def library_table(faults: Sequence[Noticed]) -> Table:
    """One row a fault."""
    table = plain_table(COLUMNS, wrapped=COLUMNS, gap=1)
    for fault in faults:
        table.add_row(*(Text(cell, "" if fault.id else "bold red") for cell in _cells(fault)))
    return table


def library_totals(faults: Sequence[Noticed]) -> str:
    """One line: how many faults changed a verdict."""
    return (
        f"faults planted in the library: {sum(fault.id is not None for fault in faults)}/{len(faults)} change a verdict"
    )


def unnoticed(faults: Sequence[Noticed]) -> list[str]:
    """What speaks against the catalogue: faults that no statement noticed."""
    return [f"{fault.function}: no statement notices the fault {fault.name!r}" for fault in faults if fault.id is None]


def library_json(faults: Sequence[Noticed]) -> list[dict[str, Any]]:
    """Every fault in full."""
    return [asdict(fault) for fault in faults]


def library_markdown(faults: Sequence[Noticed]) -> str:
    """The page that is kept in the documentation."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [(f"`{function}`", *rest) for function, *rest in map(_cells, faults)]
    lines = [markdown_row(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join([HEAD, *lines, "", library_totals(faults) + ".", ""])


def _cells(fault: Noticed) -> tuple[str, ...]:
    if fault.id is None or fault.form is None:
        return fault.function, fault.name, "none", "", ""
    return (
        fault.function,
        fault.name,
        f"{fault.id} ({fault.form.value})",
        f"{fault.recorded} -> {fault.outcome}",
        fault.how,
    )
