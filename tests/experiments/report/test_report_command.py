"""`ntkfl report` for a user: its files, its refusals, its exit status."""

import json
from dataclasses import replace

import pytest
from report_examples import a_verdict
from typed import command

from bounds import Outcome, get
from experiments.report.verdict_file import read
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
