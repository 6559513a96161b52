"""Tables as text: as wide as the terminal, or as a page if the output is piped."""

import os
import sys
import textwrap
from typing import Any

PIPED_WIDTH = 120
NARROWEST, WIDEST = 60, 100  # columns of text that is read


def console(least: int = 0) -> Any:
    """rich's console for this output; `least` is the least width in columns."""
    from rich.console import Console

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=max(least, PIPED_WIDTH if piped else Console().width))


def page_width() -> int:
    """Columns of a page of text: as wide as the terminal, between limits."""
    return max(NARROWEST, min(WIDEST, console().width))


def wrapped(text: str, width: int | None = None) -> list[str]:
    """The lines of a paragraph; all but the first are indented, and no word is cut."""
    width = page_width() if width is None else width
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def as_lines(table: Any, least: int = 0) -> str:
    """The lines of a table, without trailing spaces."""
    shown = console(least)
    with shown.capture() as captured:
        shown.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
