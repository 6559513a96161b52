"""Tests of runs of studies: results and labels, failures, full disks, other processes and changed code.

A run that was stopped continues where it was.
"""

import errno
import itertools
import json
import os
import random
import sys
from dataclasses import replace
from importlib.metadata import packages_distributions
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import xarray
from waiting import until

from experiments.studies import find, module_file as find_file
from experiments.studies.grid import chosen_grid
from experiments.studies.results import gathered, read, write
from experiments.studies.runner import planned, run
from experiments.studies.running import cell_store, code_version, measuring
from experiments.studies.running.cell_store import Cell, CellStore
from experiments.studies.running.code_version import OtherCode, version_of
from experiments.studies.running.local_processes import LocalProcesses
from experiments.studies.running.measuring import RunStopped, Status, as_arrays, measured, settle
from experiments.studies.study_folder import StudyFolder
from ntkfl import interruption
from ntkfl.estimate import Estimate


def ran(grid, path, **options):
    """Runs the cells that are left; returns each cell's status and the bytes of the results."""
    folder, reports = StudyFolder(path), {}
    folder.begin(grid)
    run(grid, folder.store, planned(grid, folder.store).todo, report=lambda c, s: reports.update({c.key: s}), **options)
    write(gathered(grid, folder.store), folder.results)
    return reports, folder.results.read_bytes()


@pytest.fixture
def grid(pendulum):
    return chosen_grid(pendulum)


@pytest.fixture
def trap(tmp_path, monkeypatch):
    path = tmp_path / "trap"
    monkeypatch.setenv("TRAP", str(path))
    return path


def test_results_are_what_was_measured_with_its_labels(grid, tmp_path):
    ran(grid, tmp_path)
    dataset = read(StudyFolder(tmp_path).results)
    assert dict(dataset.sizes) == {"gravity": 2, "length": 4, "seed": 2, "k": 5}
    assert dataset.period.dims == ("gravity", "length", "seed") and dataset.place.dims == (*dataset.period.dims, "k")
    for cell in grid.cells():
        right = grid.study.measure(cell.point)
        there = dataset.sel(**cell.point)
        assert float(there.period) == right["period"].value and float(there.period_error) == right["period"].error
        assert there.place.values.tolist() == right["place"]
    labels = {name: (dataset[name].attrs["long_name"], dataset[name].attrs["units"]) for name in dataset.variables}
    assert labels["length"] == ("of the string", "m") and labels["period"] == ("of one swing", "s")
    assert labels["place"][1] == labels["k"][1] == "1" and labels["period_error"][1] == "s"
    assert (dataset.attrs["study"], dataset.attrs["cells"], dataset.attrs["missing"]) == ("pendulum", 16, 0)
    made = json.loads(dataset.attrs["provenance"])
    assert made["versions"]["numpy"] == np.__version__ and made["seeds"] == {"cells": [0, 1]}


def test_a_missing_cell_is_nan_and_counted(grid, tmp_path):
    ran(grid, tmp_path)
    store, gone = StudyFolder(tmp_path).store, list(grid.cells())[3]
    store.path(gone).unlink()
    dataset = gathered(grid, store)
    assert dataset.attrs["missing"] == 1 and int(dataset.period.isnull().sum()) == 1
    assert dataset.sel(**gone.point).place.isnull().all() and dataset.sel(**gone.point).period_error.isnull()


def test_nothing_measured_yet_is_a_dataset_of_nan(grid, tmp_path):
    dataset = gathered(grid, StudyFolder(tmp_path).store)
    assert dataset.attrs["missing"] == 16 and dataset.period.isnull().all() and dataset.period.shape == (2, 4, 2)


def test_going_on_measures_only_what_is_lost_or_damaged_and_gives_the_same_bytes(grid, tmp_path):
    reports, whole = ran(grid, tmp_path)
    assert len(reports) == 16 and set(reports.values()) == {Status.DONE}
    store, cells = StudyFolder(tmp_path).store, list(grid.cells())
    lost, cut, foreign = random.Random(0).sample(cells, 3)
    store.path(lost).unlink()
    store.path(cut).write_bytes(store.path(cut).read_bytes()[:77])
    store.path(foreign).write_bytes(store.path(cells[0] if foreign != cells[0] else cells[1]).read_bytes())
    plan = planned(grid, store)
    assert {cell.key for cell in plan.todo} == {lost.key, cut.key, foreign.key}
    assert len(plan.damaged) == 2 and any(cut.key in text for text in plan.damaged)
    again, bytes_again = ran(grid, tmp_path)
    assert again.keys() == {lost.key, cut.key, foreign.key} and bytes_again == whole
    assert ran(grid, tmp_path) == ({}, whole)


def test_a_larger_grid_takes_over_the_cells_of_a_smaller(pendulum, grid, tmp_path):
    ran(chosen_grid(pendulum, {"lengths": "2,4"}), tmp_path)
    reports, results = ran(grid, tmp_path)
    assert len(reports) == 8
    assert results == ran(grid, tmp_path / "at once")[1]


def test_the_order_is_longest_first(grid, monkeypatch):
    monkeypatch.setattr(type(grid), "study", replace(grid.study, seconds=lambda point: point["length"]))
    assert [cell.point["length"] for cell in planned(grid, None).todo][::4] == [4.0, 3.0, 2.0, 1.0]


def test_a_failing_cell_leaves_its_traceback_and_is_tried_again(grid, tmp_path, trap):
    trap.write_text("fail")
    reports, _ = ran(grid, tmp_path / "out")
    store = StudyFolder(tmp_path / "out").store
    failed = [cell for cell in grid.cells() if cell.point["length"] == 3.0]
    assert {key for key, status in reports.items() if status is Status.FAILED} == {cell.key for cell in failed}
    assert list(reports.values()).count(Status.DONE) == 12
    for cell in failed:
        assert "in spring_trap" in store.failure(cell) and "has snapped" in store.failure(cell)
    trap.unlink()
    reports, results = ran(grid, tmp_path / "out")
    assert reports == {cell.key: Status.DONE for cell in failed} and not any(map(store.failure, failed))
    assert results == ran(grid, tmp_path / "other")[1]


def test_worker_processes_give_the_same_bytes_and_one_that_dies_is_replaced(grid, tmp_path, trap):
    trap.write_text("die once")
    reports, _ = ran(grid, tmp_path / "out", processes=2)
    assert sorted(reports.values()) == [Status.DONE] * 15 + [Status.FAILED]
    store = StudyFolder(tmp_path / "out").store
    (said,) = filter(None, map(store.failure, grid.cells()))
    assert "signal SIGKILL" in said
    reports, results = ran(grid, tmp_path / "out")
    assert list(reports.values()) == [Status.DONE]
    assert results == ran(grid, tmp_path / "other")[1]


@pytest.mark.slow  # left to slow runs, because a quick test above covers a process that dies while it works
def test_a_worker_that_dies_while_it_waits_is_replaced_and_no_cell_fails(pendulum, grid, tmp_path):
    cells = grid.cells()
    with LocalProcesses(pendulum, StudyFolder(tmp_path).store, 2) as workers:
        for dead in (0, 1):
            both = [next(cells), next(cells)]
            until(lambda both=both: list(workers.run(both)) and all(worker.ready for worker in workers._workers))
            process = workers._workers[dead]._process
            process.kill()
            process.wait()
            one = next(cells)
            assert list(workers.run([one])) == [(one, Status.DONE)]


def test_a_full_disk_stops_the_run_and_keeps_what_is_done(grid, tmp_path, monkeypatch):
    really, calls = os.replace, itertools.count()

    def full(*paths):
        if "safetensors" in str(paths[0]) and next(calls) >= 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        really(*paths)

    monkeypatch.setattr(cell_store.os, "replace", full)
    with pytest.raises(RunStopped, match=r"^cannot keep .*: No space left on device$"):
        ran(grid, tmp_path)
    monkeypatch.undo()
    assert len(planned(grid, StudyFolder(tmp_path).store).kept) == 5
    reports, results = ran(grid, tmp_path)
    assert len(reports) == 11 and results == ran(grid, tmp_path / "other")[1]


HOLDER = """
import os, sys, time
from pathlib import Path
from experiments.studies.running.cell_store import Cell
from experiments.studies.running.cell_store import CellStore
with CellStore(Path(sys.argv[1])).claim(Cell("pendulum", eval(sys.argv[2]), sys.argv[3])) as mine:
    print(mine, flush=True)
    while len(list(Path(sys.argv[1]).glob("cells/*.safetensors"))) < 15:
        time.sleep(0.01)
    time.sleep(0.2)  # it may be waited for by now
    os._exit(1)
"""


def test_a_cell_of_another_process_is_waited_for_and_taken_over_when_that_dies(grid, tmp_path, started):
    held = next(grid.cells())
    holder = started("-c", HOLDER, tmp_path, dict(held.point), held.version)
    assert holder.stdout.readline() == b"True\n"
    reports, _ = ran(grid, tmp_path)
    assert len(reports) == 16 and list(reports)[-1] == held.key and set(reports.values()) == {Status.DONE}


def test_a_cell_that_another_process_has_done_meanwhile_is_not_measured_again(pendulum, grid, tmp_path, monkeypatch):
    store, cell = StudyFolder(tmp_path).store, next(grid.cells())
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    assert [settle(store, pendulum, cell) for _ in range(2)] == [Status.DONE, Status.KEPT]
    store.path(cell).write_bytes(b"damaged")
    assert settle(store, pendulum, cell) is Status.DONE
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_a_cell_of_other_code_is_refused(pendulum, grid):
    cell = next(grid.cells())
    assert isinstance(measured(pendulum, cell), bytes)
    with pytest.raises(OtherCode, match=f"version {cell.version[:12]} .* has {'0' * 12}. Give it the same checkout"):
        measured(pendulum, Cell(cell.study, cell.point, "0" * 64))


def test_the_version_changes_with_the_study_and_not_with_its_place(pendulum, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(Path(pendulum).read_text())
    versions = [version_of(pendulum), version_of.__wrapped__(str(mine))]
    assert versions[0] == versions[1], "the place of the file does not matter"
    mine.write_text(mine.read_text() + "# a comment\n")
    versions.append(version_of.__wrapped__(str(mine)))
    assert len(set(versions)) == len(versions) - 1


def test_an_error_that_an_interrupt_has_become_is_no_failure_of_the_cell(pendulum, grid, tmp_path, monkeypatch):
    """An error that is raised after an interrupt does not count as a failure of the cell.

    C code may replace a KeyboardInterrupt by another exception.
    """

    def interrupted(point):
        monkeypatch.setattr(interruption, "check", Mock(side_effect=KeyboardInterrupt))
        raise RuntimeError("a callback failed")

    study, cell, store = replace(find(pendulum), measure=interrupted), next(grid.cells()), CellStore(tmp_path)
    monkeypatch.setattr(measuring, "find", lambda spec: study)
    with pytest.raises(KeyboardInterrupt):
        settle(store, pendulum, cell)
    assert store.failure(cell) is None and store.kept(cell) is None


@pytest.mark.parametrize("package", code_version.PACKAGES)
def test_the_version_changes_with_each_package(package, pendulum, tmp_path, monkeypatch):
    monkeypatch.setattr(code_version, "ROOT", tmp_path)
    monkeypatch.setattr(code_version, "_of_the_packages", code_version._of_the_packages.__wrapped__)
    versions = []
    for text in ("x = 1\n", "x = 2\n"):
        (tmp_path / package / "inner").mkdir(parents=True, exist_ok=True)
        (tmp_path / package / "inner" / "part.py").write_text(text)
        versions.append(version_of.__wrapped__(pendulum))
    for shows in ("commands", "formulas", "pictures"):
        (tmp_path / "experiments" / shows).mkdir(parents=True, exist_ok=True)
        (tmp_path / "experiments" / shows / "said.py").write_text("WORDS = 1\n")
    assert versions[0] != versions[1] == version_of.__wrapped__(pendulum)


def test_the_version_changes_with_that_of_each_library_that_computes(monkeypatch):
    whole = code_version._of_the_packages.__wrapped__
    really, versions = code_version.version, {whole()}
    for library in code_version.LIBRARIES:
        monkeypatch.setattr(
            code_version, "version", lambda name, library=library: really(name) + ("1" if name == library else "")
        )
        versions.add(whole())
    assert len(versions) == 1 + len(code_version.LIBRARIES)


@pytest.mark.parametrize(
    "file", ["helper.py", "package/__init__.py", "package/deep.py", "package/beside.py", "spread/part.py"]
)
def test_the_version_changes_with_modules_of_the_user(tmp_path, monkeypatch, file):
    (tmp_path / "package").mkdir()
    (tmp_path / "spread").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "deep.py").write_text("from . import beside\n")
    (tmp_path / "package" / "beside.py").write_text("")
    (tmp_path / "spread" / "part.py").write_text("")
    (tmp_path / "helper.py").write_text("import package.deep\nimport spread.part\nimport helper, numpy.linalg\n")
    (tmp_path / "mine.py").write_text("def measure(point):\n    from helper import FACTOR\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = version_of.__wrapped__(str(tmp_path / "mine.py"))
    assert before == version_of.__wrapped__(str(tmp_path / "mine.py"))
    (tmp_path / file).write_text((tmp_path / file).read_text() + "FACTOR = 7\n")
    assert version_of.__wrapped__(str(tmp_path / "mine.py")) != before


def test_the_version_changes_when_two_modules_change_places(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import left_one, right_one\n")
    monkeypatch.syspath_prepend(tmp_path)
    versions = set()
    for texts in (("x = 1\n", "x = 2\n"), ("x = 2\n", "x = 1\n")):
        for name, text in zip(("left_one", "right_one"), texts, strict=True):
            (tmp_path / f"{name}.py").write_text(text)
        versions.add(version_of.__wrapped__(str(tmp_path / "mine.py")))
    assert len(versions) == 2


def test_what_measures_is_in_the_version_and_libraries_and_other_studies_are_not():
    files = {path.relative_to(code_version.ROOT).as_posix() for path in code_version._files_of_the_packages()}
    measuring = {
        f"experiments/studies/running/{name}.py" for name in ("measuring", "one_thread", "cell_store", "stored_ladder")
    }
    assert measuring | {"ntkfl/data/__init__.py", "bounds/formula.py", "experiments/method_comparison.py"} <= files
    assert not {f"experiments/studies/{name}.py" for name in ("study", "chart", "answers", "questions/drift")} & files
    (module,) = code_version._modules(find_file("drift"))
    assert module == ("", find_file("drift"))


def test_what_is_measured_is_what_the_study_says(pendulum):
    study, place = find(pendulum), [0.0] * 5
    arrays = as_arrays(study, {"period": Estimate(1.5, 0.1), "place": place})
    assert {name: array.dtype for name, array in arrays.items()} == dict.fromkeys(
        ("period", "period_error", "place"), np.dtype(float)
    )
    with pytest.raises(ValueError, match=r"measured \['period'\]; its quantities are \['period', 'place'\]"):
        as_arrays(study, {"period": 1.0})
    with pytest.raises(ValueError, match=r"place of shape \(4,\); it must be \(5,\)"):
        as_arrays(study, {"period": 1.0, "place": place[1:]})


def test_every_library_that_computes_numbers_is_in_the_version():
    """The version of a study's code includes every library that computes numbers.

    Without this rule, cells from machines with different privacy accountants were once taken for the same cells.
    """
    without_numbers = {
        *("distributed", "hypothesis", "jaxtyping", "jinja2", "joblib", "packaging", "pydantic", "rich", "safetensors"),
        *("threadpoolctl", "typer", "xarray", "ntkfl_check"),
        *("fedjax", "flwr", "mergekit", "optax", "peft", "pfl"),  # Adapters use these libraries in other processes.
    }
    known = {*sys.stdlib_module_names, *code_version.PACKAGES, *without_numbers}
    distributions = packages_distributions()
    for file in code_version._files_of_the_packages():
        for module in code_version._imported(file) - known:
            assert set(distributions.get(module, ())) & set(code_version.LIBRARIES), f"{file} imports {module}"


def test_a_folder_is_of_one_study(grid, tmp_path):
    folder = StudyFolder(tmp_path)
    with pytest.raises(ValueError, match=r"no study's folder: it has no study.json"):
        folder.grid()
    folder.begin(grid)
    assert folder.grid() == grid and folder.version == version_of(grid.spec)
    about = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(about | {"study": "clock"}))
    with pytest.raises(ValueError, match="of the study 'clock'; name a new folder for pendulum"):
        folder.begin(grid)
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        folder.grid()


def test_results_that_are_no_netcdf_are_refused(tmp_path):
    (tmp_path / "results.nc").write_bytes(b"no results")
    with pytest.raises(OSError):
        read(tmp_path / "results.nc")
    write(xarray.Dataset({"x": ("n", [1.0])}), tmp_path / "results.nc")
    assert read(tmp_path / "results.nc").x.values.tolist() == [1.0]
