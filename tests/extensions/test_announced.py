"""Tests of an installed package that announces a theorem, a method and a study: they are listed and run like the
project's own.
"""

import os
import shutil
import subprocess
import sys

import pytest

DRIVER = """
import sys, warnings
from typer.testing import CliRunner
from experiments.command_line import app

def run(line, status=0):
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == status, done.output
    return done.output

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    listed = run("list")
    studies = run("study list")
    from ntkfl.training.methods import catalogue
    assert catalogue()["shrunk"].__name__ == "plugin.method"
said = listed + "\\n".join(str(one.message) for one in seen)
assert "mine/T1" in listed and "fl-ntk/B.12" in listed
assert "squares: with which power" in studies and "width-scaling:" in studies
for words in (
    "plugin announces plugin.missing as ntkfl.statements, and that fails: ModuleNotFoundError",
    "plugin must have STATEMENTS, a tuple of bounds.Statement; it has none; it is left out",
    "plugin must have a function method(objective, *, options) -> Method; it has none; it is left out",
    "study.py has the study 'squares'; it must be 'circles', as it is announced",
):
    assert words in said, said
print(run("verify mine/T1 --json found.json"))
run("train shrunk --data digits --samples 60 --test 30 --clients 3 --rounds 2 --model mlp:8 --out run")
print(run("study run squares --processes 1 --out cells"))
"""

ENTRIES = """
[ntkfl.statements]
theorem = plugin.theorem
broken = plugin.missing
empty = plugin.nothing
[ntkfl.methods]
shrunk = plugin.method
empty = plugin.named
[ntkfl.studies]
squares = plugin.study
circles = plugin.study
"""


@pytest.mark.slow
def test_what_a_package_announces_is_listed_verified_trained_and_run(folder):
    package = folder / "plugin"
    package.mkdir()
    for kind in ("theorem", "method", "study"):
        shutil.copy(folder / f"my_{kind}.py", package / f"{kind}.py")
    (package / "__init__.py").write_text("")
    (package / "nothing.py").write_text("")
    (package / "named.py").write_text("NAME = 'named'\n")
    about = folder / "plugin-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 killed" in done.stdout and "ntkfl verify mine/T1 " in done.stdout and "plugin 1.2" in done.stdout
    assert "area ~ side^2" in done.stdout
    for kept in ("found.json", "run/config.toml", "cells/results.nc"):
        assert (folder / kept).is_file()
