"""Tests of the built site: links have targets, no page loads from other sites, the reference has every public name."""

import importlib
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import ABSENT, Browser
from sphinx.util.inventory import InventoryFile

from bounds import Form, Nature, Outcome
from bounds.papers import own
from bounds.symbols import GLOSSARY

DOCS = Path(__file__).parents[2] / "docs"
WIDE, PHONE = (1400, 1000), (390, 844)
PACKAGES = (
    "ntkfl ntkfl.gram ntkfl.training ntkfl.training.datasets "
    "bounds verification verification.kernels verification.search"
).split()
DOTTED = re.compile(r"`((?:ntkfl|bounds|verification|experiments)(?:\.\w+)+)`")
FLAT = """
return [...document.querySelectorAll("article math, article mfrac, article mi, article mn, article msup")]
  .filter((node) => node.textContent)  // the empty base of a power that follows a word
  .filter((node) => { const box = node.getBoundingClientRect(); return !(box.width > 0 && box.height > 0); })
  .map((node) => node.outerHTML);
"""
IN_PIECES = """
return [...document.querySelectorAll("table .number")]
  .filter((number) => number.getClientRects().length > 1).map((number) => number.textContent);
"""
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """The links of a page, its resources, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.ids.add(given.get("id") or "")
        if tag == "a":
            self.links.append(given.get("href") or "")
        elif tag in ("script", "img", "iframe", "source", "video") and given.get("src"):
            self.loaded.append(given["src"] or "")
        elif tag == "link" and given.get("rel") not in ("index", "search", "next", "prev", "canonical"):
            self.loaded.append(given.get("href") or "")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """Builds the site with warnings as errors and without a network.

    Of most pictures only the first panel is drawn.
    """
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "-d", str(out / ".trees")]
    command += ["-D", "whole_pictures_every=32"]
    done = subprocess.run([*command, str(DOCS), str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def pages(site) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_within_the_site_leads_to_a_page_and_a_place_on_it(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            ):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_pictures_of_statements_say_how_large_they_are_before_they_are_loaded(site):
    """Every picture of a statement has its size in the HTML.

    Otherwise the text below would move while pictures load, and a link to it would lead to a wrong place.
    """
    images = re.findall("<img [^>]*pictures/[^>]*>", "".join(path.read_text() for path in site.rglob("*.html")))
    assert len(images) > len(own()) * 33 / 32 - 10
    assert [image for image in images if not re.search('width="\\d+" height="\\d+"', image)] == []


def test_nothing_is_loaded_from_elsewhere(site, pages):
    loaded = {source for page in pages.values() for source in page.loaded}
    assert loaded and [source for source in loaded if re.match(r"(https?:)?//", source)] == []
    styles = [
        path for path in site.rglob("*.css") if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text())
    ]
    assert styles == []


def test_every_public_name_is_in_the_reference(site):
    """The reference has the names that packages list in `__all__`, and the functions behind commands."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    objects = {id(target) for name in documented if (target := _named(name)) is not None}
    listed = {
        f"{package}.{name}"
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
        if not name.startswith("_")
    }
    public = listed | set(DOTTED.findall((DOCS / "python_and_command_line.md").read_text()))
    assert [name for name in sorted(public) if name not in documented and id(_named(name)) not in objects] == []


def _named(name: str) -> object | None:
    """Returns the object of a dotted name, or None if the name is no attribute of a module or class."""
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return None


def test_every_statement_has_its_section_and_every_symbol_its_row(site):
    text = "".join(path.read_text() for path in (site / "statements").rglob("*.html"))
    assert [i for i in own() if f"{i}: " not in text] == []
    glossary = (site / "glossary.html").read_text()
    assert [name for name, _ in GLOSSARY.values() if name.split()[0] not in glossary] == []


def test_findings_draw_their_formulas_outside_of_what_unfolds(site):
    text = re.sub("<details>.*?</details>|<[^>]*>", "", (site / "findings.html").read_text(), flags=re.DOTALL)
    assert "fl-ntk/C.10, stated" in text
    assert [raw for raw in ("·sqrt(", "·log(", "Trace(") if raw in text] == []


def test_the_introduction_to_the_findings_says_what_is_recorded():
    printed = [s.forms[Form.STATED] for s in own().values() if Form.STATED in s.forms]
    failing = Counter(claim.nature for claim in printed if claim.recorded is Outcome.VIOLATED)
    assert failing.total() < len(printed) / 2
    assert {nature for nature, _ in failing.most_common(2)} == {Nature.SCAN, Nature.MISPRINT}
    # The introduction names two errors of substance of FL-NTK, and one of each other paper.
    assert failing[Nature.SUBSTANCE] == 4
    for beside in ("fl-ntk/B.3", "fedgucci/F9"):
        assert own()[beside].forms[Form.STATED].recorded is Outcome.HOLDS


@pytest.fixture(scope="module")
def browser():
    if ABSENT:
        pytest.skip(ABSENT)
    with Browser() as opened:
        yield opened


@pytest.mark.parametrize("screen", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_page_opens_draws_its_formulas_and_fits(browser, site, pages, screen):
    browser.emulate(*screen)
    # All pages of statements have one layout, so on a phone every tenth page is enough.
    of_statements = [path for path in pages if path.parts[-3] == "statements"]
    left_out = {path for place, path in enumerate(of_statements) if place % 10 and screen == PHONE}
    for path in pages.keys() - left_out:
        browser.open(path)
        assert browser.console() == [], path.name
        assert browser.run(FLAT) == [], path.name
        assert browser.run(IN_PIECES) == [], path.name
        width, inner = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert width <= inner, f"{path.name} scrolls sideways"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_colours_follow_the_reader(browser, site, dark):
    browser.emulate(*WIDE, dark=dark)
    browser.open(site / "index.html")
    red, green, blue = map(
        int, re.findall(r"\d+", browser.run("return getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert (red + green + blue < 3 * 64) if dark else (red + green + blue > 3 * 192)


def test_search_finds_a_statement_and_leads_to_it(browser, site):
    browser.emulate(*WIDE)
    browser.open(site / "index.html")
    browser.run("location.href = 'search.html?q=B.12'")
    hits = "return [...document.querySelectorAll('#search-results li a')].map((a) => a.href.split('/').pop())"
    browser.until(hits, lambda names: any(name.startswith("b-12.html") for name in names[:5]))
