"""Tests that every command can be called as a Python function.

The page that lists the functions must be complete, and its names must exist.
"""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import typer

from experiments.command_line import app
from experiments.studies import find
from experiments.studies.whole_run import run_study

PAGE = (Path(__file__).parents[2] / "docs" / "python_and_command_line.md").read_text(encoding="utf-8")
ROWS = [tuple(row) for row in re.findall(r"^\| (`ntkfl .*?) \| (.*) \|$", PAGE, re.MULTILINE)]
NAMES = sorted(set(re.findall(r"`((?:ntkfl|bounds|verification|experiments)\.[\w.]+)`", PAGE)))
SQUARES = Path(__file__).parents[1] / "extensions" / "own_study.py"


@cache
def commands():
    """Returns every command, also those in groups, by its words."""
    paths = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        paths |= {f"ntkfl {name} {child}": below for child, below in inner.items()} if inner else {}
        paths |= {} if inner else {f"ntkfl {name}": command}
    return paths


def test_every_command_has_its_row_and_every_row_its_command():
    said = [cell.split("`")[1] for cell, _ in ROWS]
    assert set(commands()) == {name for name in said if name in commands()}
    for words in said:
        known = [command for name, command in commands().items() if words.startswith(name)]
        assert known, words
        flags = {flag for option in known[0].params for flag in option.opts}
        assert set(re.findall(r"--[\w-]+", words)) <= flags, words


def test_every_row_names_a_function():
    assert len(ROWS) > 25 and all(any(name in functions for name in NAMES) for _, functions in ROWS)


def named(name):
    """Returns the object of a dotted name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            target = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            target = getattr(target, part)
        return target
    raise AssertionError(name)


def test_every_name_is_there_and_says_what_it_does():
    for name in NAMES:
        assert callable(named(name)) and inspect.getdoc(named(name)), name


def test_a_study_in_one_call_goes_on_and_answers(tmp_path):
    cells, answers = run_study(str(SQUARES), tmp_path)
    assert [(a.claim, a.outcome.value) for a in answers] == [("area ~ side^2", "holds")]
    assert cells["area"].values.tolist() == [[4.0], [16.0]]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("*.*")}
    again, _ = run_study(str(SQUARES), tmp_path, {"side": "2.0,4.0,8.0"})
    assert again["area"].values.tolist() == [[4.0], [16.0], [64.0]] and find(str(SQUARES)).name == "squares"
    assert before and all(path.stat().st_mtime_ns == when for path, when in before.items())
