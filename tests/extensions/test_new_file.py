"""Tests of `ntkfl new`: the files that it writes run unchanged and keep the project's own rules of style."""

import subprocess
import sys

import pytest
from typed import command as run

from bounds import Options, Outcome, Provenance, load
from experiments.new_file import new_file, new_statement
from verification.engine import verify


@pytest.mark.parametrize("about", ["training", "initialisation", "kernel"])
def test_the_file_runs_as_it_is_and_is_clean(tmp_path, about):
    path = tmp_path / "mine.py"
    done = run("new", "statement", f"drafts-{about}/T1", "--about", about, "--title", "A bound of mine", "--out", path)
    assert done.exit_code == 0 and f"ntkfl verify {path}" in done.stdout, done.output
    (statement,) = load(path)
    assert (statement.id, statement.title) == (f"drafts-{about}/T1", "A bound of mine")
    (verdict,) = verify(statement, Options(trials=20, width=64, rounds=5))
    assert verdict.outcome is Outcome.HOLDS and verdict.error is None and verdict.trials >= 20
    clean(path)


def clean(*paths):
    """Asserts that the files have the project's format and that its linter finds nothing."""
    first_party = "lint.isort.known-first-party=['bounds', 'experiments', 'ntkfl', 'verification']"
    for how in (["check", "--config", first_party], ["format", "--check"]):
        line = [sys.executable, "-m", "ruff", *how, "--isolated", "--line-length", "120", *map(str, paths)]
        checked = subprocess.run(line, capture_output=True, text=True, check=False)
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
    assert statement.source.label == "docs/proofs/PAGE.md#section"
    (verdict,) = verify(statement, Options(trials=5, width=64))
    assert verdict.error is None and verdict.trials >= 5


SMALL = {"data": "digits", "clients": 3, "samples": 60, "test": 30, "rounds": 2, "dtype": "float64"}


@pytest.mark.parametrize(
    ("kind", "next_"),
    [
        ("method", "ntkfl train ./my_own.py --data"),
        ("architecture", "--model ./my_own.py"),
        ("study", "study run ./my_own.py"),
    ],
)
def test_what_to_run_next_is_said_and_a_file_that_is_there_is_left_alone(kind, next_, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("new", kind, "my-own")
    assert done.exit_code == 0 and next_ in done.stdout and "committed" not in done.stdout
    clean(tmp_path / "my_own.py")
    assert "my_own.py: File exists" in run("new", kind, "my-own").stderr


def test_a_new_method_is_fedavg_until_its_radius_is_passed(tmp_path):
    path = str(tmp_path / "my_own.py")
    assert run("new", "method", "my-own", "--out", path).exit_code == 0
    plain, far, near = (
        train(*of, model="mlp:8", **SMALL) for of in (("fedavg", {}), (path, {"radius": 1e6}), (path, {"radius": 1e-3}))
    )
    assert far.metrics["test_loss"].tolist() == plain.metrics["test_loss"].tolist()
    start = near.federation.start().model
    assert sum((near.state.model[k] - start[k]).square().sum() for k in start) ** 0.5 == pytest.approx(2e-3, rel=1e-2)
    with pytest.raises(ValueError, match="radius is 0; it must be positive"):
        train(path, {"radius": 0.0}, model="mlp:8", **SMALL)


def train(method, options, **keys):
    from ntkfl.training import run

    return run(method, options=options, **keys)


def test_a_new_architecture_is_trained_with_the_sizes_asked_for(tmp_path):
    path = tmp_path / "my_own.py"
    assert run("new", "architecture", "my-own", "--out", path).exit_code == 0
    done = train("fedavg", {}, model=f"{path}:5", **SMALL)
    assert done.federation.model.size() == 64 * 5 + 5 + 5 * 10 + 10


def test_a_new_study_has_an_answer(tmp_path):
    import xarray

    from experiments.studies import find

    path = tmp_path / "my_own.py"
    assert run("new", "study", "my-own", "--out", path).exit_code == 0
    study = find(str(path))
    values = {
        q.name: [[study.measure({"local_steps": k, "seed": s})[q.name] for s in range(3)] for k in (2, 4)]
        for q in study.quantities
    }
    cells = xarray.Dataset({name: (("local_steps", "seed"), of) for name, of in values.items()})
    assert [answer.outcome for answer in study.answers(cells)] == [Outcome.HOLDS]


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("method", "fedprox", "there is a method fedprox already"),
        ("architecture", "mlp", "there is an architecture mlp already"),
        ("study", "drift", "there is a study drift already"),
        ("study", "My Study", "it must be of a-z and 0-9 with single dashes between, a letter first, such as my-study"),
    ],
)
def test_names_that_are_taken_or_cannot_be(kind, name, said):
    with pytest.raises(ValueError, match=said):
        new_file(kind, name)


@pytest.mark.parametrize(
    ("kind", "folder", "then"),
    [
        ("method", "ntkfl/training/methods", "LOOPS in ntkfl/conformance/loops.py"),
        ("architecture", "ntkfl/training/models", "tests/ntkfl/training/test_models.py"),
        ("study", "experiments/studies/questions", "tests/experiments/studies"),
    ],
)
def test_a_file_of_the_project_is_called_as_it_is_named(kind, folder, then, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    refused = run("new", kind, "my-own", "--out", f"{folder}/other.py")
    assert refused.exit_code == 2 and "in that folder it must be my_own.py" in refused.stderr
    done = run("new", kind, "my-own", "--out", f"{folder}/my_own.py")
    assert "my-own" in done.stdout.splitlines()[1] and folder not in done.stdout.splitlines()[1] and then in done.stdout
