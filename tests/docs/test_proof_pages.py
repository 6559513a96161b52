"""Tests of the pages of proofs: the code that they name exists, and each link to them leads to an existing section."""

import re
from pathlib import Path

import pytest

from bounds import BEYOND, catalogue

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs" / "proofs").glob("*.md"))}
LINK = re.compile(r"docs/proofs/(\w+\.md)#([\w-]*)")
LEADS_NOWHERE = (
    "these links to proofs lead nowhere: write the page or the section (a heading with ##) in docs/proofs, or name one "
    "that is there; the part after # is the heading in small letters, with dashes for spaces"
)
CODE = [path for folder in ("ntkfl", "bounds", "experiments") for path in sorted((ROOT / folder).rglob("*.py"))]


def anchors(text):
    """Returns the anchors of a page's headings, which consist of plain words.

    GitHub and Sphinx make the same anchors from such headings.
    """
    titles = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    assert [title for title in titles if not re.fullmatch(r"[\w ]+", title)] == []
    return [title.lower().replace(" ", "-") for title in titles]


def absent(text):
    """Returns the links to proofs in a text that lead nowhere."""
    return [m.group() for m in LINK.finditer(text) if m[2] not in anchors(PAGES.get(m[1], ""))]


def test_a_link_to_a_proof_finds_it():
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in CODE}
    assert any(LINK.search(text) for text in texts.values())
    assert not {where: missing for where, text in texts.items() if (missing := absent(text))}, LEADS_NOWHERE
    assert not [statement.id for statement in catalogue().values() if absent(str(statement.source))], LEADS_NOWHERE


def test_a_link_that_leads_nowhere_is_found():
    assert absent("docs/proofs/gone.md#setting, docs/proofs/linear_methods.md#setting") == [
        "docs/proofs/gone.md#setting"
    ]
    assert absent("docs/proofs/linear_methods.md#nowhere") == ["docs/proofs/linear_methods.md#nowhere"]


def test_the_index_lists_every_page():
    listed = re.findall(r"^(\w+)$", PAGES["index.md"].partition("```{toctree}")[2], re.MULTILINE)
    assert sorted(f"{name}.md" for name in listed) == sorted(PAGES.keys() - {"index.md"}), (
        "the toctree of docs/proofs/index.md lists the pages of docs/proofs, each by its name: add or take away a line"
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_what_there_is(name):
    text = PAGES[name]
    papers = "|".join(sorted({identifier.partition("/")[0] for identifier in catalogue()}))
    assert set(re.findall(rf"`((?:{papers})/[^`]+)`", text)) <= set(catalogue())
    named = re.findall(r"`((?:tests|proofs|ntkfl|bounds)/[\w/]+\.(?:py|v))`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert len(anchors(text)) == len(set(anchors(text)))


@pytest.mark.parametrize("name", PAGES)
def test_a_theorem_of_coq_is_in_its_file(name):
    for names, file in re.findall(r"Coq: (.*?) in `(proofs/\w+\.v)`", PAGES[name]):
        theorems = re.findall(r"`(\w+)`", names)
        assert theorems and set(theorems) <= set(re.findall(r"(?:Theorem|Lemma) (\w+)", (ROOT / file).read_text()))


def test_every_result_of_ours_names_a_section_and_no_source_is_unpublished():
    for statement in catalogue().values():
        if statement.source.paper == BEYOND:
            assert LINK.search(statement.source.label), (
                f"the source of {statement.id} is {statement.source.label!r}: a result of ours has its proof in "
                "docs/proofs; write Source(BEYOND, 'docs/proofs/PAGE.md#section')"
            )
    unpublished = re.compile(r"\bour notes\b|\bnote on theorems", re.IGNORECASE)
    sources = {statement.id: statement.source.label for statement in catalogue().values()}
    sources |= {path.name: path.read_text() for path in (ROOT / "experiments" / "studies").rglob("*.py")}
    assert [where for where, text in sources.items() if unpublished.search(" ".join(text.split()))] == []
