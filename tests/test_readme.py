"""Tests of the README: its Python prints the shown text, and its table is the recorded table.

FINDINGS.md has the expected sentences.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pictures
import pytest
from execute import with_totals
from outputs import assert_same

from bounds import Outcome
from bounds.papers import own

ROOT = Path(__file__).parent.parent
README, FINDINGS = (ROOT / "README.md").read_text(), (ROOT / "FINDINGS.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```", README, flags=re.DOTALL)
TABLE = re.search(r"<!-- verify -->\n```\n(.*?)```", README, flags=re.DOTALL)[1].strip().splitlines()
TOTALS = " ".join(re.search(r"(?m)^\d+ verdicts: .*(\n  .*)*$", "\n".join(TABLE))[0].split())


def test_there_is_a_python_block():
    assert len(BLOCKS) == README.count("```python") == 1


@pytest.mark.parametrize(("code", "shown"), BLOCKS)
def test_a_python_block_prints_what_is_shown(code, shown, capsys):
    exec(code, {})
    assert_same(capsys.readouterr().out, shown)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "shown"), BLOCKS)
def test_a_python_block_needs_no_more_than_it_imports(code, shown):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(done.stdout, shown)


STORY = re.search(r"```\n(\$ ntkfl .*?)```", README, flags=re.DOTALL)[1].splitlines()


def test_the_story_of_the_attack_is_the_one_that_the_guide_was_executed_with():
    guide = nbformat.read(ROOT / "docs/executed/statements_in_ci.ipynb", as_version=4)
    printed = "".join(output.get("text", "") for cell in guide.cells for output in cell.get("outputs", ()))
    told = STORY[STORY.index("$ ntkfl attack my_lemma.py --budget 60s") + 1 :]
    assert len(told) > 5 and set(told) <= set(printed.splitlines())


@pytest.mark.slow
def test_the_story_begins_with_a_lemma_that_holds_in_every_trial(tmp_path):
    guide = nbformat.read(ROOT / "docs/executed/statements_in_ci.ipynb", as_version=4)
    (file,) = (cell.source for cell in guide.cells if cell.source.startswith("%%writefile my_lemma.py\n"))
    (tmp_path / "my_lemma.py").write_text(file.partition("\n")[2])
    command, first = STORY[:2]
    words = [sys.executable, "-m", "experiments", *command.removeprefix("$ ntkfl ").split()]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[0] == first


def _forms(wanted=lambda claim: True):
    return {(i, form.value) for i, s in own().items() for form, claim in s.forms.items() if wanted(claim)}


def test_the_table_begins_with_forms_that_fail_and_ends_as_the_findings_do():
    rows = [line.split()[:3] for line in TABLE if line.startswith("violated")]
    assert rows and {(i, form) for _, i, form in rows} <= _forms(lambda claim: claim.recorded is Outcome.VIOLATED)
    assert f"{TOTALS}." in FINDINGS


def test_the_numbers_of_the_readme_are_those_of_the_findings_and_docs_execute_writes_them():
    rows = [line.split() for line in TABLE if line.startswith("violated")]
    for outcome, i, form, trials, tightness, *_ in rows:
        assert f"| {outcome} | {i} | {form} | {trials} | {tightness} |" in FINDINGS
    assert with_totals(README, FINDINGS) == README
    stale = re.sub(r"(?m)^\d+ verdicts: \d+", "9 verdicts: 1", README).replace(" known failures", "1 known failures")
    stale = stale.replace(f" {rows[0][3]} ", f" {'7'.rjust(len(rows[0][3]))} ")
    assert stale != README and with_totals(stale, FINDINGS) == README


def test_the_findings_page_is_of_forms_that_are_there_and_says_what_changes_where_one_differs():
    """The findings page has existing forms only, and says what changes where a form differs.

    `ntkfl findings` writes the page, so a form that is newer than the page may be missing there.
    """
    every = FINDINGS[FINDINGS.index("## All verdicts") :]
    cells = [[cell.strip() for cell in line.split("|")] for line in every.splitlines() if line.startswith("|")]
    outcomes = {(row[2].replace("\\", ""), row[3]): row[1] for row in cells[2:]}
    assert len(outcomes) == len(cells) - 2 and outcomes.keys() <= _forms()
    shown = re.findall(r"^#### (\S+), (\w+):", FINDINGS, flags=re.MULTILINE)
    assert {(i.replace("\\", ""), form) for i, form in shown} == outcomes.keys() & _forms(lambda claim: claim.nature)
    failing = list(outcomes.values()).count("violated")
    assert TOTALS.startswith(f"{len(outcomes)} verdicts: ")
    assert failing == sum(map(int, re.findall(r"(\d+) violated as", TOTALS)))
    assert "; 0 differ from what is recorded" in FINDINGS


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_what_the_readme_links_to_is_there(target):
    assert (ROOT / target).exists()


def test_the_picture_is_drawn_from_the_stored_numbers_and_shows_a_form_that_fails_beside_one_that_holds():
    """The picture is drawn from the stored numbers, and shows a form that fails beside one that holds.

    Only words and the number of marks are compared, because another version of matplotlib may place words and marks
    differently.
    """

    def seen(svg):
        return re.findall(r"<!-- (.*?) -->", svg), svg.count("<use ")

    for file, narrow, tag in ((pictures.FRONT, False, "img src"), (pictures.ON_A_PHONE, True, "srcset")):
        kept = file.read_text()
        assert seen(kept) == seen(pictures.front(narrow).decode()) and "prefers-color-scheme:dark" in kept
        words = " ".join(seen(kept)[0])
        assert "recorded: violated" in words and "recorded: holds" in words
        assert f'{tag}="docs/{file.name}"' in README.partition("## ")[0]
