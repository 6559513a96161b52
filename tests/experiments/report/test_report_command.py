"""Tests of `ntkfl report` as a user types it: its files, refusals and exit status.

From two runs it says what changed and what got worse.
"""

import json
from dataclasses import replace

import pytest
from report_examples import a_verdict
from typed import command

from bounds import Form, Outcome, get
from experiments.report.comparison import compared
from experiments.report.verdict_file import VerdictFile, read
from verification.facts import Data
from verification.verdict_list import as_json, as_markdown

VERDICTS = [a_verdict("fl-ntk/B.12", form) for form in get("fl-ntk/B.12").forms]


def ntkfl(*words):
    return command("report", *words)


@pytest.fixture
def kept(tmp_path):
    def write(verdicts, name="verdicts.json"):
        path = tmp_path / name
        path.write_text(json.dumps(as_json(verdicts, {"complete": True}), allow_nan=False))
        return path

    return write


def test_pages_markdown_and_json_of_the_same_verdicts(tmp_path, kept):
    out, markdown, copy = tmp_path / "report", tmp_path / "v.md", tmp_path / "copy.json"
    done = ntkfl("--verdicts", kept(VERDICTS), "--out", out, "--markdown", markdown, "--json", copy)
    assert done.exit_code == 0, done.output
    assert (out / "statements" / "fl-ntk-b-12.html").is_file() and (out / "index.html").is_file()
    assert markdown.read_text() == as_markdown(VERDICTS)
    assert read(copy).verdicts == tuple(VERDICTS)


def test_again_into_its_own_folder(tmp_path, kept):
    for _ in range(2):
        assert ntkfl("--verdicts", kept(VERDICTS), "--out", tmp_path / "report").exit_code == 0
    (tmp_path / "report" / "mine.txt").write_text("kept")
    refused = ntkfl("--verdicts", kept(VERDICTS), "--out", tmp_path / "report")
    assert refused.exit_code == 2 and "error: " in refused.output and "mine.txt" in refused.output


@pytest.mark.parametrize(("words", "said"), [
    ([], "nothing to report: give --verdicts FILE, --studies DIR, --conformance FILE or --compare OLD NEW"),
    (["--verdicts", "{file}"], "give --out FOLDER for the pages"),
    (["--studies", "{folder}", "--markdown", "{folder}/v.md"], "give --verdicts FILE"),
    (["--compare", "{file}", "{file}", "--verdicts", "{file}"], "--compare reports its second file"),
    (["--verdicts", "{folder}/none.json", "--out", "{folder}/r"], "No such file"),
    (["--studies", "{folder}", "--out", "{folder}/r"], "is no study's folder"),
    (["--conformance", "{file}", "--out", "{folder}/r"], "is not a file that `ntkfl conform run --json` wrote"),
    (["--verdicts", "{file}", "--json", "{file}"], "the output needs a file of its own"),
    (["--compare", "{file}", "{file}", "--factor", "0"], "the factor is 0.0; it must be at least 1"),
])  # fmt: skip
def test_bad_input_is_one_line_and_status_2(tmp_path, kept, words, said):
    names = {"file": kept(VERDICTS), "folder": tmp_path}
    done = ntkfl(*(word.format(**names) for word in words))
    assert done.exit_code == 2 and said in done.output and "Traceback" not in done.output


@pytest.mark.parametrize(("content", "said"), [
    ("{", "is not a file that `ntkfl verify --json` wrote"),
    ("[]", "is not a file that `ntkfl verify --json` wrote"),
    ('{"verdicts": [{}], "provenance": {}}', "is not a file that `ntkfl verify --json` wrote: verdicts[0] has no "),
    ('{"verdicts": 3, "provenance": {}}', "'verdicts' is 3; here it is a list: verify again"),
    ('{"verdicts": []}', "the content has no provenance: verify again"),
    ('{"verdicts": [], "provenance": {"complete": "no"}}', "'provenance.complete' is 'no'; here it is true or false"),
])  # fmt: skip
def test_a_file_of_another_sort_is_refused(tmp_path, content, said):
    (tmp_path / "v.json").write_text(content)
    done = ntkfl("--verdicts", tmp_path / "v.json", "--out", tmp_path / "r")
    assert done.exit_code == 2 and said in done.output and not (tmp_path / "r").exists()


def test_a_verdict_that_is_there_twice_or_unknown_is_refused(tmp_path, kept):
    done = ntkfl("--verdicts", kept([VERDICTS[0]] * 2), "--out", tmp_path / "r")
    assert done.exit_code == 2 and "two verdicts of fl-ntk/B.12 (stated)" in done.output
    done = ntkfl("--verdicts", kept([replace(VERDICTS[0], id="fl-ntk/Z.9")]), "--out", tmp_path / "r")
    assert done.exit_code == 2 and "fl-ntk/Z.9, a statement that this version does not have" in done.output


def test_a_comparison_prints_changes_and_its_status_says_whether_one_is_worse(tmp_path, kept):
    old = kept(VERDICTS, "old.json")
    worse = kept([replace(VERDICTS[-1], outcome=Outcome.VIOLATED), *VERDICTS[:-1]], "new.json")
    assert ntkfl("--compare", old, old).exit_code == 0
    done = ntkfl("--compare", old, worse, "--out", tmp_path / "r")
    assert done.exit_code == 1 and "holds -> violated, against the record  WORSE" in done.output
    assert "<strong>worse</strong>" in (tmp_path / "r" / "changes.html").read_text()
    assert ntkfl("--compare", worse, old).exit_code == 0


def test_a_comparison_knows_statements_that_this_version_does_not_have(kept):
    other = kept([replace(v, id="fl-ntk/Z.9") for v in VERDICTS], "other.json")
    done = ntkfl("--compare", other, kept(VERDICTS))
    assert done.exit_code == 0 and "fl-ntk/Z.9 (stated)  gone: violated -> not there" in done.output


HELD = a_verdict("fl-ntk/B.12", Form.REPAIRED)
BROKEN = a_verdict("fl-ntk/B.12", Form.STATED)
KINDS = {"outcome", "tightness", "mutants", "new", "gone"}


def changes(old, new, **options):
    return compared(VerdictFile(tuple(old), {}), VerdictFile(tuple(new), {}), **options)


def test_a_run_is_like_itself():
    same = changes([HELD, BROKEN], [HELD, BROKEN])
    assert same.changes == () and not same.worse
    assert same.as_text() == "2 verdicts in both: nothing changed; 0 worse"


@pytest.mark.parametrize("before", [o for o in Outcome if o is not Outcome.OPEN])
@pytest.mark.parametrize("now", [o for o in Outcome if o is not Outcome.OPEN])
def test_of_a_form_that_should_hold_only_what_fails_to_is_worse(before, now):
    fine = {Outcome.HOLDS, Outcome.TOUCHES}
    comparison = changes([replace(HELD, outcome=before)], [replace(HELD, outcome=now)])
    assert [change.what for change in comparison.changes] == (["outcome"] if before is not now else [])
    if now in fine or before is now:
        assert not comparison.worse
    elif before in fine or now is Outcome.VIOLATED:
        assert comparison.worse


@pytest.mark.parametrize("now", [Outcome.UNTESTED, Outcome.UNRESOLVED, Outcome.VIOLATED, Outcome.TOUCHES])
def test_on_own_data_what_no_longer_holds_is_worse(now):
    """On a user's own data a statement that no longer holds is worse than before.

    This includes a change to untested or unresolved, although only a violation contradicts the record.
    """
    before, after = (replace(HELD, outcome=outcome, data=Data.OWN) for outcome in (Outcome.HOLDS, now))
    assert changes([before], [after]).worse is (now is not Outcome.TOUCHES)
    assert not changes([after], [before]).worse


def test_losing_a_recorded_violation_is_worse_and_finding_it_is_not():
    lost = replace(BROKEN, outcome=Outcome.HOLDS)
    assert changes([BROKEN], [lost]).worse
    assert not changes([lost], [BROKEN]).worse
    assert "violated -> holds, against the record  WORSE" in changes([BROKEN], [lost]).as_text()


def test_a_violation_that_became_the_record_is_worse():
    now = replace(HELD, outcome=Outcome.VIOLATED, recorded=Outcome.VIOLATED)
    assert changes([HELD], [now]).worse


@pytest.mark.parametrize(("before", "now", "said"), [
    (0.5, 0.9, False), (0.5, 1.1, True), (1.1, 0.5, True), (0.5, float("inf"), True), (0.0, 1e-9, True),
    (0.0, 0.0, False), (float("inf"), float("inf"), False), (float("nan"), float("nan"), False), (-1.0, 1.0, True),
])  # fmt: skip
def test_tightness_is_said_to_change_beyond_the_factor(before, now, said):
    old, new = (replace(HELD, tightness={"sharpest": x, "median": 0.1}) for x in (before, now))
    comparison = changes([old], [new])
    assert [change.what for change in comparison.changes] == ["tightness"] * said
    assert not comparison.worse


def test_the_factor_is_the_users_and_at_least_one():
    old, new = (replace(HELD, tightness={"sharpest": x}) for x in (0.5, 0.6))
    assert changes([old], [new], factor=1.1).changes and not changes([old], [new]).changes
    with pytest.raises(ValueError, match=r"the factor is 0\.5; it must be at least 1"):
        changes([old], [new], factor=0.5)


def test_what_is_new_what_is_gone_and_other_mutants_are_said():
    old = [HELD, replace(BROKEN, mutants={"halved": "violated", "doubled": "violated"})]
    new = [BROKEN, a_verdict("fl-ntk/A.1", Form.STATED)]
    comparison = changes(old, new)
    assert [(c.id, c.what) for c in comparison.changes] == [
        ("fl-ntk/B.12", "mutants"), ("fl-ntk/A.1", "new"), ("fl-ntk/B.12", "gone"),
    ]  # fmt: skip
    assert "1 verdicts in both: 1 told other mutants, 1 new, 1 gone; 0 worse" in comparison.as_text()
    assert {c.what for c in comparison.changes} <= KINDS


def test_what_got_worse_comes_first():
    tighter = replace(BROKEN, tightness={"sharpest": 99.0})
    comparison = changes([BROKEN, HELD], [tighter, replace(HELD, outcome=Outcome.VIOLATED)])
    assert [change.worse for change in comparison.changes] == [True, False]
