"""The files beside the checks of findings: the stored cases, which violate their forms again."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typed import command

from bounds import Form, get
from bounds.papers import own, slug
from verification.findings import recorded
from verification.findings.address import CHECKED, address, anchor, check_script, findings_of, replay_path
from verification.search import read, rejudge, stored_counterexample, written

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "FINDINGS.md").read_text(encoding="utf-8")
SUBSTANCE = sorted(
    (statement.id, form)
    for statement in own().values()
    for form, claim in statement.forms.items()
    if claim.nature in CHECKED
)
DEAR = "deep/centralised"  # trains ladders of networks twice, in one or two minutes


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
    assert again.seen.violated and again.confirmed
    assert again.same_sides or identifier == DEAR  # the sums of DEAR depend on the machine
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
    other = type(replay)(statement, Form.REPAIRED, replay.case, replay.sides)  # a form without a stored case
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
