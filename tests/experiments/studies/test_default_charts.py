"""Tests of properties that every study has.

Default charts show all that was measured, and missing cells (single measurements) cause no error.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import xarray
from planted import planted

from bounds import Outcome
from experiments import studies
from experiments.studies import find
from experiments.studies.answers import power_law
from experiments.studies.chart import table
from experiments.studies.default_charts import charts_of, default_charts
from experiments.studies.drawing import draw
from experiments.studies.study import Answer, Axis, Quantity, Study, error_of, seeds
from ntkfl.estimate import Estimate

STUDY = Study(
    name="made-up",
    question="Of what?",
    source="a test",
    axes=(Axis("kind", ("a", "b"), "kind"), Axis("size", (1.0, 10.0, 100.0, 1000.0), "size", "m"), seeds(3)),
    inner=(Axis("step", (0, 1), "step"),),
    quantities=(Quantity("weight", "of it", "kg"), Quantity("path", "on the way", along=("step",))),
    measure=lambda point: {},
    summarise=lambda cells: (
        power_law("weight ~ size^2", "a test", 2.0, cells.weight, "size", biased=False),
        Answer("an order", "a test", None, None, Outcome.HOLDS),
    ),
)


def cell(point):
    weight = (point["size"] ** 2) * (1 if point["kind"] == "a" else 3)
    return {"weight": weight, "path": [-1.0, float(point["seed"])]}


def test_every_quantity_has_a_panel_and_every_measured_answer_a_line():
    quantities, answers = default_charts(STUDY, planted(STUDY, cell))
    weight, path = quantities.panels
    assert [series.name for series in weight.series] == ["kind = a", "kind = b"]
    assert weight.series[1].y == pytest.approx([3.0, 300.0, 3e4, 3e6]) and weight.x.log and weight.y.log
    assert (weight.x.unit, weight.y.unit) == ("m", "kg")
    assert path.x.says == "step" and len(path.series) <= 6 and not path.y.log
    assert path.series[0].y == pytest.approx([-1.0, 1.0]) and path.series[0].lower[1] < 1 < path.series[0].upper[1]
    (numbers,) = answers.panels
    assert numbers.x.names == ("weight ~ size^2",)
    assert numbers.series[0].y == pytest.approx([2.0]) and numbers.series[1].y == [2.0]
    for chart in (quantities, answers):
        draw(chart)


def test_words_are_places_without_numbers():
    study = replace(STUDY, axes=(STUDY.axes[0], STUDY.axes[2]), summarise=lambda cells: ())
    cells = planted(study, lambda point: {"weight": 1.0 + (point["kind"] == "b"), "path": [0.0, 1.0]})
    (chart,) = default_charts(study, cells)
    panel = chart.panels[0]
    assert panel.x.names == ("a", "b") and panel.series[0].y == [1.0, 2.0]
    draw(chart)


def test_missing_cells_are_no_points():
    charts = default_charts(STUDY, planted(STUDY, lambda point: None if point["size"] == 1 else cell(point)))
    assert np.isnan(charts[0].panels[0].series[0].y[0])


def test_a_study_that_is_found_has_them(tmp_path):
    own = Path(__file__).parents[2] / "extensions" / "own_study.py"
    square = find(str(own))
    (quantities, answers) = charts_of(
        square, planted(square, lambda point: {"area": Estimate(point["side"] ** 2, 1e-12)})
    )
    assert quantities.panels[0].series[0].y == [4.0, 16.0] and answers.panels[0].x.names == ("area ~ side^2",)


def test_seeds_alone_are_an_axis():
    study = replace(STUDY, axes=(STUDY.axes[2],), summarise=lambda cells: ())
    (chart,) = default_charts(study, planted(study, lambda point: {"weight": point["seed"], "path": [0.0, 1.0]}))
    assert chart.panels[0].x.says == "seed" and chart.panels[0].series[0].y == [0.0, 1.0, 2.0]


def empty(study: Study) -> xarray.Dataset:
    """Returns the study's results with all cells missing."""
    sizes = {axis.name: list(axis.values) for axis in (*study.axes, *study.inner)}
    outer = [axis.name for axis in study.axes]
    variables = {}
    for quantity in study.quantities:
        dims = [*outer, *quantity.along]
        missing = np.full([len(sizes[name]) for name in dims], np.nan)
        variables |= {name: (dims, missing) for name in (quantity.name, error_of(quantity.name))}
    return xarray.Dataset(variables, coords=sizes)


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("name", studies.names())
def test_without_cells_nothing_is_said_and_nothing_breaks(name):
    study = studies.find(name)
    answers = study.answers(empty(study))
    assert answers and {answer.outcome for answer in answers} <= {Outcome.UNTESTED, Outcome.UNRESOLVED}
    for chart in charts_of(study, empty(study)):
        table(chart)
        draw(chart)


@pytest.mark.parametrize("name", studies.names())
def test_every_cell_has_a_cost(name):
    study = studies.find(name)
    names = [axis.name for axis in study.axes]
    points = [dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in study.axes))]
    assert all(study.seconds(point) > 0 and study.megabytes(point) > 0 for point in points)
    assert sum(study.seconds(point) for point in points) < 3600
