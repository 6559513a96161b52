"""Tests of the page of a study that was run: it shows the content of the run's folder, with figures and their data."""

import csv
import io
import os
import shutil
from pathlib import Path

import pytest
from html_tree import tree
from typed import command

from bounds import Outcome
from experiments.report.site import built
from experiments.report.study_pages import study_page
from experiments.studies import find
from experiments.studies.grid import chosen_grid
from experiments.studies.results import read, write
from experiments.studies.running.one_thread import COUNTS
from experiments.studies.study_folder import StudyFolder

PENDULUM = Path(__file__).parents[1] / "studies" / "pendulum.py"
OWN_CHARTS = """
from dataclasses import replace
from experiments.studies.chart import Chart, Label, Panel, Series


def charts(cells):
    mean = cells["period"].mean(["gravity", "seed"])
    series = Series("measured", "measured", cells["length"].values.tolist(), mean.values.tolist())
    panel = Panel("Period", Label("length", "m"), Label("period", "s"), (series,))
    yield Chart("period", "The period of a pendulum.", "A rising line.", (panel,))


STUDY = replace(STUDY, charts=charts)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("ran") / "out"
    with pytest.MonkeyPatch.context() as patched:
        for name in (*COUNTS, "XLA_FLAGS"):  # A run sets these variables; the context restores them.
            patched.setenv(name, os.environ.get(name, ""))
        words = ["study", "run", str(PENDULUM), "--lengths", "1,2,4", "--seeds", "1", "--out", str(out)]
        done = command(*words)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def folder(ran, tmp_path):
    """Returns a copy of the run's folder, which a test may change."""
    return shutil.copytree(ran, tmp_path / "out")


def test_a_study_has_its_answers_figures_data_and_the_command_that_runs_it_again(folder):
    page = study_page(folder)
    (answer,) = page.answers
    assert answer.shown.word == Outcome.HOLDS and answer.theory == "0.5" and "±" in answer.measured
    assert page.replay == "ntkfl study run pendulum.py --lengths 1.0,2.0,4.0 --seeds 1 --out DIR"
    files = built(None, [page])
    shown = tree(files[page.path])
    assert next(shown.all("h1")).text() == "With which power of its length does the period of a pendulum grow?"
    image, of_answers = shown.all("img")
    assert image.attributes["alt"] == "period, place, each along an axis of the grid."
    assert of_answers.attributes["alt"] == "Measured numbers beside theory's, one claim in each line."
    assert files["studies/pendulum/pendulum.svg"].lstrip().startswith(b"<?xml")
    assert b"prefers-color-scheme:dark" in files["studies/pendulum/pendulum.svg"]
    data = list(csv.reader(io.StringIO(files["studies/pendulum/pendulum.csv"].decode())))
    drawn = next(shown.all("details")).all("tr")
    assert [len(list(row.all("th", "td"))) for row in drawn] == [len(line) for line in data]
    means = read(folder / "results.nc")["period"].mean("seed").to_numpy().ravel()
    periods = [line for line in data if line[0].startswith("period")]
    assert [float(line[data[0].index("y")]) for line in periods] == pytest.approx(means.tolist())
    said = " ".join(shown.text().split())
    assert "1 answer: 1 holds." in said and "6 of 6" in said and "1, 2, 4 (of the string, m)" in said


def test_figures_of_the_study_s_own_are_shown_in_place_of_these(folder, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(PENDULUM.read_text() + OWN_CHARTS)
    results = folder / "results.nc"
    write(read(results).assign_attrs(spec=str(own)), results)
    page = study_page(folder)
    files = built(None, [page])
    (image,) = tree(files[page.path]).all("img")
    assert image.attributes["alt"] == "A rising line."
    assert files["studies/pendulum/period.svg"].lstrip().startswith(b"<?xml")
    data = list(csv.reader(io.StringIO(files["studies/pendulum/period.csv"].decode())))
    mean = read(results)["period"].mean(["gravity", "seed"]).to_numpy()
    assert [float(line[data[0].index("y")]) for line in data[1:]] == pytest.approx(mean.tolist())


def test_a_violated_answer_comes_with_what_is_recorded(folder, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PENDULUM.read_text().replace('1638", 0.5', '1638", 0.7'))
    results = folder / "results.nc"
    write(read(results).assign_attrs(spec=str(wrong)), results)
    page = study_page(folder)
    assert "not as recorded" in page.summary
    assert "differs: recorded holds" in " ".join(tree(built(None, [page])[page.path]).text().split())


def test_a_page_keeps_to_the_grid_of_its_results_when_another_was_begun(folder):
    before = study_page(folder)
    StudyFolder(folder).begin(chosen_grid(str(PENDULUM), {"lengths": "3,5"}))
    assert study_page(folder) == before


def test_results_of_other_axes_are_refused(folder, tmp_path):
    results, text = folder / "results.nc", PENDULUM.read_text()
    dataset = read(results)
    for change in (('Axis("gravity', 'Axis("pull'), ('(Axis("k"', '(Axis("extra", (1,), "x"), Axis("k"')):
        other = tmp_path / "other.py"
        other.write_text(text.replace(*change))
        find.cache_clear()
        write(dataset.assign_attrs(spec=str(other)), results)
        with pytest.raises(ValueError, match="the study has others now: run it again"):
            study_page(folder)
    write(dataset.assign_attrs(spec=str(PENDULUM)).isel(gravity=0, drop=True), results)
    with pytest.raises(ValueError, match="the study has others now: run it again"):
        study_page(folder)
    del dataset.attrs["spec"]
    write(dataset, results)
    with pytest.raises(ValueError, match="no study's results"):
        study_page(folder)


def test_a_folder_without_results_is_refused(folder):
    (folder / "results.nc").unlink()
    with pytest.raises(ValueError, match="has no results yet; `ntkfl study status"):
        study_page(folder)
