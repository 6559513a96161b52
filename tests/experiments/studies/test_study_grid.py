"""Tests of studies and their grids: which grids are refused with which messages, and which cells a grid has.

A cell is the measurement at one point of the grid.
"""

import itertools
import json
from dataclasses import replace

import pytest

from experiments.studies import catalogue, find, grid as grids, names
from experiments.studies.grid import chosen_grid
from experiments.studies.runner import require_memory
from experiments.studies.study import Axis, Quantity
from ntkfl.memory import TooLittleMemory

LENGTH = Axis("length", (1.0, 2.0), "of the string", "m", "lengths")


def refused(words, make, *arguments):
    with pytest.raises(ValueError) as refusal:
        make(*arguments)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("name", names())
def test_every_study_of_the_package_is_found_by_its_name(name):
    study = find(name)
    assert study.name == name and study.question.endswith("?") and study.source
    assert study.quantities and all(axis.says for axis in (*study.axes, *study.inner))


def test_the_catalogue_is_all_of_them():
    assert list(catalogue()) == list(names())


def test_an_axis_has_distinct_values_of_one_type():
    refused(["no values"], Axis, "length", (), "of the string")
    refused(["float, int"], Axis, "length", (1, 2.0), "of the string")
    refused(["bool"], Axis, "length", (True, False), "of the string")
    refused(["twice", "[1, 2, 1]"], Axis, "length", (1, 2, 1), "of the string")


def test_a_study_has_a_name_for_everything_and_its_seeds_last(pendulum):
    study = find(pendulum)
    refused(["'Pendulum 1'", "a-z"], lambda: replace(study, name="Pendulum 1"))
    refused(["length", "twice"], lambda: replace(study, axes=(LENGTH, LENGTH)))
    refused(["period", "twice"], lambda: replace(study, inner=(replace(LENGTH, name="period"),)))
    refused(["period_error"], lambda: replace(study, quantities=(*study.quantities, Quantity("period_error", "x"))))
    refused(["lengths", "twice"], lambda: replace(study, axes=(LENGTH, replace(LENGTH, name="other"))))
    refused(["'seed' must be the last"], lambda: replace(study, axes=(study.axes[-1], *study.axes[:-1])))
    refused(["along height", "k"], lambda: replace(study, quantities=(Quantity("period", "x", along=("height",)),)))


def test_a_study_is_found_or_the_nearest_is_named(tmp_path):
    if names():
        refused([f"Did you mean {names()[0]!r}?"], find, names()[0][:-1])
    refused(["mine.py cannot be read", "name a .py file that is there"], find, str(tmp_path / "mine.py"))
    (tmp_path / "mine.py").write_text("STUDY = 3\n")
    refused(["mine.py", "STUDY is 3"], find, str(tmp_path / "mine.py"))


def test_the_cells_are_the_product_of_the_axes_the_last_fastest(pendulum):
    cells = list(chosen_grid(pendulum).cells())
    assert [tuple(cell.point.values()) for cell in cells] == list(
        itertools.product((9.81, 1.62), (1.0, 2.0, 3.0, 4.0), (0, 1))
    )
    assert len({cell.key for cell in cells}) == len(cells)
    assert all(json.loads(cell.inputs) == vars_of(cell) for cell in cells)


def vars_of(cell):
    return {"study": cell.study, "point": dict(cell.point), "version": cell.version}


def test_values_are_replaced_by_the_type_of_the_defaults(pendulum):
    grid = chosen_grid(pendulum, {"lengths": "1, 2.5,7e-1", "seeds": "3"})
    assert [axis.values for axis in grid.axes] == [(9.81, 1.62), (1.0, 2.5, 0.7), (0, 1, 2)]
    assert all(type(cell.point["length"]) is float for cell in chosen_grid(pendulum, {"lengths": "1,2"}).cells())
    assert grid.shape == (2, 3, 3)


def test_so_many_seeds_begin_at_the_first_of_the_study(pendulum, monkeypatch):
    own = find(pendulum)
    *others, seeds = own.axes
    monkeypatch.setattr(grids, "find", lambda spec: replace(own, axes=(*others, replace(seeds, values=(5, 6)))))
    assert chosen_grid(pendulum).axes[-1].values == (5, 6)
    assert chosen_grid(pendulum, {"seeds": "3"}).axes[-1].values == (5, 6, 7)


def test_a_cell_that_two_grids_share_has_one_key(pendulum):
    small, large = (
        {cell.key for cell in chosen_grid(pendulum, {"lengths": text}).cells()} for text in ("1,2", "2,1,5")
    )
    assert small < large


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("lenghts", "1", ["--lenghts", "Did you mean 'lengths'?", "--gravity, --lengths, --seeds"]),
        ("lengths", "", ["--lengths is ''"]),
        ("lengths", "1,,2", ["'1,,2'", "commas"]),
        ("lengths", "1,long", ["'long'", "finite numbers"]),
        ("lengths", "1,inf", ["'inf'", "finite numbers"]),
        ("lengths", "1,1.0", ["twice"]),
        ("seeds", "0", ["'0'", "how many"]),
        ("seeds", "1,2", ["'1,2'", "how many"]),
    ],
)
def test_bad_values_are_named(pendulum, flag, text, words):
    refused(words, chosen_grid, pendulum, {flag: text})


def test_names_on_an_axis_are_those_of_the_study(pendulum, monkeypatch):
    labels = Axis("labels", ("true", "random"), "of the data")
    study = replace(find(pendulum), axes=(labels, Axis("n", (1, 2), "size")))
    monkeypatch.setattr("experiments.studies.grid.find", lambda spec: study)
    assert chosen_grid(pendulum, {"labels": "random"}).axes[0].values == ("random",)
    refused(["'randon'", "Did you mean 'random'?"], chosen_grid, pendulum, {"labels": "randon"})
    refused(["'1.5'", "integers"], chosen_grid, pendulum, {"n": "1.5"})


def test_a_value_out_of_bounds_is_refused_before_there_is_a_grid():
    refused(["--widths has 0; it must be at least 1"], chosen_grid, "width-scaling", {"widths": "64,0"})
    refused(["--rho has 1; it must be above 0 and below 1"], chosen_grid, "ima-window", {"rho": "0.5,1"})
    refused(["--eta-local has -0.1", "above 0"], chosen_grid, "convergence", {"eta-local": "-0.1"})
    assert chosen_grid("asymmetry", {"rounds": "0"}).axes[2].values == (0,)


@pytest.mark.parametrize("name", names())
def test_every_number_that_cannot_be_negative_says_so(name):
    for axis in find(name).axes:
        if axis.name != "seed" and not isinstance(axis.values[0], str):
            refused([f"--{axis.flag} has -1"], lambda axis=axis: replace(axis, values=(type(axis.values[0])(-1),)))


def test_cells_that_do_not_fit_into_memory_are_refused_with_what_would():
    cells = tuple(chosen_grid("width-scaling", {"widths": f"64,{10**12}", "seeds": "1"}).cells())
    grid = chosen_grid("width-scaling")
    with pytest.raises(TooLittleMemory, match=r"cell of width = 10{12}, seed = 0 takes .* width up to \d+ would fit"):
        require_memory(grid, cells, 2)
    require_memory(grid, cells[:1], 1)
    require_memory(grid, (), 1)
    with pytest.raises(TooLittleMemory, match=r"measuring on all processes takes .* processes up to \d+ would fit"):
        require_memory(grid, cells[:1] * 10**5, 10**5)
