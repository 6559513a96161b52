"""Tests of the pages in prose: the command line accepts every command that they show."""

import re
import shlex
from functools import cache
from pathlib import Path

import execute
import pytest
import typer

from experiments.command_line import app

ROOT = Path(__file__).parents[2]
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?:sh|console)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL_CELL = re.compile(r"^# !(ntkfl .*)$", re.MULTILINE)


def _commands() -> list[str]:
    """Returns the shown lines that begin with `ntkfl`, without comments; continued lines are joined."""
    text = [block for page in PROSE for block in FENCE.findall(page.read_text())]
    text += ["\n".join(SHELL_CELL.findall((execute.PAGES / f"{name}.py").read_text())) for name in execute.names()]
    lines = [line for block in text for line in block.replace("\\\n", " ").splitlines()]
    return sorted({re.split(r"\s+#|[|;&]|\s>", line)[0].strip() for line in lines if line.startswith("ntkfl ")})


# Cached, because making the command with all its subcommands takes a while.
command_line = cache(lambda: typer.main.get_command(app))


def _refused(line: str) -> str | None:
    """Returns why the command line refuses a line, or None if the command and its options exist."""
    words, command = shlex.split(line)[1:], command_line()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if getattr(command, "commands", None) and not (words and words[0].startswith("-")):
        return f"no command {words[:1]}"
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    # A study's axes are options too, whose names the command does not list.
    free = command.context_settings.get("ignore_unknown_options", False)
    unknown = [w for word in words if (w := word.partition("=")[0]).startswith("--") and w not in options | {"--help"}]
    return f"no option {unknown[0]}" if unknown and not free else None


@pytest.mark.parametrize("line", _commands())
def test_a_command_is_one_that_there_is(line):
    assert _refused(line) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [("ntkfl verfy", "no command"), ("ntkfl study", "no command"), ("ntkfl verify --dat x", "no option --dat")],
)
def test_one_that_there_is_not_is_found(line, why):
    assert why in str(_refused(line))


@pytest.mark.parametrize("name", execute.names())
def test_the_readme_names_every_guide_by_its_title(name):
    title = next(cell.source for cell in execute.source(name).cells if cell.source.startswith("# ")).splitlines()[0]
    assert f"[{title[2:].partition(':')[0]}](docs/executed/{name}.ipynb)" in (ROOT / "README.md").read_text()
