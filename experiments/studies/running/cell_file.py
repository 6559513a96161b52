"""A cell's numbers as the bytes of a safetensors file with a checksum; nothing is ever unpickled."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from experiments.studies.running.cell import Cell

Arrays = Mapping[str, np.ndarray]


class DamagedCell(ValueError):
    """The bytes are not those of the expected cell."""


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of a cell's file: the quantities by name (float64), and their processor time, in seconds."""

    arrays: Arrays
    seconds: float


def packed(cell: Cell, contents: Contents) -> bytes:
    """The bytes of the file."""
    about = {"inputs": cell.inputs, "seconds": repr(contents.seconds)}
    arrays = {name: np.array(array, dtype="<f8", order="C") for name, array in contents.arrays.items()}
    return save(arrays, about | {"sha256": _digest(arrays, about)})


def unpacked(data: bytes, cell: Cell) -> Contents:
    """The contents in these bytes.

    Raises:
        DamagedCell: the bytes are cut short or changed, or belong to another cell.
    """
    try:
        arrays = load(data)
        length = int.from_bytes(data[:8], "little")
        about = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedCell(f"no whole safetensors file ({len(data)} bytes): {error}") from None
    if about.pop("sha256", None) != _digest(arrays, about):
        raise DamagedCell("its content does not have the checksum that was written with it")
    if about.get("inputs") != cell.inputs:
        raise DamagedCell(f"it holds another cell, {about.get('inputs')}")
    return Contents(arrays, float(about["seconds"]))


def _digest(arrays: Arrays, about: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
