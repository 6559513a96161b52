"""`ntkfl new statement`: what it writes is verified as it is, and is clean by the project's own rules."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bounds import Options, Outcome, Provenance, load
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
    (verdict,) = verify(statement, Options(trials=20, width=64, rounds=5))
    assert verdict.outcome is Outcome.HOLDS and verdict.error is None and verdict.trials >= 20
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
        ("fl-ntk/mine", "", "a file bounds/fl_ntk/mine.py of a checkout; run this in one, or choose a paper's name"),
        ("a/b/c", "", "it must be LABEL or PAPER/LABEL"),
        ("12", "", "with a letter first"),
        ("bound", 'a"b', "it must be one line without quotes"),
    ],
)
def test_names_that_no_statement_can_have(name, title, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        new_statement(name, title=title)


def test_in_a_checkout_a_statement_of_its_papers_goes_into_their_folder_and_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bounds/fl_ntk").mkdir(parents=True)
    done = run("new", "statement", "fl-ntk/Z.1", "--about", "initialisation", "--title", "A bound of mine")
    assert done.exit_code == 0 and "ntkfl verify fl-ntk/Z.1" in done.stdout and "bounds.registry" in done.stdout
    code = (tmp_path / "bounds/fl_ntk/z_1.py").read_text()
    names: dict = {}
    exec(compile(code, "z_1.py", "exec"), names)
    (statement,) = names["STATEMENTS"]
    assert (statement.id, statement.source.provenance) == ("fl-ntk/Z.1", Provenance.OURS)
    (verdict,) = verify(statement, Options(trials=5, width=64))
    assert verdict.error is None and verdict.trials >= 5
