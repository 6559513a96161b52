"""Properties of every study of the package: missing cells break nothing, and every cell has a cost."""

from itertools import product

import numpy as np
import pytest
import xarray

from bounds import Outcome
from experiments import studies
from experiments.studies.chart import table
from experiments.studies.default_charts import charts_of
from experiments.studies.drawing import draw
from experiments.studies.study import Study, error_of


def empty(study: Study) -> xarray.Dataset:
    """The study's results with all cells missing."""
    sizes = {axis.name: list(axis.values) for axis in (*study.axes, *study.inner)}
    outer = [axis.name for axis in study.axes]
    variables = {}
    for quantity in study.quantities:
        dims = [*outer, *quantity.along]
        missing = np.full([len(sizes[name]) for name in dims], np.nan)
        variables |= {name: (dims, missing) for name in (quantity.name, error_of(quantity.name))}
    return xarray.Dataset(variables, coords=sizes)


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
