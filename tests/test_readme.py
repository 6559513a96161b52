"""The README: its Python blocks print what they are said to, its glossary is complete; and so is FINDINGS.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bounds.listing import catalogue
from bounds.statement import Outcome
from bounds.symbols import GLOSSARY

ROOT = Path(__file__).parent.parent
README, FINDINGS = (ROOT / "README.md").read_text(), (ROOT / "FINDINGS.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```", README, flags=re.DOTALL)
NUMBER = re.compile(r"(?<![\w±])-?\d+\.?\d*(?:e[+-]?\d+)?")
ERROR = re.compile(r"± \S+")


def test_there_are_blocks():
    assert len(BLOCKS) == 4


@pytest.mark.parametrize(("code", "shown"), BLOCKS)
def test_a_python_block_prints_what_is_shown(code, shown):
    """Words agree exactly; numbers to 2%, since rounding differs between machines; errors only in being given."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, shown = ERROR.sub("±", done.stdout.strip()), ERROR.sub("±", shown.strip())
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    ours, theirs = ([float(x) for x in NUMBER.findall(text)] for text in (printed, shown))
    assert ours == pytest.approx(theirs, rel=0.02)


def _forms(wanted=lambda statement, form: True):
    return {(i, form.value) for i, s in catalogue().items() for form in s.forms if wanted(s, form)}


def test_the_readme_shows_every_form_that_fails():
    table = re.search(r"<!-- verify -->\n```\n(.*?)```", README, flags=re.DOTALL)[1]
    rows = [line.split()[:3] for line in table.splitlines() if line.count("/")]
    assert {(i, form) for outcome, i, form in rows if outcome == "violated"} == _forms(
        lambda statement, form: statement.recorded[form] is Outcome.VIOLATED
    )


def test_the_findings_page_has_every_statement_and_form_and_says_what_changes_where_one_differs():
    every = FINDINGS[FINDINGS.index("## All verdicts") :]
    cells = [[cell.strip() for cell in line.split("|")] for line in every.splitlines() if line.startswith("|")]
    assert {(row[2].replace("\\", ""), row[3]) for row in cells[2:]} == _forms()
    shown = re.findall(r"^#### (\S+), (\w+):", FINDINGS, flags=re.MULTILINE)
    assert {(i.replace("\\", ""), form) for i, form in shown} == _forms(lambda s, form: s.forms[form].nature)
    assert "; 0 differ from what is recorded" in FINDINGS


@pytest.mark.parametrize("symbol", GLOSSARY, ids=str)
def test_the_glossary_has_every_symbol(symbol):
    name, _ = GLOSSARY[symbol]
    assert f"| {symbol} | `{name}` |" in README
