"""`ntkfl new statement`: what it writes is verified as it is, and is clean by the project's own rules."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bounds.brought import load
from bounds.options import Options
from bounds.statement import Outcome
from experiments.command_line import app
from experiments.new_statement import new_statement
from verification.engine import verify


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("about", ["training", "initialisation"])
def test_the_file_runs_as_it_is_and_is_clean(tmp_path, about):
    path = tmp_path / "mine.py"
    done = run("new", "statement", f"drafts-{about}/T1", "--about", about, "--title", "A bound of mine", "--out", path)
    assert done.exit_code == 0 and f"ntkfl verify {path}" in done.stdout, done.output
    (statement,) = load(path)
    assert (statement.id, statement.title) == (f"drafts-{about}/T1", "A bound of mine")
    (found,) = verify(statement, Options(trials=20, width=64, rounds=5))
    assert found.outcome is Outcome.HOLDS and found.error is None and found.trials >= 20
    lint = [sys.executable, "-m", "ruff"]
    for how in (
        ("check", "--isolated", "--line-length", "120"),
        ("format", "--isolated", "--line-length", "120", "--check"),
    ):
        checked = subprocess.run([*lint, *how, str(path)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_file_that_is_there_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new", "statement", "my-bound").exit_code == 0
    (tmp_path / "my_bound.py").write_text("mine")
    again = run("new", "statement", "my-bound")
    assert again.exit_code == 2 and "my_bound.py: File exists" in again.stderr
    assert (tmp_path / "my_bound.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("fl-ntk/B.12", "", "there is a statement fl-ntk/B.12 already"),
        ("fl-ntk/mine", "", "choose a paper's name of your own"),
        ("a/b/c", "", "it must be LABEL or PAPER/LABEL"),
        ("12", "", "with a letter first"),
        ("bound", 'a"b', "it must be one line without quotes"),
    ],
)
def test_names_that_no_statement_can_have(name, title, said):
    with pytest.raises(ValueError, match=said):
        new_statement(name, title=title)
