"""The findings page has every form that differs, with its evidence and replay, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from bounds import Form, Nature, Options, Outcome, catalogue, get
from verification.engine import verify_all
from verification.findings.findings_page import MEANING, VERSION, as_page
from verification.findings.recorded import recorded_page
from verification.verdict_list import as_markdown, totals, worst_first

CHECKED = ("fl-ntk/A.1", "fl-ntk/Eq11", "fl-ntk/X.7")


@pytest.fixture(scope="module")
def verdicts():
    return verify_all([get(name) for name in CHECKED], Options(trials=20))


def test_a_violated_form_is_shown_with_what_holds_what_it_was_read_from_and_the_command(verdicts):
    page = as_page(verdicts)
    entry = page[page.index("#### fl-ntk/A.1, stated") :]
    assert "VIOLATED" in entry
    assert "**holds**" in entry
    assert "`ntkfl verify fl-ntk/A.1 --form stated --seed 0 --trials 20`" in entry
    assert "both appendices: a scan that a machine read; the lemma occurs once" in entry
    assert "**evidence by kind**: sampled, enclosed (FINDINGS.md" in entry
    assert "(docs/how_we_read.md#how-to-object), with `fl-ntk/A.1`, stated" in entry
    assert page.index("### Scan") < page.index("#### fl-ntk/A.1, stated") < page.index("### Holds as printed")


def test_what_is_recorded_is_said_in_the_same_words_without_a_verdict(verdicts):
    measured = as_page(verdicts).splitlines()
    page = recorded_page([get(name) for name in CHECKED])
    start = measured.index(
        "#### " + next(line[4:] for line in page.splitlines() if line.startswith("### fl-ntk/A.1, "))
    )
    entry = [line for line in measured[start:] if line.startswith("- **")]
    for part in (
        "printed, as the scan reads",
        "holds",
        "left side",
        "read from",
        "why",
        "for a reader",
        "evidence by kind",
    ):
        (said,) = [line for line in entry if line.startswith(f"- **{part}**")]
        assert said in page
    assert "- **recorded**: violated" in page and "- **evidence**" not in page and "`ntkfl findings --measure`" in page
    assert page.count("\n### ") == sum(
        claim.nature is not None for name in CHECKED for claim in get(name).forms.values()
    )


def test_what_holds_as_printed_and_what_goes_beyond_is_listed_apart(verdicts):
    page = as_page(verdicts)
    after = page[page.index("### Holds as printed") :]
    assert "fl-ntk/Eq11" in after
    assert "fl-ntk/X.7" in after[after.index("### Results beyond the paper") :]
    assert "#### fl-ntk/Eq11" not in page
    assert "Of 1 printed form 1 holds as it stands" in page  # no count includes A.1's reading by a scan


def test_a_form_that_no_longer_holds_is_not_offered_as_what_holds(verdicts):
    broken = [
        replace(v, outcome=Outcome.VIOLATED) if (v.id, v.form) == ("fl-ntk/A.1", Form.REPAIRED) else v for v in verdicts
    ]
    page = as_page(broken)
    assert "**holds**" not in page[page.index("#### fl-ntk/A.1, stated") : page.index("### Holds as printed")]


def test_what_a_scan_or_a_report_alone_says_is_in_no_count(verdicts):
    scanned = [v for v in verdicts if v.id == "fl-ntk/A.1"]
    assert totals(scanned) == ("2 verdicts: 1 hold, 1 violated as a scan reads; 0 differ from what is recorded")
    charged = replace(scanned[0], id="fl-ntk/T4.3", recorded=Outcome.VIOLATED)
    assert worst_first([*scanned, charged])[0] is charged
    assert as_markdown(scanned).count("as a scan reads") == 2  # once in the totals and once in the table's remark
    assert "Of 1 printed form 0 hold as they stand. Of the others: 1 lack a hypothesis" not in as_page([charged])
    assert "1 lacks a hypothesis" in as_page([charged])
    assert "None of its forms was read in print" in as_page(scanned)


def test_the_versions_are_those_that_were_read():
    table = (Path(__file__).parents[2] / "docs" / "how_we_read.md").read_text()
    papers = {statement.source.paper for statement in catalogue().values()}
    assert set(VERSION) <= papers
    for version in VERSION.values():
        assert all(part in table for part in version.split(", and the ")), version


def test_every_nature_has_a_section():
    assert set(MEANING) == set(Nature)


def test_every_form_that_differs_says_what_changes_for_a_reader():
    for identifier, statement in catalogue().items():
        for form, claim in statement.forms.items():
            assert bool(claim.consequence) == bool(claim.nature), f"{identifier}, {form.value}"
