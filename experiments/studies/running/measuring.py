"""Measuring one cell: the study's function at its point, checked against the study's quantities."""

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
    """A run cannot continue, though its cells are sound: a full disk, other code, or no scheduler."""


class Status(StrEnum):
    """The state of a cell: measured now, stored before, failed, or claimed by another process."""

    DONE = "done"
    KEPT = "kept"
    FAILED = "failed"
    BUSY = "busy"


def measured(spec: str, cell: Cell) -> bytes | str:
    """A cell as the bytes of its file, or the traceback if measuring failed.

    Raises:
        OtherCode: this process has another version of the code than the cell. ValueError: there is no such study.
    """
    code_version.require(spec, cell.version)
    study, begun = find(spec), time.process_time()
    try:
        arrays = as_arrays(study, study.measure(cell.point))
    except Exception:  # an exception concerns only this cell: its traceback is stored, and the other cells continue
        interruption.check()  # the error may have been an interrupt
        return traceback.format_exc()
    return packed(cell, Contents(arrays, time.process_time() - begun))


def settle(store: CellStore, spec: str, cell: Cell) -> Status:
    """Measure and store a cell, unless another process does or did.

    Raises:
        OtherCode, ValueError: as `measured`. OSError: the folder is full or cannot be written.
    """
    with store.claim(cell) as mine:
        if not mine:
            return Status.BUSY
        if is_kept(store, cell):
            return Status.KEPT
        return keep(store, cell, measured(spec, cell))


def keep(store: CellStore, cell: Cell, content: bytes | str) -> Status:
    """Store the result of `measured` for a cell that the caller has claimed.

    Raises:
        OSError: the folder is full or cannot be written.
    """
    if isinstance(content, bytes):
        store.keep(cell, content)
        return Status.DONE
    store.keep_failure(cell, content)
    return Status.FAILED


def is_kept(store: CellStore, cell: Cell) -> bool:
    """Whether the cell has a sound file."""
    try:
        return store.kept(cell) is not None
    except DamagedCell:
        return False


def as_arrays(study: Study, result: Mapping[str, object]) -> dict[str, np.ndarray]:
    """The result of a study's `measure` as float64 arrays by name; an `Estimate` gives two arrays.

    Raises:
        ValueError: quantities or shapes that are not the study's.
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
