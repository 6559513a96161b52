"""Tests of the paper: it has the form that JOSS asks for, and it cites exactly the works that it lists.

The paper's numbers and authors are those of the project.
"""

import re
from pathlib import Path

import pytest

from bounds.papers import own
from experiments.citing import TOOL, YEAR
from ntkfl.version import VERSION

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paper" / "paper.md").read_text()
BIB = (ROOT / "docs" / "paper" / "paper.bib").read_text()
CITATION = (ROOT / "CITATION.cff").read_text()
FRONT, BODY = TEXT.split("---\n")[1], TEXT.split("---\n", 2)[2]


@pytest.mark.parametrize(
    "title",
    [
        "Summary",
        "Statement of need",
        "State of the field",
        "Design",
        "How it was tested",
        "AI usage disclosure",
        "References",
    ],
)
def test_it_has_the_sections_of_the_form(title):
    assert f"\n# {title}\n" in BODY


def test_it_is_as_long_as_the_form_asks():
    assert 500 <= len(BODY.split()) <= 1750
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(
        re.findall(r"^(\w+):", FRONT, re.M)
    )


def test_it_cites_what_it_lists_and_lists_what_it_cites():
    listed = re.findall(r"^@\w+{(\w+),", BIB, re.MULTILINE)
    assert sorted(listed) == sorted(set(re.findall(r"@(\w+)", BODY)))
    assert BIB.count("{") == BIB.count("}") and len(re.findall(r"^  year +=", BIB, re.M)) == len(listed)


def test_its_numbers_are_those_of_the_catalogue():
    said = map(int, re.search(r"more than (\d+) statements in more than (\d+) forms", BODY).groups())
    now = len(own()), sum(len(statement.forms) for statement in own().values())
    for least, count in zip(said, now, strict=True):
        assert least < count <= 1.2 * least, f"docs/paper/paper.md says more than {least}; now there are {count}"


def test_the_project_is_cited_alike_everywhere():
    assert CITATION.count("name: The ntkfl project\n") == 2 and f"  year: {YEAR}\n" in CITATION
    assert CITATION.count(f"version: {VERSION}\n") == 2
    assert "{{The ntkfl project}}" in TOOL and f"year      = {{{YEAR}}}" in TOOL
    assert "name: The ntkfl project" in FRONT and f"date: {YEAR}" in FRONT
