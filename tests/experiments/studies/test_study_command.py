"""Tests of `ntkfl study`: its output, its files, exit statuses, refusals, and completion of names."""

import json
import math
import os
import re
import shutil
from pathlib import Path

import pytest
import xarray
from typer.main import get_command
from typer.testing import CliRunner

from experiments.command_line import app
from experiments.commands.study import axis_options
from experiments.console.progress_bar import StudyProgress, span
from experiments.studies import names
from experiments.studies.grid import chosen_grid
from experiments.studies.results import read, write
from experiments.studies.runner import planned
from experiments.studies.running.code_version import version_of
from experiments.studies.running.measuring import Status
from experiments.studies.study_folder import StudyFolder
from experiments.studies.whole_run import run_study

REPLACED = "\nfrom dataclasses import replace\nfrom bounds import Outcome\n"
RECORDED = (
    f"{REPLACED}wrong = interval('a claim', 'a source', 1.0, Estimate(2.0, 0.01))\n"
    "STUDY = replace(STUDY, summarise=lambda cells: [replace(wrong, recorded=Outcome.VIOLATED)])\n"
)


NARROWING = (
    f"{REPLACED}STUDY = replace(STUDY, summarise=lambda cells: [interval(claim, 'a source', 1.0, Estimate(1.0, "
    "1.2 / cells.sizes['seed']), 'a note') for claim in ('this', 'that')])\n"
)


STUCK = NARROWING.replace("1.2 / cells.sizes['seed']", "1.2 if claim == 'this' else 1.2 / cells.sizes['seed']")


FEW = (
    f"{REPLACED}from experiments.studies.answers import infinite, power_law\n"
    "STUDY = replace(STUDY, summarise=lambda cells: [infinite('that', 'a source', None), "
    "power_law('this', 'a source', 0.5, cells.period, 'length', biased=False)])\n"
)


def invoke(*words):
    return CliRunner().invoke(app, ["study", *map(str, words)])


@pytest.fixture
def trap(tmp_path, monkeypatch):
    path = tmp_path / "trap"
    monkeypatch.setenv("TRAP", str(path))
    return path


def test_a_study_runs_resumes_and_is_shown(pendulum, tmp_path):
    out = tmp_path / "out"
    done = invoke("run", pendulum, "--lengths", "1,2,4", "--seeds=1", "--out", out, "--plot")
    assert done.exit_code == 0, done.output
    assert "holds" in done.stdout and "1 answer: 1 holds; from 6 of 6 cells" in done.stdout
    drawn = {path.name for path in (out / "charts").iterdir()}
    assert drawn == {f"pendulum{of}.{kind}" for of in ("", "-answers") for kind in ("png", "svg", "csv")}
    (answer,) = json.loads((out / "answers.json").read_text())["answers"]
    assert answer["outcome"] == "holds" and abs(answer["measured"]["value"] - 0.5) < answer["measured"]["error"]
    results = (out / "results.nc").read_bytes()
    again = invoke("run", pendulum, "--lengths", "1,2,4", "--seeds=1", "--out", out)
    assert again.stdout == done.stdout == invoke("show", out).stdout and (out / "results.nc").read_bytes() == results
    assert "6 of 6 cells done (2 gravity x 3 lengths x 1 seeds), 0 failed, 0 remaining" in invoke("status", out).stdout


def test_an_answer_that_is_violated_is_exit_status_1(pendulum, tmp_path):
    file = tmp_path / "clock.py"
    file.write_text(Path(pendulum).read_text().replace('1638", 0.5', '1638", 0.7'))
    for command in (("run", file, "--out", tmp_path / "out"), ("show", tmp_path / "out")):
        result = invoke(*command)
        assert result.exit_code == 1 and "violated" in result.stdout
    other = tmp_path / "known.py"
    other.write_text(file.read_text() + RECORDED)
    result = invoke("run", other, "--out", tmp_path / "other")
    assert result.exit_code == 0 and "violated (as recorded)" in result.stdout


def test_seeds_are_added_until_every_answer_is_settled_or_the_budget_is_spent(pendulum, tmp_path):
    """Seeds are doubled until the interval is narrow enough or the budget is spent.

    The half-width is 1.2 divided by the number of seeds, which leaves the interval too wide with 2 and with 4 seeds.
    """
    file = tmp_path / "narrowing.py"
    file.write_text(Path(pendulum).read_text() + NARROWING)
    words = ("run", file, "--lengths", "1,2", "--gravity", "1.62", "--out", tmp_path / "out", "--until-resolved")
    spent = invoke(*words, "0s")
    assert spent.exit_code == 0 and "2 unresolved; from 2 of 2 cells" in spent.stdout
    assert spent.stderr.startswith("one seed first: 2 cells, some ") and "more than the budget of 0 s" in spent.stderr
    assert "2 of 2 answers are not settled with 1 seed, and more would take the cells beyond 0 s" in spent.stderr
    for budget in ("-3s", "1e999s"):
        refused = invoke(*words, budget)
        assert refused.exit_code == 2 and "it must be a time that is not negative" in refused.stderr
    done = invoke(*words, "1h")
    assert done.exit_code == 0 and "2 answers: 2 hold; from 16 of 16 cells" in done.stdout, done.output
    assert [line for line in done.stderr.splitlines() if "next" in line] == [
        "2 of 2 answers are not settled with 2 seeds: 4 are next",
        "2 of 2 answers are not settled with 4 seeds: 8 are next",
    ]
    assert invoke("show", tmp_path / "out").stdout == done.stdout
    cells, answers = run_study(
        str(file), tmp_path / "out", {"lengths": "1,2", "gravity": "1.62"}, until_resolved=3600.0
    )
    assert cells.sizes["seed"] == 8 and len(answers) == 2
    assert done.stdout.count("a note") == 1 and done.stdout.count("(a source) [1]") == 2
    seedless = tmp_path / "seedless.py"
    seedless.write_text(f"{file.read_text()}STUDY = replace(STUDY, axes=STUDY.axes[:-1])\n")
    refused = invoke("run", seedless, "--out", tmp_path / "none", "--until-resolved", "1h")
    assert refused.exit_code == 2 and "pendulum has no seeds; its axes are gravity, length" in refused.stderr


def test_an_answer_that_four_times_the_seeds_do_not_narrow_is_not_waited_for(pendulum, tmp_path):
    """An answer that does not get more precise with four times the seeds gets no more seeds.

    More seeds do not reduce the error of `this`, and eight seeds settle `that`, so sixteen seeds are not tried.
    """
    file = tmp_path / "stuck.py"
    file.write_text(Path(pendulum).read_text() + STUCK)
    done = invoke(
        "run", file, "--lengths", "1", "--gravity", "9.81", "--out", tmp_path / "out", "--until-resolved", "1h"
    )
    assert [line for line in done.stderr.splitlines() if "not settled" in line] == [
        "2 of 2 answers are not settled with 2 seeds: 4 are next",
        "2 of 2 answers are not settled with 4 seeds: 8 are next",
        "1 of 2 answers are not settled with 8 seeds, and no number of them would do: 1 is no more precise with four "
        "times the seeds",
    ], done.output
    assert "1 holds, 1 unresolved; from 8 of 8 cells" in done.stdout


def test_no_seeds_are_added_for_answers_that_only_other_values_of_an_axis_can_settle(pendulum, tmp_path):
    file = tmp_path / "few.py"
    file.write_text(Path(pendulum).read_text() + FEW)
    words = ("run", file, "--gravity", "1.62", "--out", tmp_path / "out", "--until-resolved", "1h")
    done = invoke(*words, "--lengths", "1,2")
    assert done.exit_code == 0 and "from 4 of 4 cells" in done.stdout, done.output
    said = "2 of 2 answers are not settled with 2 seeds, and no number of them would do: "
    assert f"{said}1 stays open whatever is added; 1 asks for more values of --lengths" in done.stderr
    # Five values of --lengths are enough to measure the power of the length, so that only seeds are missing.
    done = invoke(*words, "--lengths", "1,2,4,8,16")
    assert "asks for more" not in done.stderr and "4 are next" in done.stderr and "1 holds" in done.stdout


def test_failed_cells_are_exit_status_1_and_status_says_why(pendulum, tmp_path, trap):
    trap.write_text("fail")
    out = tmp_path / "out"
    done = invoke("run", pendulum, "--out", out)
    assert done.exit_code == 1 and "4 of 16 cells failed" in done.stderr and "12 of 16 cells" in done.stdout
    said = invoke("status", out).stdout
    assert "12 of 16 cells done" in said and "4 failed, 0 remaining" in said
    assert said.count("ArithmeticError: the string of length 3 has snapped") == 4 and "length = 3.0, seed = 1" in said
    trap.unlink()
    assert invoke("run", pendulum, "--out", out).exit_code == 0


def test_when_every_cell_fails_no_answers_are_left_and_show_says_so(pendulum, tmp_path, trap):
    out = tmp_path / "out"
    assert invoke("run", pendulum, "--lengths", "2,4", "--out", out).exit_code == 0
    trap.write_text("fail")
    assert invoke("run", pendulum, "--lengths", "3", "--out", out).exit_code == 1
    assert not (out / "answers.json").exists()
    result = invoke("show", out)
    assert result.exit_code == 1 and "none of the 4 cells is done" in result.stderr and not result.stdout


def test_show_keeps_to_the_grid_of_the_results_and_says_that_another_was_begun(pendulum, tmp_path, trap):
    out = tmp_path / "out"
    shown = invoke("run", pendulum, "--lengths", "1,2,4", "--out", out).stdout
    assert not invoke("show", out).stderr
    trap.write_text("interrupt")
    assert invoke("run", pendulum, "--lengths", "3,5", "--out", out).exit_code == 130
    result = invoke("show", out)
    assert result.stdout == shown and "a run with another grid was begun later" in result.stderr


def test_a_damaged_cell_is_named_and_measured_again(pendulum, tmp_path):
    invoke("run", pendulum, "--out", tmp_path)
    victim = sorted((tmp_path / "cells").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert victim.name in invoke("status", tmp_path).stdout
    done = invoke("run", pendulum, "--out", tmp_path)
    assert done.exit_code == 0 and f"measured again: {victim}" in done.stderr and "16 of 16" in done.stdout


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("axes", None, "None as its axes, which must be a list of values by name"),
        ("axes", {"gravity": 9.8}, "{'gravity': 9.8} as its axes"),
        ("spec", 3, "3 as its spec, which must be a text"),
        ("version", None, "None as its version"),
        ("axes", {"gravity": [1.0, math.nan], "length": [1.0], "seed": [0]}, "--gravity has nan; it must be finite"),
    ],
)
def test_a_hand_edited_grid_is_refused(pendulum, tmp_path, field, value, message):
    invoke("run", pendulum, "--lengths", "1,2", "--seeds", "1", "--out", tmp_path)
    there = tmp_path / "study.json"
    there.write_text(json.dumps(json.loads(there.read_text()) | {field: value}))
    for command in ("status", "show"):
        said = invoke(command, tmp_path)
        assert said.exit_code == 2 and message in said.stderr


def test_hand_edited_results_are_refused(pendulum, tmp_path):
    invoke("run", pendulum, "--out", tmp_path)
    whole = read(tmp_path / "results.nc")
    for edited, message in (
        (whole.isel(seed=[0]), "have 8 cells and say 0 of 16 cells missing"),
        (whole.drop_vars("period"), "have no period"),
        (whole.drop_attrs().assign_attrs(spec=whole.attrs["spec"]), "have no version, cells, missing, provenance"),
        (whole.assign_attrs(missing="some"), "say some of 16 cells missing"),
        (whole.assign_attrs(spec=3), "no study's results"),
    ):
        write(edited, tmp_path / "results.nc")
        said = invoke("show", tmp_path)
        assert said.exit_code == 2 and message in said.stderr


def test_folders_of_two_machines_are_merged_by_their_cells(pendulum, tmp_path):
    """The cells of one grid from two folders give the results of one run, and are not measured again."""
    one, other, both = (tmp_path / name for name in ("one", "other", "both"))
    invoke("run", pendulum, "--lengths", "1,2", "--out", one)
    invoke("run", pendulum, "--lengths", "2,3", "--out", other)
    for cell in (other / "cells").iterdir():
        shutil.copy(cell, one / "cells")
    half = sorted((one / "cells").iterdir())[0]
    half.with_name(f".{half.name}.part").write_bytes(half.read_bytes()[:9])  # This is a copy that was cut short.
    assert "12 done, 0 to do" in invoke("run", pendulum, "--lengths", "1,2,3", "--dry-run", "--out", one).stdout
    invoke("run", pendulum, "--lengths", "1,2,3", "--out", one)
    invoke("run", pendulum, "--lengths", "1,2,3", "--out", both)
    assert read(one / "results.nc").drop_attrs().identical(read(both / "results.nc").drop_attrs())


def test_ctrl_c_keeps_what_is_done(pendulum, tmp_path, trap):
    trap.write_text("interrupt")
    out = tmp_path / "out"
    done = invoke("run", pendulum, "--out", out)
    assert done.exit_code == 130 and f"4 of 16 cells are kept in {out}; the same command goes on" in done.stderr
    assert not (out / "results.nc").exists()
    assert invoke("show", out).exit_code == 2 and "no results yet" in invoke("show", out).stderr


def test_a_dry_run_says_what_there_is_to_do_and_writes_nothing(pendulum, tmp_path):
    out = tmp_path / "out"
    result = invoke("run", pendulum, "--dry-run", "--processes", 3, "--out", out)
    assert result.exit_code == 0 and not out.exists()
    assert "16 cells (2 gravity x 4 lengths x 2 seeds): 0 done, 16 to do" in result.stdout
    assert "about 0.02 s" in result.stdout and "1350 MB for 3 processes" in result.stdout
    invoke("run", pendulum, "--lengths", "1,2", "--out", out)
    assert "8 done, 8 to do" in invoke("run", pendulum, "--dry-run", "--out", out).stdout
    small = tmp_path / "small.py"
    small.write_text(f"{Path(pendulum).read_text()}{REPLACED}STUDY = replace(STUDY, megabytes=lambda point: 60.0)\n")
    assert "180 MB for 3 processes" in invoke("run", small, "--dry-run", "--processes", 3).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--out DIR"),
        (("--out", "OUT", "--lenghts", "1"), "Did you mean 'lengths'?"),
        (("--out", "OUT", "--lengths"), "--lengths has no value"),
        (("--out", "OUT", "--lengths", "1", "2"), "unexpected '2'"),
        (("--out", "OUT", "--lengths", "1", "--lengths", "2"), "given twice"),
        (("--out", "OUT", "--tls-ca", "ca.pem"), "--scheduler tls://HOST:PORT"),
        (("--out", "OUT", "--scheduler", "localhost:8786"), "it must be tcp://HOST:PORT or tls://HOST:PORT"),
        (("--out", "OUT", "--scheduler", "tcp://localhost:8786", "--tls-ca", "ca.pem"), "--tls-ca go with tls://"),
        (("--out", "OUT", "--scheduler", "tls://localhost:8786", "--tls-ca", "ca.pem"), "--tls-cert, --tls-key too"),
        (("--out", "OUT", "--scheduler", "tcp://localhost:8786", "--processes", "2"), "leave it out"),
        (("--out", "FILE"), "cannot keep"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(pendulum, tmp_path, words, message):
    (tmp_path / "file").write_text("")
    places = {"OUT": str(tmp_path / "out"), "FILE": str(tmp_path / "file")}
    result = invoke("run", pendulum, *(places.get(word, word) for word in words))
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and message in result.stderr
    assert result.stderr.count("\n") == 1 and not (tmp_path / "out").exists()


def test_results_of_other_code_are_said_to_be_so(pendulum, tmp_path):
    study, out = tmp_path / "mine.py", tmp_path / "out"
    study.write_text(Path(pendulum).read_text())
    invoke("run", study, "--out", out)
    assert "code has changed" not in invoke("show", out).stderr + invoke("status", out).stdout
    study.write_text(study.read_text() + "# changed\n")
    version_of.cache_clear()
    assert "the code has changed since these results" in invoke("show", out).stderr
    said = invoke("status", out).stdout
    assert "the code has changed since the last run" in said and "0 of 16 cells done" in said


def test_unknown_studies_and_folders_are_refused(tmp_path):
    result = invoke("run", "widht-scaling", "--dry-run")
    assert result.exit_code == 2 and "there is no study 'widht-scaling'" in result.stderr
    assert invoke("status", tmp_path).exit_code == 2 and "no study.json" in invoke("status", tmp_path).stderr


def test_options_are_read_in_both_ways():
    assert axis_options(["--widths", "64,128", "--seeds=4", "--shift", "-1"]) == {
        "widths": "64,128",
        "seeds": "4",
        "shift": "-1",
    }


def test_names_are_completed_without_importing_a_study():
    result = CliRunner().invoke(
        app,
        [],
        prog_name="ntkfl",
        env={"_NTKFL_COMPLETE": "complete_bash", "COMP_WORDS": "ntkfl study run ", "COMP_CWORD": "3"},
    )
    assert result.stdout.split() == list(names())


def test_the_list_has_every_study_with_its_options():
    listed = invoke("list").stdout
    for name in names():
        assert f"{name}: " in listed
        for axis in chosen_grid(name).axes:
            assert f"--{axis.flag} " in listed


def test_the_list_of_one_study_is_its_part_of_the_whole(pendulum):
    listed = invoke("list", "drift").stdout
    assert listed.startswith("drift: ") and listed in invoke("list").stdout
    assert invoke("list", pendulum).stdout.splitlines()[1].strip() == "--gravity 9.81,1.62  free fall [m/s^2]"
    refused = invoke("list", "drfit")
    assert refused.exit_code == 2 and "no study 'drfit'. Did you mean 'drift'?" in refused.stderr


@pytest.mark.slow  # The test starts a process.
def test_a_reader_who_leaves_early_is_no_fault(pendulum, started):
    """A reader who stops early causes no error, such as `head -1` in `ntkfl study run ... --dry-run | head -1`."""
    process = started("-m", "experiments", "study", "run", pendulum, "--dry-run")
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 1


def test_a_study_need_not_say_what_a_cell_costs(pendulum, tmp_path):
    file = tmp_path / "plain.py"
    file.write_text(re.sub(r"^    seconds=.*\n", "", Path(pendulum).read_text(), flags=re.MULTILINE))
    assert "processor time: about 16 s" in invoke("run", file, "--dry-run").stdout


@pytest.mark.parametrize("name", ["own", ""])
def test_a_study_may_have_charts_of_its_own_or_none(name, pendulum, tmp_path):
    file, out = tmp_path / "plain.py", tmp_path / "out"
    charts = f"replace(default_charts(replace(STUDY, charts=None), cells)[0], name={name!r})," if name else ""
    drawn = "from experiments.studies.default_charts import default_charts\n"
    own = f"{REPLACED}{drawn}STUDY = replace(STUDY, charts=lambda cells: ({charts}))\n"
    file.write_text(Path(pendulum).read_text() + own)
    done = invoke("run", file, "--out", out, "--plot")
    assert done.exit_code == 0 and ("pendulum has no chart of these cells" in done.stderr) is not bool(name)
    assert [path.name for path in out.glob("charts/*.png")] == [f"{name}.png"] * bool(name)


@pytest.mark.parametrize("name", names())
def test_no_axis_takes_an_option_of_the_command(name):
    taken = {parameter.name for parameter in get_command(app).commands["study"].commands["run"].params}
    assert {"out", "plot", "dry_run"} < taken
    assert not taken & {axis.flag.replace("-", "_") for axis in chosen_grid(name).axes}


def test_progress_counts_and_says_the_time_left(pendulum, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("experiments.console.progress_bar.time.monotonic", lambda: clock[0])
    plan = planned(chosen_grid(pendulum), None)
    with StudyProgress(plan, lambda point: point["length"]) as progress:
        assert progress.text == "0 of 16 cells, 0 failed, 16 remaining"
        for cell, status in zip(plan.todo, (Status.DONE, Status.FAILED, Status.KEPT), strict=False):
            clock[0] += 10.0
            progress(cell, status)
        lengths = [cell.point["length"] for cell in plan.todo]
        left = 10.0 * 2 * sum(lengths[3:]) / sum(lengths[1:3])
        assert progress.text == f"2 of 16 cells, 1 failed, 13 remaining, {span(left)} left"


def test_spans():
    assert [span(seconds) for seconds in (0.004, 3.0, 9.6, 42.0, 600.0, 7200.0)] == [
        "0.004 s",
        "3 s",
        "10 s",
        "42 s",
        "10 min",
        "2.0 h",
    ]


def test_a_run_limits_its_threads(pendulum, tmp_path):
    invoke("run", pendulum, "--out", tmp_path)
    assert os.environ["OMP_NUM_THREADS"] == "1" and "eigen=false" in os.environ["XLA_FLAGS"]


def test_a_width_of_zero_and_one_beyond_the_memory_end_before_a_cell_is_measured(tmp_path):
    zero = invoke("run", "width-scaling", "--widths", "64,0", "--out", tmp_path / "zero")
    assert zero.exit_code == 2 and not (tmp_path / "zero").exists()
    assert zero.stderr == "error: --widths has 0; it must be at least 1\n"
    large = invoke("run", "width-scaling", "--widths", 10**12, "--seeds", "1", "--out", tmp_path / "large")
    assert large.exit_code == 2 and "of memory and" in large.stderr and "width up to" in large.stderr
    assert not list((tmp_path / "large").rglob("*.npz"))


@pytest.mark.parametrize("named", ["brought.py", "FOLDER/brought.py"])
def test_a_folder_does_not_run_a_file_that_it_brings(named, tmp_path, monkeypatch):
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "brought.py").write_text(f"open({str(tmp_path / 'there')!r}, 'w')\n")
    spec = named.replace("FOLDER", str(folder))
    about = {"study": "brought", "spec": spec, "version": "0", "axes": {}}
    (folder / "study.json").write_text(json.dumps(about))
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match="only a file outside it, named by a full path, is run"):
        StudyFolder(folder).grid()
    xarray.Dataset(attrs={"spec": spec}).to_netcdf(folder / "results.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="only a file outside it, named by a full path, is run"):
        StudyFolder(folder).measured()
    assert not (tmp_path / "there").exists()
