"""The pictures of the statements, which are drawn when the pages are built, and the directive `statement-gallery`,
which shows them all.

The numbers come from `statement_pictures.json`, which `python docs/pictures.py` writes. A statement that is missing in
the file is measured here, at every build.
"""

from functools import cache, partial
from html import escape
from itertools import groupby
from pathlib import Path

from docutils import nodes
from pictures import DATA, measured, read
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import html

from bounds import Form, Statement
from bounds.papers import own, slug
from experiments.pictures import as_bytes, drawn, pixels, themed, thumbnail
from verification.case_points import CasePoints

FOLDER = "pictures"
OPEN = 12  # number of pictures of a paper that are visible before the reader unfolds the others
# folders in FOLDER for pictures of one panel, and for pictures as wide as the screen of a phone
SMALL, NARROW = "small", "narrow"


class StatementGallery(SphinxDirective):
    """Shows the main panel of every statement with its title, ordered by paper, as a link to the statement's page."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(DATA))
        shown = [statement for statement in own().values() if statement.id in seen()]
        return [self._paper(paper, list(group)) for paper, group in groupby(shown, _paper_of)]

    def _paper(self, paper: str, statements: list[Statement]) -> nodes.section:
        section = nodes.section("", nodes.title("", paper), names=[f"gallery-{paper}"])
        self.state.document.note_explicit_target(section, section)
        cells = [
            f'<a href="statements/{address(statement.id)}.html">{image(self.env.app, statement, "", SMALL)}'
            f"<span><b>{escape(statement.id.partition('/')[2])}</b> {escape(statement.title)}</span></a>"
            for statement in statements
        ]
        first, others = (f'<div class="gallery">{"".join(part)}</div>' for part in (cells[:OPEN], cells[OPEN:]))
        unfold = f"<details><summary>{len(cells) - OPEN} more of {paper}</summary>{others}</details>"
        section += html(first + (unfold if cells[OPEN:] else ""))
        return section


def address(identifier: str) -> str:
    """The path of a statement's page below docs/statements, without .html: fl-ntk/B.12 -> fl-ntk/b-12."""
    paper = identifier.partition("/")[0]
    return f"{paper}/{slug(identifier).replace('_', '-').removeprefix(f'{paper}-')}"


def figure(app: Sphinx, statement: Statement, root: str) -> list[nodes.Node]:
    """The picture of a statement on its page; an empty list if it has none."""
    if statement.id not in seen():
        return []
    path, size = _sized(app, statement, NARROW)
    if not size:
        return []
    on_a_phone = f'<source media="(max-width: 46em)" srcset="{root}{path}"{size}>'
    shown = f"<picture>{on_a_phone}{image(app, statement, root)}</picture>"
    return [html(f'<figure class="picture">{shown}</figure>')]


def image(app: Sphinx, statement: Statement, root: str, folder: str = "") -> str:
    """The picture as an element of HTML with its size; `root` is the path from the page to the site's root folder."""
    cases = max(form_seen.cases for form_seen in seen()[statement.id].values())
    alt = f"{statement.id}: left side against bound on {cases} cases"
    path, size = _sized(app, statement, folder)
    return f'<img loading="lazy" src="{root}{path}" alt="{escape(alt)}"{size}>'


def _sized(app: Sphinx, statement: Statement, folder: str = "") -> tuple[str, str]:
    """The path of a picture, and its size; the size is empty if no picture is drawn, as for formats other than HTML."""
    path = Path(FOLDER, folder, f"{slug(statement.id)}.svg")
    if not (file := Path(app.outdir) / path).exists():
        return path.as_posix(), ""
    wide, high = pixels(file.read_bytes())
    return path.as_posix(), f' width="{wide}" height="{high}"'


def draw_all(app: Sphinx) -> None:
    """Draw pictures that are missing or older than their numbers.

    This must be done first, since pages need the sizes of the pictures.
    """
    if app.builder.format != "html":
        return
    for place, (identifier, forms) in enumerate(seen().items()):
        ways = [(SMALL, thumbnail)]
        if place % app.config.whole_pictures_every == 0:
            ways += [("", drawn), (NARROW, partial(drawn, narrow=True))]
        for folder, draw in ways:
            path = Path(app.outdir, FOLDER, folder, f"{slug(identifier)}.svg")
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.stat().st_mtime < DATA.stat().st_mtime:
                path.write_bytes(themed(as_bytes(draw(own()[identifier], forms), "svg", identifier)))


@cache
def seen() -> dict[str, dict[Form, CasePoints]]:
    """The numbers of every statement, in the order of the statements; statements that are missing in the file are
    measured.
    """
    kept = read()
    new = [statement for statement in own().values() if statement.id not in kept]
    kept |= measured(new) if new else {}
    return {identifier: kept[identifier] for identifier in own() if kept.get(identifier)}


def _paper_of(statement: Statement) -> str:
    return statement.id.partition("/")[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the drawing of the pictures with Sphinx."""
    app.add_directive("statement-gallery", StatementGallery)
    app.add_config_value("whole_pictures_every", 1, "env", int)  # the tests set it to 32
    app.connect("builder-inited", draw_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
