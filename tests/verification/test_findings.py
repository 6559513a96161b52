"""Tests of the findings page: it has every form that differs, and nothing else.

The stored cases of these forms violate the forms again.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typed import command

from bounds import Form, Nature, Options, Outcome, catalogue, get
from bounds.papers import own, slug
from verification.engine import verify_all
from verification.findings import recorded
from verification.findings.address import CHECKED, address, anchor, check_script, findings_of, replay_path
from verification.findings.findings_page import MEANING, VERSION, as_page
from verification.findings.recorded import recorded_page
from verification.search import read, rejudge, stored_counterexample, written
from verification.verdict_list import as_markdown, totals, worst_first

ASKED = ("fl-ntk/A.1", "fl-ntk/Eq11", "fl-ntk/X.7")


@pytest.fixture(scope="module")
def verdicts():
    return verify_all([get(name) for name in ASKED], Options(trials=20))


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
    page = recorded_page([get(name) for name in ASKED])
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
    assert page.count("\n### ") == sum(claim.nature is not None for name in ASKED for claim in get(name).forms.values())


def test_what_holds_as_printed_and_what_goes_beyond_is_listed_apart(verdicts):
    page = as_page(verdicts)
    after = page[page.index("### Holds as printed") :]
    assert "fl-ntk/Eq11" in after
    assert "fl-ntk/X.7" in after[after.index("### Results beyond the paper") :]
    assert "#### fl-ntk/Eq11" not in page
    # Statement A.1 is in no count, because the form that differs was read in a scan of the paper, not in print.
    assert "Of 1 printed form 1 holds as it stands" in page


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


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "FINDINGS.md").read_text(encoding="utf-8")
SUBSTANCE = sorted(
    (statement.id, form)
    for statement in own().values()
    for form, claim in statement.forms.items()
    if claim.nature in CHECKED
)
DEAR = "deep/centralised"  # The statement trains networks of several widths twice, in one or two minutes.


def kept(identifier, form):
    return (ROOT / replay_path(get(identifier), form)).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("identifier", "form"),
    [pytest.param(*finding, marks=[pytest.mark.slow] * (finding[0] == DEAR)) for finding in SUBSTANCE],
)
def test_a_file_is_the_stored_case_and_violates_its_form_again(identifier, form):
    text = kept(identifier, form)
    replay = read(text)
    assert (replay.statement.id, replay.form) == (identifier, form) and len(text) < 50_000
    again = rejudge(replay)
    assert again.result.violated and again.confirmed
    assert again.same_sides or identifier == DEAR  # The sums of this statement depend on the machine.
    if identifier != DEAR:
        now = written(replay.statement, form, stored_counterexample(replay.statement, form))
        assert json.loads(now)["digest"] == json.loads(text)["digest"]


def test_every_file_has_its_finding():
    files = sorted(path.name for path in (ROOT / "docs" / "checks").glob("*.json"))
    assert files == sorted(f"{slug(identifier)}.json" for identifier, _ in SUBSTANCE)


def test_the_command_replays_a_file_of_a_claim_that_speaks_of_a_limit():
    done = command("attack", "--replay", ROOT / "docs/checks/fl_ntk_c_10.json")
    assert done.exit_code == 0 and "fl-ntk/C.10 stated: VIOLATED, as the file says" in done.stdout
    assert "as in the file, bit for bit" in done.stdout


def test_another_case_of_such_a_claim_is_not_taken_for_the_stored_one():
    statement = get("fl-ntk/C.10")
    replay = read(kept("fl-ntk/C.10", Form.STATED))
    assert rejudge(replay).confirmed
    other = type(replay)(statement, Form.REPAIRED, replay.case, replay.sides)  # This form has no stored case.
    assert "no network to draw anew" in rejudge(other).how


def test_a_stored_case_that_is_not_there_or_does_not_violate_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"fl-ntk/C\.10 repaired has no stored case; it needs a witness"):
        stored_counterexample(get("fl-ntk/C.10"), Form.REPAIRED)
    claim = get("fedgucci/F2-smooth").forms[Form.STATED]
    harmless = replace(claim.witness(), length=1.0)
    monkeypatch.setitem(claim.__dict__, "witness", lambda: harmless)
    with pytest.raises(ValueError, match=r"does not violate it .*; a replay file needs a violation"):
        stored_counterexample(get("fedgucci/F2-smooth"), Form.STATED)


def test_all_of_them_are_written_by_the_command(tmp_path, monkeypatch):
    cheap = {i: s for i, s in own().items() if i in ("averaging/I10", "fl-ntk/A.1")}
    monkeypatch.setattr(recorded, "own", lambda: cheap)
    assert dict(recorded.stored_replays()).keys() == {"averaging_i10.json"}


def test_addresses_are_ids_and_every_one_is_an_anchor_of_the_page():
    assert address(get("fl-ntk/C.10"), Form.STATED) == "findings.html#fl-ntk-C.10-stated"
    wanted = [anchor(statement, form) for statement in own().values() for form in findings_of(statement)]
    addresses = re.findall(r'^<a id="([^"]+)"></a>\n\n#### ', PAGE, flags=re.MULTILINE)
    assert sorted(addresses) == sorted(wanted) and len(set(addresses)) == len(addresses)
    assert all(re.fullmatch(r"[A-Za-z][\w.-]*", name) for name in addresses)


def test_the_page_links_to_every_check_and_replay_file_and_they_are_there():
    links = set(re.findall(r"\]\((docs/checks/[^)]+)\)", PAGE))
    assert links == {path(get(i), form) for i, form in SUBSTANCE for path in (check_script, replay_path)}
    assert all((ROOT / link).is_file() for link in links)
    assert check_script(get("fl-ntk/B.12"), Form.STATED) is None
