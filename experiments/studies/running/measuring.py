"""Measure one cell by the study's function, and check that it returns the study's quantities."""

import time
import traceback
from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from experiments.studies import find
from experiments.studies.running import code_version
from experiments.studies.running.cell_store import Cell, CellStore, Contents, DamagedCell, packed
from experiments.studies.study import Study, error_of
from ntkfl import Estimate, interruption


class RunStopped(RuntimeError):
    """A run cannot continue, for a reason outside its cells: a full disk, another version of the code, no scheduler."""


class Status(StrEnum):
    """What happened to a cell: it was measured now, was stored before, failed, or is claimed by another process."""

    DONE = "done"
    KEPT = "kept"
    FAILED = "failed"
    BUSY = "busy"


def measured(spec: str, cell: Cell) -> bytes | str:
    """Measure a cell, and return the bytes of its file, or the traceback if measuring failed.

    Raises:
        OtherCode: the cell belongs to another version of the code than this process has. ValueError: there is no such
            study.
    """
    code_version.require(spec, cell.version)
    study, begun = find(spec), time.process_time()
    try:
        arrays = as_arrays(study, study.measure(cell.point))
    # whatever is raised concerns only this cell; the traceback is stored, and the other cells are measured
    except Exception:
        interruption.check()  # the error may be due to an interrupt
        return traceback.format_exc()
    return packed(cell, Contents(arrays, time.process_time() - begun))


def settle(store: CellStore, spec: str, cell: Cell) -> Status:
    """Measure and store a cell, unless another process is measuring it or has stored it.

    Raises:
        OtherCode, ValueError: as `measured`. OSError: the disk is full, or the folder cannot be written.
    """
    with store.claim(cell) as mine:
        if not mine:
            return Status.BUSY
        if is_kept(store, cell):
            return Status.KEPT
        return keep(store, cell, measured(spec, cell))


def keep(store: CellStore, cell: Cell, content: bytes | str) -> Status:
    """Store the result of `measured`, for a cell that the caller has claimed.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    if isinstance(content, bytes):
        store.keep(cell, content)
        return Status.DONE
    store.keep_failure(cell, content)
    return Status.FAILED


def is_kept(store: CellStore, cell: Cell) -> bool:
    """Whether the cell has a file that is not damaged."""
    try:
        return store.kept(cell) is not None
    except DamagedCell:
        return False


def as_arrays(study: Study, result: Mapping[str, object]) -> dict[str, np.ndarray]:
    """The result of a study's `measure` as float64 arrays by name.

    An `Estimate` becomes two arrays, for its value and its error.

    Raises:
        ValueError: the quantities or their shapes are not those of the study.
    """
    wanted = {quantity.name: quantity for quantity in study.quantities}
    if result.keys() != wanted.keys():
        raise ValueError(f"{study.name} measured {sorted(result)}; its quantities are {sorted(wanted)}")
    sizes = {axis.name: len(axis.values) for axis in study.inner}
    arrays = {}
    for name, value in result.items():
        if isinstance(value, Estimate):
            arrays[error_of(name)], value = value.error, value.value
        arrays[name] = np.array(value, dtype=np.float64)
        shape = tuple(sizes[axis] for axis in wanted[name].along)
        if arrays[name].shape != shape:
            raise ValueError(f"{study.name} measured {name} of shape {arrays[name].shape}; it must be {shape}")
    return arrays
