"""Invented measurements of a study, for tests.

A study measures one cell at each point of its grid. Here a test's function invents the cells, and they are gathered
into the dataset that the study's summary receives.
"""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import xarray

from experiments.studies.study import Study, Value, error_of
from ntkfl.estimate import Estimate


def planted(study: Study, cell: Callable[[Mapping[str, Value]], Mapping | None], **axes) -> xarray.Dataset:
    """Returns the dataset with the values of `cell` at every point, and NaN where `cell` returns None.

    `axes` replace the values of the study's axes.
    """
    values = {axis.name: tuple(axes.get(axis.name, axis.values)) for axis in study.axes}
    inner = {axis.name: axis.values for axis in study.inner}
    shape = tuple(len(points) for points in values.values())
    names = {quantity.name: quantity.along for quantity in study.quantities}
    arrays: dict[str, np.ndarray] = {}

    def put(name: str, place: tuple[int, ...], value) -> None:
        array = np.asarray(value, float)
        arrays.setdefault(name, np.full((*shape, *array.shape), np.nan))[place] = array

    for place, point in zip(np.ndindex(shape), product(*values.values()), strict=True):
        for name, value in (cell(dict(zip(values, point, strict=True))) or {}).items():
            put(name, place, value.value if isinstance(value, Estimate) else value)
            if isinstance(value, Estimate):
                put(error_of(name), place, value.error)
    variables = {}
    for name, array in arrays.items():
        along = names[name] if name in names else ()
        variables[name] = ([*values, *along], array)
    used = {axis for along in names.values() for axis in along}
    coordinates = {name: list(points) for name, points in (values | {axis: inner[axis] for axis in used}).items()}
    return xarray.Dataset(variables, coords=coordinates)
