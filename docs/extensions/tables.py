"""Build the tables that directives write from data of the program, and keep numbers in cells on one line."""

import re
from collections.abc import Sequence

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

Cell = Sequence[nodes.Node]
POWER_OF_TEN = re.compile(r"([\d.]+e[+-]?\d+)")  # browsers break such a number after its hyphen


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> nodes.table:
    """A table with a row of headings; each cell is given by its inline nodes."""
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in head], cols=len(head))
    group += nodes.thead("", _row([[nodes.Text(title)] for title in head]))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group, classes=["colwidths-auto"])


def code(text: str) -> nodes.literal:
    """A name as the program spells it."""
    return nodes.literal("", text)


def html(markup: str) -> nodes.raw:
    """A node for text that is already HTML (or MathML)."""
    return nodes.raw("", markup, format="html")


def link(label: str, text: str) -> addnodes.pending_xref:
    """A link to a label on any page."""
    options = {"refdomain": "std", "reftype": "ref", "refexplicit": True, "refwarn": True}
    return addnodes.pending_xref("", nodes.inline("", text), reftarget=label, **options)


def _row(cells: Sequence[Cell]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells])


def keep_numbers_whole(_: Sphinx, document: nodes.document) -> None:
    """Mark the numbers with an exponent in all tables; a style then keeps each of them on one line."""
    for entry in document.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            words = POWER_OF_TEN.split(text.astext())  # the parts with odd index are numbers
            if len(words) > 1 and not isinstance(text.parent, nodes.literal):
                marked = [nodes.inline("", word, classes=["number"]) for word in words[1::2]]
                plain = [nodes.Text(word) for word in words[::2]]
                parts = [part for pair in zip(plain, [*marked, nodes.Text("")], strict=True) for part in pair]
                text.parent.replace(text, [part for part in parts if part.astext()])


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx call `keep_numbers_whole` when it reads a page."""
    app.connect("doctree-read", keep_numbers_whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
