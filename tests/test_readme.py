"""The README's Python blocks run and print what they are said to; its glossary is the one formulas are written in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bounds.listing import catalogue
from bounds.symbols import GLOSSARY

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```", README, flags=re.DOTALL)
NUMBER = re.compile(r"(?<![\w±])-?\d+\.?\d*(?:e[+-]?\d+)?")
ERROR = re.compile(r"± \S+")


def test_there_are_blocks():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize(("code", "shown"), BLOCKS)
def test_a_python_block_prints_what_is_shown(code, shown):
    """Words agree exactly; numbers to 2%, since rounding differs between machines; errors only in being given."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, shown = ERROR.sub("±", done.stdout.strip()), ERROR.sub("±", shown.strip())
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    ours, theirs = ([float(x) for x in NUMBER.findall(text)] for text in (printed, shown))
    assert ours == pytest.approx(theirs, rel=0.02)


def test_the_verify_table_lists_every_statement_and_form():
    table = re.search(r"<!-- verify -->\n```\n(.*?)```", README, flags=re.DOTALL)[1]
    rows = {tuple(line.split()[1:3]) for line in table.splitlines()[1:] if line.count("fl-ntk/") == 1}
    assert rows == {(identifier, form.value) for identifier, s in catalogue().items() for form in s.forms}


@pytest.mark.parametrize("symbol", GLOSSARY, ids=str)
def test_the_glossary_has_every_symbol(symbol):
    name, _ = GLOSSARY[symbol]
    assert f"| {symbol} | `{name}` |" in README
