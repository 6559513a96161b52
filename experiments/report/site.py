"""All files of a report, by their path in its folder: pages, style, script, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bounds.statement import BEYOND, Form
from experiments.report.comparison import Comparison
from experiments.report.conformance_pages import ConformancePage
from experiments.report.front_page import FrontPage, headline
from experiments.report.prose import prose
from experiments.report.statement_pages import FORM_TITLES, HELPERS, statement_pages
from experiments.report.study_pages import StudyPage
from experiments.report.verdict_file import VerdictFile
from ntkfl.version import VERSION
from verification.findings.page import by_paper, sentence

STATIC = ("style.css", "tables.js")


def built(
    run: VerdictFile | None,
    studies: Sequence[StudyPage] = (),
    changes: Comparison | None = None,
    implementations: Sequence[ConformancePage] = (),
) -> dict[str, bytes]:
    """Every file of the report: the same bytes for the same verdicts, studies and implementations.

    Args:
        run: verdicts, or None. studies: pages of studies. changes: from another run to this one, for a page of its own.
        implementations: pages of what was tested with the conformance kit.

    Raises:
        ValueError: two studies, or two adapters, of one name.
    """
    said = [("folders have the study", one.name, one.path) for one in studies]
    said += [("files have the adapter", one.name, one.path) for one in implementations]
    paths = [path for _, _, path in said]
    for what, name, path in said:
        if paths.count(path) > 1:
            raise ValueError(f"two {what} {name}; a report shows one of each")
    papers = by_paper(run.verdicts) if run else []
    pages = statement_pages(run, [f for paper in papers for f in paper.differing]) if run else []
    by_id = {page.statement.id: page for page in pages}
    menu = [("index.html", "Overview")]
    menu += [("index.html#studies", "Studies")] if studies else []
    menu += [("index.html#conformance", "Conformance")] if implementations else []
    menu += [("findings.html", "Findings")] if papers else []
    menu += [("changes.html", "What changed")] if changes is not None else []
    menu += [("provenance.html", "Provenance")] if run else []
    shared = {
        "menu": menu,
        "pages": {identifier: page.path for identifier, page in by_id.items()},
        "version": VERSION,
        "beyond": BEYOND,
        "forms": list(Form),
        "form_titles": [FORM_TITLES[form] for form in Form],
        "papers": papers,
        "studies": studies,
        "implementations": implementations,
        "statement_page": by_id.__getitem__,
        "page_title": lambda identifier: by_id[identifier].statement.title,
        **HELPERS,
    }
    site = _Site(shared)
    front = FrontPage(run, pages, papers) if run else None
    site.add("index.html", "index", front=front, headline=headline(run.verdicts) if run else None)
    if papers:
        site.add("findings.html", "findings")
    if changes is not None:
        site.add("changes.html", "changes", changes=changes)
    if run:
        site.add("provenance.html", "provenance", tables=_tables(run.provenance))
    for page in pages:
        site.add(page.path, "statement", page=page)
        if page.image is not None:
            site.files[page.image] = page.picture()
    for study in studies:
        site.add(study.path, "study", study=study)
        site.files.update(study.files)
    for implementation in implementations:
        site.add(implementation.path, "conformance", implementation=implementation)
    return site.files


class _Site:
    """The files while they are written."""

    def __init__(self, shared: Mapping[str, Any]):
        self.environment = Environment(
            loader=PackageLoader("experiments.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters.update(prose=prose, sentence=sentence)
        self.environment.globals.update(shared)
        here = files("experiments.report") / "templates"
        self.files = {name: (here / name).read_bytes() for name in STATIC}

    def add(self, path: str, template: str, **content: Any) -> None:
        """One page."""
        root = "../" * path.count("/")
        page = self.environment.get_template(f"{template}.html.jinja")
        self.files[path] = page.render(path=path, root=root, **content).encode()


def _tables(provenance: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Nested parts as tables of their own, the rest as the first."""
    nested = {name: part for name, part in provenance.items() if isinstance(part, Mapping)}
    rest = [(name, _said(value)) for name, value in provenance.items() if name not in nested]
    tables = [("The run", rest)] if rest else []
    for name, part in nested.items():
        tables.append((name.capitalize(), [(str(key), _said(value)) for key, value in part.items()]))
    return tables


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value)
