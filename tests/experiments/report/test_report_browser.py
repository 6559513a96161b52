"""Tests of the report's pages in headless Chromium.

The console shows no errors, tables sort and filter, and formulas are drawn.
"""

import pytest
from browser import ABSENT, Browser
from report_examples import whole_site

from experiments.report.folder import write

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]
WIDE, PHONE = (1200, 900), (390, 800)
SOME = (
    "index.html",
    "findings.html",
    "provenance.html",
    "studies/toy.html",
    "statements/fl-ntk-b-12.html",
    "statements/fl-ntk-c-10.html",
    "statements/fedgucci-f16.html",
)
COLUMN = """
const [id, column] = arguments;
return [...document.getElementById(id).tBodies[0].rows].map((row) => row.cells[column].textContent.trim());
"""
FLAT = """
return [...document.querySelectorAll("math, mfrac, msqrt, mi, mn, msub, msup")]
  .filter((node) => { const box = node.getBoundingClientRect(); return !(box.width > 0 && box.height > 0); })
  .map((node) => node.outerHTML);
"""
CLIPPED = """
return [...document.querySelectorAll(".formula")].filter((node) => node.scrollHeight > node.clientHeight + 1).length;
"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("browser") / "report"
    write(whole_site(), out)
    return out


def looked_at(browser, page):
    browser.open(page)
    assert browser.console() == []
    assert browser.run(FLAT) == []
    assert browser.run(CLIPPED) == 0
    size = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert size[0] <= size[1], f"{page.name} scrolls sideways: {size}"


@pytest.mark.parametrize("page", SOME)
@pytest.mark.parametrize("screen", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_page_opens_draws_its_formulas_and_fits(browser, folder, page, screen):
    browser.emulate(*screen)
    looked_at(browser, folder / page)


def test_every_page_opens_draws_its_formulas_and_fits(browser, folder):
    for screen in (WIDE, PHONE):
        browser.emulate(*screen)
        for page in sorted(folder.rglob("*.html")):
            looked_at(browser, page)


def test_the_matrix_sorts_both_ways_by_any_column(browser, folder):
    browser.emulate(*WIDE)
    browser.open(folder / "index.html")
    click = "document.querySelectorAll('#matrix thead button')[arguments[0]].click();"
    sorts = "return [...document.querySelectorAll('#matrix th')].map((h) => h.getAttribute('aria-sort'))"
    before = browser.run(COLUMN, "matrix", 1)
    browser.run(click, 4)
    printed = browser.run(COLUMN, "matrix", 4)
    order = ["✗ violated", "≈ touches", "✓ holds", "· open", "none"]
    assert [order.index(cell) for cell in printed] == sorted(order.index(cell) for cell in printed)
    assert len(set(printed)) > 2 and sorted(browser.run(COLUMN, "matrix", 1)) == sorted(before)
    browser.run(click, 4)
    assert [order.index(cell) for cell in browser.run(COLUMN, "matrix", 4)] == sorted(map(order.index, printed))[::-1]
    assert [s for s in browser.run(sorts) if s] == ["descending"]
    browser.run(click, 1)
    labels = browser.run(COLUMN, "matrix", 1)
    assert labels.index("B.9-15") < labels.index("B.10") < labels.index("B.12")
    assert [s for s in browser.run(sorts) if s] == ["ascending"]
    assert browser.console() == []


def test_the_matrix_filters_by_words_and_outcome(browser, folder):
    browser.emulate(*WIDE)
    browser.open(folder / "index.html")
    every = len(browser.run(COLUMN, "matrix", 1))
    choose = """
    const [words, outcome] = arguments, find = (id) => document.getElementById(id);
    find("words").value = words; find("words").dispatchEvent(new Event("input"));
    find("outcome").value = outcome; find("outcome").dispatchEvent(new Event("change"));
    return [...find("matrix").tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[1].textContent);
    """
    assert browser.run(choose, "b.12 MOVEMENT", "") == ["B.12"]
    assert browser.run("return document.querySelector('[role=status]').textContent") == f"1 of {every} statements"
    violated = browser.run(choose, "", "violated")
    assert "B.12" in violated and "A.2" not in violated
    assert browser.run(choose, "no such words", "") == []
    assert len(browser.run(choose, "", "")) == every


def test_without_script_everything_is_there_and_nothing_that_needs_it(browser, folder):
    browser.emulate(*WIDE, script=False)
    try:
        browser.open(folder / "index.html")
        assert browser.run("return getComputedStyle(document.querySelector('.filter')).display") == "none"
        assert browser.run("return document.querySelectorAll('#matrix button').length") == 0
        assert len(browser.run(COLUMN, "matrix", 1)) > 100
    finally:
        browser.emulate(*WIDE)


def test_both_colour_schemes_are_drawn(browser, folder):
    seen = []
    for dark in (False, True):
        browser.emulate(*WIDE, dark=dark)
        browser.open(folder / "index.html")
        seen.append(browser.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"))
    assert seen[0] == ["rgb(29, 31, 35)", "rgb(252, 252, 250)"] and seen[1] == ["rgb(228, 228, 223)", "rgb(23, 24, 27)"]


def test_the_first_tab_stop_leads_past_the_menu_and_is_seen(browser, folder):
    browser.emulate(*WIDE)
    browser.open(folder / "index.html")
    assert browser.run("return document.querySelector('.skip').getBoundingClientRect().left") < 0
    browser.press("\ue004")  # the Tab key
    focused = browser.run(
        "const s = document.activeElement, box = s.getBoundingClientRect();"
        "return [s.className, box.left >= 0 && box.top >= 0, getComputedStyle(s).outlineStyle];"
    )
    assert focused == ["skip", True, "solid"]


def test_a_picture_is_shown(browser, folder):
    browser.emulate(*WIDE)
    browser.open(folder / "studies" / "toy.html")
    assert browser.run("const i = document.querySelector('img'); return [i.complete, i.naturalWidth > 0]") == [
        True,
        True,
    ]
