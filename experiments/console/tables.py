"""Text and tables for the output, as wide as the terminal, or as wide as a page if the output is piped."""

import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import typer

PIPED_WIDTH = 120
NARROWEST, WIDEST = 60, 100  # the smallest and the largest width of a paragraph


def console(least: int = 0) -> Any:
    """The console of the package rich for this output; `least` is its least width in columns."""
    from rich.console import Console

    return Console(width=max(least, PIPED_WIDTH if is_piped() else Console().width))


def is_piped() -> bool:
    """Whether the output goes to a file or a pipe and the environment variable COLUMNS gives no width."""
    return not sys.stdout.isatty() and "COLUMNS" not in os.environ


def page_width() -> int:
    """The width of text in columns: the terminal's width, within limits."""
    return max(NARROWEST, min(WIDEST, console().width))


def wrapped(text: str, width: int | None = None) -> list[str]:
    """The lines of a paragraph; all but the first are indented, and no word is cut."""
    width = page_width() if width is None else width
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def on_screen(line: str, later: str | None = None, *, end: str = "") -> list[str]:
    """The line broken at the terminal's width; if the output is piped, the line unchanged, so that scripts can read it.

    Continuation lines begin with `later`, by default two columns farther right than the first line. All lines but the
    last end with `end`.
    """
    if is_piped() or len(line) <= (width := console().width):
        return [line]
    later = " " * (len(line) - len(line.lstrip()) + 2) if later is None else later
    *parts, last = textwrap.wrap(
        line, width - len(end), subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
    return [*(part + end for part in parts), last]


def print_lines(*lines: str, err: bool = False) -> None:
    """Print lines, each broken at the terminal's width."""
    typer.echo("\n".join(part for line in lines for part in on_screen(line)), err=err)


def print_paragraph(text: str) -> None:
    """Print one paragraph, broken at the width of a page; empty lines before it are kept."""
    words = text.lstrip("\n")
    typer.echo("\n" * (len(text) - len(words)) + "\n".join(wrapped(words)))


def as_lines(table: Any, least: int = 0) -> str:
    """The lines of a table, without trailing spaces."""
    shown = console(least)
    with shown.capture() as captured:
        shown.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    wrapped: Collection[str] | None = None,
) -> None:
    """Print a table with these columns; the columns `numbers` are aligned to the right.

    The columns `wrapped` may be broken into several lines, by default all columns.
    """
    from verification.tables import plain_table

    table = plain_table(columns, numbers=numbers, wrapped=columns if wrapped is None else wrapped)
    for row in rows:
        table.add_row(*row)
    typer.echo(as_lines(table))
