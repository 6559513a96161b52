"""Arrays of another program, read without trust: nothing is unpickled, and no more than expected is read."""

import json
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

PRECISIONS = ("float64", "float32")
LARGEST_JSON = 1 << 20
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    KeyError,
)


class Refused(ValueError):
    """The received file cannot be used; the message says why, in one line."""


def document(path: Path) -> dict[str, Any]:
    """A small JSON object.

    Raises:
        Refused: the file is no small JSON object.
    """
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise Refused(f"{path.name} has {path.stat().st_size} bytes; a few words were expected")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{path.name} cannot be read as JSON") from error
    if not isinstance(content, dict):
        raise Refused(f"{path.name} is {type(content).__name__}; it must be an object")
    return content


def arrays(path: Path, shapes: Mapping[str, tuple[int, ...]], required: Collection[str]) -> dict[str, np.ndarray]:
    """Finite arrays of these names and shapes, all of one precision, float64 or float32.

    Raises:
        Refused: an array is missing or wrong; the message has its name, its value and what would be right.
    """
    try:
        with zipfile.ZipFile(path) as file:
            names = [name.removesuffix(".npy") for name in file.namelist()]
            for name in required:
                if name not in names:
                    raise Refused(f"there is no {name!r}; what came has {_listed(names)}")
            for name in names:
                if name not in shapes:
                    raise Refused(f"{name!r} is no name of this case's; they are {_listed(shapes)}")
            by_name = {name: _array(file, name, shapes[name]) for name in names}
    except Refused:
        raise
    except UNREADABLE as error:
        raise Refused(f"{path.name} cannot be read: {type(error).__name__}") from error
    precisions = {value.dtype for value in by_name.values()}
    if len(precisions) > 1:
        raise Refused("some arrays are float64 and some float32; all must be of one precision")
    return by_name


def _array(file: zipfile.ZipFile, name: str, shape: tuple[int, ...]) -> np.ndarray:
    with file.open(f"{name}.npy") as stream:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        there, fortran, dtype = read(stream)
        if dtype.hasobject or dtype.name not in PRECISIONS:
            raise Refused(f"{name!r} is {dtype.name}; it must be {' or '.join(PRECISIONS)}")
        if there != shape:
            raise Refused(f"{name!r} has shape {there}, rounds first; it must be {shape}")
        size = int(np.prod(shape)) * dtype.itemsize
        content = stream.read(size)
    value = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    for number, tensor in enumerate(value):
        if not np.isfinite(tensor).all():
            raise Refused(f"{name!r} has NaN or infinity after round {number + 1}; every number must be finite")
    return value.astype(dtype.newbyteorder("="))


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name[:40]) for name in list(names)[:10]) or "nothing"
