"""The pictures of the statements, drawn when the pages are built, and the directive `statement-gallery` of all of them.

They are drawn of `statement_pictures.json`, which `python docs/pictures.py` measures.
"""

from functools import cache
from html import escape
from pathlib import Path

from docutils import nodes
from pictures import DATA, read
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import html

from bounds.papers import own, slug
from bounds.statement import Form, Statement
from experiments.pictures import as_bytes, drawn
from verification.seen import Seen

FOLDER = "pictures"


class StatementGallery(SphinxDirective):
    """Every picture, small, as a link to its statement's section."""

    def run(self) -> list[nodes.Node]:
        cells = []
        for identifier, statement in own().items():
            if identifier in _seen():
                paper, label = identifier.partition("/")[0], slug(identifier).replace("_", "-")
                picture = image(statement, "")
                cells.append(
                    f'<a href="statements/{paper}.html#{label}">{picture}<span>{escape(identifier)}</span></a>'
                )
        return [html(f'<div class="gallery">{"".join(cells)}</div>')]


def figure(statement: Statement) -> list[nodes.Node]:
    """The picture of a statement on the page of its paper; nothing where it has none."""
    if statement.id not in _seen():
        return []
    return [html(f'<figure class="picture">{image(statement, "../")}</figure>')]


def image(statement: Statement, root: str) -> str:
    """The picture as an element of HTML; `root` leads from its page to the first one."""
    cases = max(one.cases for one in _seen()[statement.id].values())
    alt = f"{statement.id}: left side against bound on {cases} cases"
    return f'<img loading="lazy" src="{root}{FOLDER}/{_file(statement)}" alt="{escape(alt)}">'


def draw_all(app: Sphinx, error: Exception | None) -> None:
    """Draw what is not drawn yet, or of older numbers."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for identifier, seen in _seen().items():
        statement = own()[identifier]
        path = folder / _file(statement)
        if not path.exists() or path.stat().st_mtime < DATA.stat().st_mtime:
            path.write_bytes(as_bytes(drawn(statement, seen), "svg", identifier))


@cache
def _seen() -> dict[str, dict[Form, Seen]]:
    return read()


def _file(statement: Statement) -> str:
    return f"{slug(statement.id)}.svg"


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx know the directive, and that the pictures are to be drawn."""
    app.add_directive("statement-gallery", StatementGallery)
    app.connect("build-finished", draw_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
