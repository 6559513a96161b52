"""The sidebar of all pages, which shows only titles, is made from the titles alone.

This is quicker than Sphinx's way, which copies all sections of the pages and then drops them.
"""

from functools import cache
from typing import Any

from docutils.nodes import Element, list_item
from sphinx.addnodes import toctree
from sphinx.application import Sphinx


def titles(contents: Element) -> Element:
    """The table of contents of a page without the page's sections; the pages below it stay."""
    copied = contents.deepcopy()
    for item in copied.children:
        if isinstance(item, list_item) and len(item) > 1:
            if below := list(item.findall(toctree)):
                item[1][:] = below
            else:
                item.pop(1)
    return copied


def setup(app: Sphinx) -> dict[str, bool]:
    """Give each page's template a quicker `toctree`, before the theme calls it."""

    @cache
    def of_all_pages() -> dict[str, Element]:
        return {name: titles(contents) for name, contents in app.env.tocs.items()}

    def quicken(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
        resolve = context["toctree"]

        def of_titles(**options: Any) -> str:
            if not options.get("titles_only") or options.get("collapse"):
                return resolve(**options)
            whole, titled = app.env.tocs, of_all_pages()
            app.env.tocs = titled
            try:
                return resolve(**options)
            finally:
                app.env.tocs = whole

        context["toctree"] = of_titles

    app.connect("html-page-context", quicken, priority=400)
    return {"parallel_read_safe": True}
