"""The cells in a folder, with a file for each.

A file is written as a whole or not at all. One process at a time claims a cell, so that no two measure it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

if TYPE_CHECKING:
    from experiments.studies.study import Point


@dataclass(frozen=True)
class Cell:
    """A cell, named by everything that its numbers depend on."""

    study: str
    point: Point  # one value of every axis
    version: str  # the version of the code, by `code_version.version_of`

    @cached_property
    def inputs(self) -> str:
        """The cell as canonical JSON; two texts are equal only if their cells are equal, bit for bit."""
        fields = {"study": self.study, "point": dict(self.point), "version": self.version}
        return json.dumps(fields, sort_keys=True, allow_nan=False)

    @cached_property
    def key(self) -> str:
        """The SHA-256 of `inputs`, in hexadecimal."""
        return hashlib.sha256(self.inputs.encode()).hexdigest()

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())


Arrays = Mapping[str, np.ndarray]


class DamagedCell(ValueError):
    """The bytes in a file are not those of the expected cell."""


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of a cell's file: the quantities by name, in float64, and the processor time in seconds."""

    arrays: Arrays
    seconds: float


def packed(cell: Cell, contents: Contents) -> bytes:
    """The bytes of a cell's file."""
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
        raise DamagedCell("the content does not have the checksum that was written with it")
    if about.get("inputs") != cell.inputs:
        raise DamagedCell(f"the file holds another cell, {about.get('inputs')}")
    return Contents(arrays, float(about["seconds"]))


def _digest(arrays: Arrays, about: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# The file of a cell that took at least this many seconds is worth an fsync, which takes some milliseconds. If a power
# cut damages the file of a shorter cell, the checksum reveals it.
WORTH_A_FLUSH = 0.1


class CannotKeep(OSError):
    """A file could not be written; the message says why."""

    def __str__(self) -> str:
        return self.strerror or ""


@dataclass(frozen=True)
class CellStore:
    """The cells that are stored in a folder."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """The path of the cell's file."""
        return self.folder / "cells" / f"{cell.key}.safetensors"

    def failure_path(self, cell: Cell) -> Path:
        """The path of the file with the traceback of a failed cell."""
        return self.folder / "failures" / f"{cell.key}.txt"

    def kept(self, cell: Cell) -> Contents | None:
        """The contents of the cell's file; None if there is no file.

        Raises:
            DamagedCell: the file is damaged or cut short, or belongs to another cell.
        """
        path = self.path(cell)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return unpacked(data, cell)
        except DamagedCell as error:
            raise DamagedCell(f"{path} ({cell}): {error}") from None

    def keep(self, cell: Cell, data: bytes) -> None:
        """Store the bytes of a packed cell, and remove an earlier failure.

        The caller must have claimed the cell.

        Raises:
            DamagedCell: the bytes are not the cell's. CannotKeep: as `write_at_once`.
        """
        contents = unpacked(data, cell)
        write_at_once(self.path(cell), data, flush=contents.seconds >= WORTH_A_FLUSH, claimed=True)
        self.failure_path(cell).unlink(missing_ok=True)

    def keep_failure(self, cell: Cell, traceback: str) -> None:
        """Store the traceback of a failed cell, which counts as not done.

        Raises:
            CannotKeep: as `write_at_once`.
        """
        write_at_once(self.failure_path(cell), f"{cell.inputs}\n{traceback}".encode(), flush=False)

    def failure(self, cell: Cell) -> str | None:
        """The traceback of the cell's last failure; None if it did not fail."""
        try:
            text = self.failure_path(cell).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        return text.partition("\n")[2]

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """A block in which the cell is claimed for this process.

        The value of the block is True, or False if another process has claimed the cell.
        The claim locks one byte of a file that has a byte for each cell. The system unlocks the byte when the process
        dies.
        """
        lock, byte = _lock_file(self.folder.resolve()), int(cell.key[:15], 16)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # POSIX allows both errors if another process has the lock
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(lock, fcntl.LOCK_UN, 1, byte)


def write_at_once(path: Path, data: bytes, flush: bool = True, claimed: bool = False) -> None:
    """Write a file such that at any time it is complete or missing.

    An old file stays until the new one is complete.

    With `flush` the content is first brought to the disk, so that the file also survives a power cut. `claimed` says
    that no other process writes this file, so that an unfinished file of a killed process can be overwritten.

    Raises:
        CannotKeep: the disk is full, or the folder cannot be written.
    """
    part = path.with_name(f".{path.name}.part" if claimed else f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            if flush:
                os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise CannotKeep(error.errno, f"cannot keep {path}: {error.strerror}") from error


def write_json(path: Path, content: object) -> None:
    """Write content as strict JSON, in the same way as `write_at_once` writes bytes.

    Raises:
        CannotKeep: as `write_at_once`. ValueError: a number is not finite.
    """
    write_at_once(path, json.dumps(content, indent=1, allow_nan=False).encode())


@cache
def _lock_file(folder: Path) -> int:
    """The lock file of a folder.

    The file stays open as long as the process lives, since closing any handle of the file would release all locks of
    the process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / ".claims", os.O_RDWR | os.O_CREAT, 0o666)
