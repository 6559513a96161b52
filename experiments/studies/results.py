"""All cells of a grid as one labelled xarray Dataset, and the NetCDF file of this Dataset."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import xarray

from experiments.studies.grid import Grid
from experiments.studies.running.cell_store import Arrays, Cell, CellStore, DamagedCell, write_at_once
from experiments.studies.running.code_version import placed, version_of
from experiments.studies.study import SEED, Study, error_of
from ntkfl.trajectory import provenance

ENGINE: Final = "h5netcdf"


def gathered(grid: Grid, store: CellStore) -> xarray.Dataset:
    """The stored cells as a Dataset with the study's axes as dimensions, and NaN for missing cells.

    Variables and axes have a description in `long_name` and a unit in `units`. The attributes of the Dataset name the
    study, its folder and the version of the code. They also have the numbers of cells and of missing cells, and the
    provenance as JSON.

    Args:
        grid: the study and its cells.
        store: the folder of the cells.
    """
    study = grid.study
    cells = [_arrays(store, cell) for cell in grid.cells()]
    known = {name for arrays in cells for name in arrays}
    sizes = {axis.name: len(axis.values) for axis in study.inner}
    variables = {}
    for quantity in study.quantities:
        about = {"long_name": quantity.says, "units": quantity.unit}
        error = {"long_name": f"half-width of the interval of {quantity.name}", "units": quantity.unit}
        for name, attributes in ((quantity.name, about), (error_of(quantity.name), error)):
            if name in known or name == quantity.name:
                shape = tuple(sizes[axis] for axis in quantity.along)
                rows = [arrays.get(name, np.full(shape, np.nan)) for arrays in cells]
                dimensions = (*(axis.name for axis in grid.axes), *quantity.along)
                variables[name] = (dimensions, np.reshape(rows, (*grid.shape, *shape)), attributes)
    missing = sum(not arrays for arrays in cells)
    seeds = [value for axis in grid.axes if axis.name == SEED for value in axis.values]
    whole: dict[str, str | int] = {
        "study": study.name,
        "question": study.question,
        "source": study.source,
        "spec": placed(grid.spec),
        "version": version_of(grid.spec),
        "cells": len(cells),
        "missing": missing,
        "provenance": json.dumps(provenance(cells=seeds), sort_keys=True),
    }
    axes = {axis: {"long_name": axis.says, "units": axis.unit} for axis in (*grid.axes, *study.inner)}
    return xarray.Dataset(variables, {a.name: (a.name, list(a.values), about) for a, about in axes.items()}, whole)


def write(results: xarray.Dataset, path: Path) -> None:
    """Write the NetCDF file of the results, as a whole or not at all.

    Args:
        results: results of a study, from `gathered`.
        path: the file.

    Raises:
        OSError: the file cannot be written.
    """
    write_at_once(path, bytes(results.to_netcdf(engine=ENGINE)))


def read(path: Path) -> xarray.Dataset:
    """The Dataset in a file, read into memory completely.

    Args:
        path: the file.

    Raises:
        OSError: the file is missing or damaged.
    """
    with xarray.open_dataset(path, engine=ENGINE) as results:
        return results.load()


def grid_of(results: xarray.Dataset) -> Grid:
    """The grid of these results, which may differ from the grid that the folder has now.

    Args:
        results: results of a study, from `gathered`.

    Raises:
        ValueError: the results are not those of a study, they are not complete, or the study has other axes now.
    """
    if not isinstance(results.attrs.get("spec"), str):
        raise ValueError("these are no study's results, or of an earlier version: run it again")
    whole = Grid(results.attrs["spec"], ())
    names = [axis.name for axis in (*whole.study.axes, *whole.study.inner)]
    if names != list(results.sizes):
        raise ValueError(
            f"the results have the axes {', '.join(map(str, results.sizes))}; the study has others now: run it again"
        )
    _require_whole(results, whole.study)
    return replace(
        whole, axes=tuple(replace(axis, values=tuple(results[axis.name].values.tolist())) for axis in whole.study.axes)
    )


def _require_whole(results: xarray.Dataset, study: Study) -> None:
    """Raise an error if something is missing of the results that `gathered` writes.

    The results must have every quantity of the study, and the version of the code, the numbers of cells and of
    missing cells, and the provenance. The numbers of cells must fit the axes.
    """
    lost = [quantity.name for quantity in study.quantities if quantity.name not in results]
    lost += [name for name in ("version", "cells", "missing", "provenance") if name not in results.attrs]
    if lost:
        raise ValueError(f"the results have no {', '.join(lost)}: they were edited; run the study again")
    count = math.prod(results.sizes[axis.name] for axis in study.axes)
    if results.attrs["cells"] != count or results.attrs["missing"] not in range(count + 1):
        note = f"{results.attrs['missing']} of {results.attrs['cells']} cells missing"
        raise ValueError(f"the results have {count} cells and say {note}: they were edited; run the study again")


def _arrays(store: CellStore, cell: Cell) -> Arrays:
    try:
        contents = store.kept(cell)
    except DamagedCell:
        return {}
    return contents.arrays if contents else {}
