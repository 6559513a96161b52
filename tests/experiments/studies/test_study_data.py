"""Tests of studies on a user's file.

Measured cells belong to the content of the file. A file with other content has other cells, and its answers are kept
apart from those of the first file.
"""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from planted import planted
from test_stability_map import POINT, cell

from bounds import Outcome
from experiments.studies.grid import chosen_grid
from experiments.studies.questions import stability_map
from experiments.studies.study_data import data_of, shown
from ntkfl import data, gram
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.problem import Setup

STUDY = stability_map.STUDY


@pytest.fixture
def saved(tmp_path):
    """Returns a file of seven rows that are not normalised, with owners, and the data that it holds."""
    problem = data.sphere(7, 5, seed=3, clients=2, labels="uniform")
    path = tmp_path / "mine.npz"
    np.savez(path, x=problem.x * 3, y=problem.y, owner=problem.owner)
    return path, problem


def named_in(spec, study="stability-map"):
    (axis,) = (axis for axis in chosen_grid(study, {"data": spec}).axes if axis.name == "data")
    return axis.values


@pytest.mark.parametrize("study", ["stability-map", "convergence", "method-limits"])
def test_a_file_is_named_by_its_path_and_what_it_holds(saved, study):
    path, _ = saved
    builtin, own = named_in(f"digits,{path}", study)
    assert builtin == "digits" and own == f"{path}#sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert shown(own).startswith("mine.npz (sha256 ")


def test_a_cell_is_of_the_rows_of_the_file_divided_by_their_norms(saved, monkeypatch):
    monkeypatch.setattr(stability_map, "WIDTH", 64)
    monkeypatch.setattr(stability_map, "ROUNDS", 3)
    path, problem = saved
    (own,) = named_in(str(path))
    read = data_of(own, seed=0)
    np.testing.assert_allclose(read.x, problem.x, atol=1e-15)
    np.testing.assert_array_equal(read.owner, problem.owner)
    measured = STUDY.measure(POINT | {"data": own})
    setup = Setup(eta_local=POINT["eta_local"], eta_global=POINT["eta_global"], local_steps=POINT["local_steps"])
    limits = kernel_regime(replace(problem, x_test=None, y_test=None), setup, gram.infinite(problem.x)).step_limits
    assert measured["limit"] == pytest.approx(limits.eta_global, rel=1e-9)
    assert measured["limit_local"] == pytest.approx(limits.eta_local, rel=1e-9)


def test_a_file_that_changed_is_other_cells_and_no_longer_measured(saved):
    path, problem = saved
    (before,) = named_in(str(path))
    np.savez(path, x=problem.x, y=-problem.y, owner=problem.owner)
    with pytest.raises(ValueError, match="holds something else than when this cell was planned"):
        data_of(before, seed=0)
    assert named_in(str(path)) != (before,)


def test_what_is_no_data_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match=r"no data named 'digts'\. Did you mean 'digits'"):
        named_in("digts")
    twice = tmp_path / "twice.csv"
    twice.write_text("a,b,y\n1,2,0\n1,2,1\n2,1,0\n")
    with pytest.raises(ValueError, match=r"parallel|equal|same"):
        named_in(str(twice))


def test_answers_and_charts_are_of_each_data_set_alone(saved):
    (own,) = named_in(str(saved[0]))
    cells = planted(STUDY, lambda point: cell(point, shift=1.0 if point["data"] == own else 0.6), data=("sphere", own))
    answers = STUDY.answers(cells)
    sphere, mine = answers[:4], answers[4:]
    assert [answer.outcome for answer in sphere[:3]] == [Outcome.VIOLATED] * 3
    assert [answer.outcome for answer in mine] == [Outcome.HOLDS] * 4
    assert all("mine.npz" in answer.note for answer in mine) and not any("mine" in answer.note for answer in sphere)
    first, second = STUDY.charts(cells)
    assert first.name == "stability-map" and second.name.startswith("stability-map-mine-npz")
    assert first.caption.endswith("Data: sphere, n = 12, d = 12, 3 clients.") and "n = 12" not in second.caption
