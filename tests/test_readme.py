"""The README: its Python prints what it is said to, its table is what is recorded; and FINDINGS.md is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from outputs import assert_same

from bounds.papers import own
from bounds.statement import Outcome

ROOT = Path(__file__).parent.parent
README, FINDINGS = (ROOT / "README.md").read_text(), (ROOT / "FINDINGS.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```", README, flags=re.DOTALL)
TABLE = re.search(r"<!-- verify -->\n```\n(.*?)```", README, flags=re.DOTALL)[1].strip().splitlines()


def test_there_is_a_python_block():
    assert len(BLOCKS) == README.count("```python") == 1


@pytest.mark.parametrize(("code", "shown"), BLOCKS)
def test_a_python_block_prints_what_is_shown(code, shown):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(done.stdout, shown)


def _forms(wanted=lambda statement, form: True):
    return {(i, form.value) for i, s in own().items() for form in s.forms if wanted(s, form)}


def test_the_readme_counts_statements_and_forms_as_they_are():
    assert f"{len(own())} statements in {len(_forms())} forms" in README


def test_the_table_begins_with_forms_that_fail_and_ends_as_the_findings_do():
    rows = [line.split()[:3] for line in TABLE if line.startswith("violated")]
    failing = _forms(lambda statement, form: statement.recorded[form] is Outcome.VIOLATED)
    assert rows and {(i, form) for _, i, form in rows} <= failing
    assert f"{TABLE[-1]}." in FINDINGS and f"{len(failing)} violated as recorded" in TABLE[-1]


def test_every_row_of_the_table_is_the_one_of_the_findings():
    for line in TABLE:
        if line.startswith("violated"):
            outcome, i, form, trials, tightness, *_ = line.split()
            assert f"| {outcome} | {i} | {form} | {trials} | {tightness} |" in FINDINGS


def test_the_findings_page_has_every_statement_and_form_and_says_what_changes_where_one_differs():
    every = FINDINGS[FINDINGS.index("## All verdicts") :]
    cells = [[cell.strip() for cell in line.split("|")] for line in every.splitlines() if line.startswith("|")]
    assert {(row[2].replace("\\", ""), row[3]) for row in cells[2:]} == _forms()
    shown = re.findall(r"^#### (\S+), (\w+):", FINDINGS, flags=re.MULTILINE)
    assert {(i.replace("\\", ""), form) for i, form in shown} == _forms(lambda s, form: s.forms[form].nature)
    assert "; 0 differ from what is recorded" in FINDINGS


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_what_the_readme_links_to_is_there(target):
    assert (ROOT / target).exists()
