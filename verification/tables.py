"""Tables for terminals, which all have the same layout, and rows of tables in Markdown."""

from collections.abc import Collection, Iterable

from rich.console import JustifyMethod
from rich.table import Table


def plain_table(
    columns: Iterable[str], *, numbers: Collection[str] = (), wrapped: Collection[str] = (), gap: int = 2
) -> Table:
    """A table without lines."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        side: JustifyMethod = "right" if name in numbers else "left"
        table.add_column(name, justify=side, no_wrap=name not in wrapped, overflow="fold")
    return table


def markdown_row(cells: Iterable[str]) -> str:
    """A row of a table in Markdown, made of cells whose text is escaped already."""
    return "| " + " | ".join(cells) + " |"
