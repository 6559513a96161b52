"""Tables of nodes, for directives that write them from the program's own data."""

from collections.abc import Sequence

from docutils import nodes
from sphinx import addnodes

Cell = Sequence[nodes.Node]


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> nodes.table:
    """A table with a row of headings; a cell is the inline nodes in it."""
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in head], cols=len(head))
    group += nodes.thead("", _row([[nodes.Text(title)] for title in head]))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group, classes=["colwidths-auto"])


def code(text: str) -> nodes.literal:
    """A name as the program spells it."""
    return nodes.literal("", text)


def html(markup: str) -> nodes.raw:
    """A node of text that is HTML (or MathML) already."""
    return nodes.raw("", markup, format="html")


def link(label: str, text: str) -> addnodes.pending_xref:
    """A link to a label on any page."""
    options = {"refdomain": "std", "reftype": "ref", "refexplicit": True, "refwarn": True}
    return addnodes.pending_xref("", nodes.inline("", text), reftarget=label, **options)


def _row(cells: Sequence[Cell]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells])
