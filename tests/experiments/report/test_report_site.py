"""Tests of the report's pages: they are well formed, complete, linked and readable by everyone.

Text that came from data is never markup.
"""

import posixpath
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from html_tree import tree
from report_examples import HOSTILE, a_study, a_verdict, all_verdicts, whole_run, whole_site

from bounds import Form, Nature, Outcome, catalogue, get
from experiments.formulas.prose import prose
from experiments.report.outcomes import SIGNS
from experiments.report.site import built, headline
from experiments.report.statement_pages import address
from experiments.report.verdict_file import VerdictFile
from verification.case_points import CasePoints
from verification.facts import Confirmation, Counts, Data, Elsewhere, Fact, Needed, Standing, Vacuous, Where, Witness
from verification.findings.findings_page import counts_as_printed
from verification.plain_text import case_text
from verification.sentences import What
from verification.verdict import Side, Worst
from verification.verdict_list import totals
from verification.verdict_page import result_text

MIXED = (4.5, 3.0)  # The contrast ratios that WCAG AA asks for: of text, and of marks of the interface.


@pytest.fixture(scope="module")
def run():
    return whole_run()


@pytest.fixture(scope="module")
def site():
    return whole_site()


@pytest.fixture(scope="module")
def pages(site):
    return {path: tree(content) for path, content in site.items() if path.endswith(".html")}


def test_there_is_one_page_a_statement_and_one_of_everything_else(pages):
    statements = [address(identifier) for identifier in catalogue()]
    assert len(set(statements)) == len(statements), "two ids have one address"
    others = {"index.html", "findings.html", "provenance.html", "studies/toy.html"}
    assert set(pages) == set(statements) | others


def test_every_link_leads_somewhere(pages, site):
    places = {path: {n.attributes["id"] for n in page.all() if "id" in n.attributes} for path, page in pages.items()}
    for path, page in pages.items():
        for node in page.all("a", "link", "script", "img"):
            target = node.attributes.get("href", node.attributes.get("src"))
            name, _, anchor = target.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
            assert there in site, f"{path} links to {target}"
            assert not anchor or anchor in places[there], f"{path} links to {target}"


def test_ids_are_unique_and_what_is_referred_to_is_there(pages):
    for path, page in pages.items():
        ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
        assert len(set(ids)) == len(ids), path
        wanted = {n.attributes[key] for n in page.all() for key in ("aria-labelledby", "for") if key in n.attributes}
        assert wanted <= set(ids), path


def test_a_screen_reader_finds_its_way(pages):
    for path, page in pages.items():
        (html,) = page.all("html")
        assert html.attributes["lang"] == "en"
        assert [len(list(page.all(tag))) for tag in ("header", "nav", "main", "footer", "h1", "title")] == [1] * 6, path
        levels = [int(node.tag[1]) for node in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
        assert levels[0] == 1 and all(b <= a + 1 for a, b in pairwise(levels)), (path, levels)
        first = next(page.all("a"))
        assert first.attributes == {"class": "skip", "href": "#content"}
        assert all(node.text().strip() for node in page.all("a", "h1", "h2", "h3", "h4", "caption", "summary")), path
        assert all(node.attributes.get("alt") for node in page.all("img"))
        assert all(
            node.attributes.get("aria-label") and node.attributes.get("tabindex") == "0"
            for node in page.all("div")
            if node.attributes.get("class") == "scroll"
        )


def test_every_table_names_its_columns_and_most_their_rows(pages):
    for path, page in pages.items():
        for table in page.all("table"):
            (head,), (body,) = table.all("thead"), table.all("tbody")
            assert all(cell.attributes["scope"] == "col" for cell in head.all("th", "td")), path
            assert all(cell.attributes["scope"] == "row" for cell in body.all("th")), path
            assert {len(list(row.all("th", "td"))) for row in body.all("tr")} <= {len(list(head.all("th")))}, path


def test_a_page_may_load_nothing_from_anywhere_else(site, pages):
    for path, page in pages.items():
        (policy,) = (n.attributes["content"] for n in page.all("meta") if "http-equiv" in n.attributes)
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert not list(page.all("style")) and not any("style" in n.attributes for n in page.all()), path
        assert not any(name.startswith("on") for n in page.all() for name in n.attributes), path
        assert [n.text() for n in page.all("script")] == [""]
    loaded = re.compile(rb"https?://(?!www\.w3\.org/)")
    assert not any(loaded.search(content) for content in site.values())


def test_the_answer_comes_first(run, site):
    printed = [v for v in run.verdicts if counts_as_printed(v)]
    right = sum(v.outcome not in (Outcome.VIOLATED, Outcome.OPEN) for v in printed)
    page = tree(site["index.html"])
    assert next(page.all("h1")).text() == f"Of {len(printed)} printed claims, {right} hold as they stand"
    assert "0 differ from what is recorded" in next(page.all("main")).text()


def matrix_of(site):
    """Returns the words in the table of the first page for every form, which is one version of a statement's claim."""
    (matrix,) = (n for n in tree(site["index.html"]).all("table") if n.attributes.get("id") == "matrix")
    cells = {}
    for row in next(matrix.all("tbody")).all("tr"):
        paper, label, _, _, *forms, _ = (" ".join(cell.text().split()) for cell in row.all("th", "td"))
        cells |= {(f"{paper}/{label}", form): cell for form, cell in zip(Form, forms, strict=True) if cell != "none"}
    return cells


def test_the_matrix_has_every_form_with_its_outcome_in_words(run, site):
    assert matrix_of(site) == {(v.id, v.form): f"{SIGNS[v.outcome][0]} {v.outcome.value}" for v in run.verdicts}


def test_a_statement_page_has_everything_that_was_found(run, site):
    for verdict in run.verdicts[::7]:
        statement = get(verdict.id)
        (section,) = (n for n in tree(site[address(verdict.id)]).all("section") if n.attributes["id"] == verdict.form)
        said = " ".join(section.text().split())
        assert verdict.replay in said and case_text(verdict.worst.case) in said and "a caveat" in said.lower()
        assert "0.25" in said or "1.25" in said
        assert "Weakly tested: the checker did not tell these from the right formula: doubled" in said
        for hypothesis in statement.required(verdict.form):
            assert hypothesis.name in said
        assert len(list(section.all("math"))) >= len(statement.forms[verdict.form].parts)
        whole = " ".join(tree(site[address(verdict.id)]).text().split())
        assert result_text(verdict) in whole


def test_a_form_that_was_not_checked_is_said_not_to_be(run):
    some = VerdictFile(tuple(v for v in run.verdicts if v.form is Form.STATED and v.id == "fl-ntk/B.12"), {})
    files = built(some)
    assert "This form was not checked in this run." in files[address("fl-ntk/B.12")].decode()
    assert "not checked" in files["index.html"].decode()


def test_what_differs_from_the_record_is_said_at_once(run):
    broken = replace(run.verdicts[0], outcome=Outcome.HOLDS, recorded=Outcome.VIOLATED)
    page = tree(built(VerdictFile((broken,), {}))["index.html"])
    warning = next(n for n in page.all("section") if n.attributes.get("class") == "warning").text()
    assert broken.id in warning and "recorded violated" in warning and broken.replay in warning
    own = built(VerdictFile((replace(broken, data=Data.OWN),), {}))["index.html"].decode()
    assert "Different from what is recorded" not in own and "your data" in own
    assert "interrupted" in built(VerdictFile((broken,), {"complete": False}))["index.html"].decode()


def test_the_same_verdicts_give_the_same_bytes(run):
    some = VerdictFile(run.verdicts[:6], run.provenance)
    assert built(some, [a_study()]) == built(some, [a_study()])


def test_two_studies_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two folders have the study toy"):
        built(None, [a_study(), a_study()])


def test_studies_alone_make_a_report():
    files = built(None, [a_study()])
    assert {"index.html", "studies/toy.html", "studies/toy/chart.svg"} <= set(files)
    assert "findings.html" not in files


def test_every_caveat_of_the_first_page_names_the_verdicts_that_it_is_about():
    as_recorded = [
        verdict for verdict in all_verdicts(mutants={"halved": "violated"}) if verdict.outcome is Outcome.HOLDS
    ][:10]
    counts, broken = Counts(20, 0, 0, 0), Counts(0, 0, 0, 20)
    changes = {
        "Vacuous": {"vacuous": Vacuous({"m": 1e30})},
        "Weakly tested": {"mutants": {"halved": "holds"}},
        "Undecided": {"outcome": Outcome.UNTESTED},
        "Undecided too": {"outcome": Outcome.UNRESOLVED},
        "Not refuted": {"counts": replace(counts, would_exclude=0.1)},
        "Violated, recorded open": {"outcome": Outcome.VIOLATED, "recorded": Outcome.OPEN, "counts": broken},
        "Broken by stored cases alone": {"outcome": Outcome.VIOLATED, "recorded": Outcome.VIOLATED, "counts": counts},
        "Violated on your data": {
            "outcome": Outcome.VIOLATED,
            "recorded": Outcome.VIOLATED,
            "counts": broken,
            "elsewhere": Elsewhere(Where.RECORDED),
            "data": Data.OWN,
        },
        "Fail elsewhere": {"elsewhere": Elsewhere(Where.STORED, 1.5), "data": Data.OWN},
    }
    changed = {name: replace(v, **change) for v, (name, change) in zip(as_recorded, changes.items(), strict=False)}
    page = built(VerdictFile((*changed.values(), as_recorded[-1]), {}))["index.html"].decode()
    listed = re.findall(r"<li><strong>([^<]*)</strong> \((\d+)\): (.*?)</ul>", page, re.DOTALL)
    caveats = {name: (int(count), re.findall(r"<a [^>]*>([^<]*)</a>", items)) for name, count, items in listed}
    undecided = [changed.pop("Undecided").id, changed.pop("Undecided too").id]
    wanted = {name: (1, [verdict.id]) for name, verdict in changed.items()} | {"Undecided": (2, undecided)}
    assert {name: caveats.get(name) for name in wanted} == wanted
    beside = dict(pair for *_, items in listed for pair in re.findall(r"<a [^>]*>([^<]*)</a>([^<]*)</li>", items))
    assert {i: unescape(said).endswith(prose(get(i).title)) for i, said in beside.items()} == dict.fromkeys(
        beside, True
    )


def test_the_headline_of_own_data_counts_every_outcome_and_the_totals_agree():
    outcomes = [Outcome.HOLDS, Outcome.VIOLATED, Outcome.VIOLATED, Outcome.UNTESTED, Outcome.UNRESOLVED]
    known = {"data": Data.OWN, "recorded": Outcome.VIOLATED, "elsewhere": Elsewhere(Where.RECORDED)}
    mine = [replace(v, outcome=o, **known) for v, o in zip(all_verdicts(), outcomes, strict=False)]
    said = "On your data, of 5 forms, 1 holds, 2 violated, 1 could not be tested, 1 unresolved; 3 fail elsewhere"
    assert headline(mine) == said
    assert headline([*mine, replace(mine[0], data=Data.UNUSED)]) == f"{said}; 1 other form not about data"
    assert totals(mine).endswith("; 3 fail elsewhere")
    weak = replace(mine[0], counts=Counts(20, 0, 0, 0, would_exclude=0.3), elsewhere=None)
    assert headline([weak]) == "On your data, of 1 form, 0 hold, 1 not refuted"
    cells = matrix_of(built(VerdictFile(tuple(mine), {"options": {"data": "mine.csv"}, "complete": True})))
    assert {(v.id, v.form): cells[v.id, v.form] for v in mine} == {
        (v.id, v.form): f"{SIGNS[v.outcome][0]} {v.outcome.value}"
        + (", fails elsewhere" if v.outcome is not Outcome.VIOLATED else "")
        for v in mine
    }


def test_nothing_that_came_from_data_is_markup():
    everywhere = {
        "counts": Counts(0, 0, 0, 3, rejected={HOSTILE: 2}),
        "worst": Worst(Side(1.0, 0.0, HOSTILE), Side(0.5, 0.0, HOSTILE), {"cases": HOSTILE, HOSTILE: HOSTILE}),
        "vacuous": Vacuous({HOSTILE: 1e30}),
        "witness": Witness(2.0, Outcome.VIOLATED, (HOSTILE,)),
        "confirmation": Confirmation(Standing.CONFIRMED, Fact(What.TEXT, {"text": HOSTILE})),
        "mutants": {HOSTILE: HOSTILE},
        "necessity": {"unit-rows": Needed.YES},
        "notes": (Fact(What.TEXT, {"text": HOSTILE}),),
        "replay": HOSTILE,
        "provenance": {"versions": {HOSTILE: HOSTILE}, "device": HOSTILE},
        "error": HOSTILE,
    }
    verdicts = [a_verdict("fl-ntk/B.12", form, **everywhere) for form in get("fl-ntk/B.12").forms]
    undecided = replace(verdicts[0], outcome=Outcome.UNTESTED)
    files = built(
        VerdictFile((undecided, *verdicts[1:]), {"options": {HOSTILE: HOSTILE}, HOSTILE: [HOSTILE]}), [a_study(HOSTILE)]
    )
    seen = 0
    for path, content in files.items():
        if path.endswith(".html"):
            page = tree(content)
            assert [n.attributes.get("src", "") for n in page.all("script")] == ["../" * path.count("/") + "tables.js"]
            assert b"<script>alert" not in content
            seen += page.text().count(HOSTILE)
    assert seen > 30, "the name must be shown as it is"
    images = [n for n in tree(files["studies/toy.html"]).all("img")]
    assert [n.attributes["alt"] for n in images] == [HOSTILE]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_the_contrast_of_wcag_aa(site, scheme):
    style = site["style.css"].decode()
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w+)", light))
    if scheme == "dark":
        colours |= dict(re.findall(r"--(\w+): (#\w+)", dark))
    text = ["ink", "quiet", "link", "holds", "touches", "violated", "open"]
    for name in text:
        for ground in ("paper", "panel"):
            assert contrast(colours[name], colours[ground]) >= MIXED[0], (name, ground)
    for name in ("focus", "quiet"):  # These colours draw outlines and the borders of fields.
        assert contrast(colours[name], colours["paper"]) >= MIXED[1], name
    used = set(re.findall(r"var\(--(\w+)\)", style)) - {"line", "measure", "sans", "mono", "math"}
    assert used == {*text, "paper", "panel", "focus"}, "a colour that is not looked at"
    assert set(re.findall(r"#[0-9a-f]{3,6}\b", re.sub(r":root \{.*?\}", "", style, flags=re.DOTALL))) == {"#fff"}


def contrast(one: str, other: str) -> float:
    """Returns the contrast ratio of two colours by the definition of WCAG 2."""
    lights = sorted((luminance(one), luminance(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=1e-3)


def test_every_verdict_of_the_catalogue_is_on_the_findings_page_if_it_differs(run, site):
    page = tree(site["findings.html"])
    shown = {n.text().split(":")[0] for n in page.all("h4")}
    assert shown == {f"{v.id}, {v.form.value}" for v in all_verdicts() if get(v.id).forms[v.form].nature}


@pytest.mark.parametrize(("text", "shown"), [
    ("lambda_min(H) >= 2 sqrt(n)", "λ_min(H) ≥ 2 √(n)"),
    ("rho mu <= 1, eta_l -> 0", "ρ μ ≤ 1, η_l → 0"),
    ("an alphabet, a supine epic; deltas", "an alphabet, a supine epic; deltas"),
    ("a < b", "a < b"),
])  # fmt: skip
def test_notes_are_shown_with_the_signs_they_spell(text, shown):
    assert prose(text) == shown


def test_a_statement_has_the_picture_of_the_cases_that_its_verdicts_kept():
    seen = CasePoints(2, (HOSTILE,), (0, 0), (0, 0), (1.0, 2.0), (0.0, 0.0), (0.5, 0.1), (0.1, 0.0), (0.5, 0.05))
    provenance = {"seeds": {"first_seed": 77}}
    one = a_verdict("fl-ntk/B.12", Form.STATED, seen=seen, provenance=provenance)
    site = built(VerdictFile((one, a_verdict("fl-ntk/A.1", Form.STATED)), {}))
    assert [path for path in site if path.endswith(".svg")] == ["statements/fl-ntk-b-12.svg"]
    picture = site["statements/fl-ntk-b-12.svg"]
    assert ElementTree.fromstring(picture).tag.endswith("svg") and b"<script" not in picture
    assert b"from seed 77" in picture
    assert b'src="../statements/fl-ntk-b-12.svg"' in site[address("fl-ntk/B.12")]
    assert b"<figure" not in site[address("fl-ntk/A.1")]


def test_a_form_that_only_a_scan_or_a_report_has_is_not_called_printed(pages):
    stated = {name: statement.forms.get(Form.STATED) for name, statement in catalogue().items()}
    natures = {name: claim.nature for name, claim in stated.items() if claim is not None}
    unprinted = {name: nature for name, nature in natures.items() if nature in (Nature.SCAN, Nature.REPORTED)}
    assert unprinted["fl-ntk/B.12"] is Nature.SCAN
    for name, nature in unprinted.items():
        headings = [node.text() for node in pages[address(name)].all("h2")]
        said = {Nature.SCAN: "As a scan reads", Nature.REPORTED: "As reported"}[nature]
        assert any(heading.startswith(said) for heading in headings), (name, headings)
        assert not any(heading.startswith("As printed") for heading in headings), (name, headings)
