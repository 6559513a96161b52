"""The cells of a folder: a file for each, written as a whole or not at all, and claimed by one process at a time."""

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
    """Everything that a cell's numbers depend on."""

    study: str
    point: Point  # one value of every axis
    version: str  # version of the code, as `code_version.version_of`

    @cached_property
    def inputs(self) -> str:
        """The cell as canonical JSON: equal texts are equal cells, bit for bit."""
        fields = {"study": self.study, "point": dict(self.point), "version": self.version}
        return json.dumps(fields, sort_keys=True, allow_nan=False)

    @cached_property
    def key(self) -> str:
        """SHA-256 of `inputs`, in hexadecimal."""
        return hashlib.sha256(self.inputs.encode()).hexdigest()

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())


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


WORTH_A_FLUSH = 0.1  # seconds of a cell that is worth an fsync of some ms; a checksum reveals damage by a power cut


class CannotKeep(OSError):
    """A file cannot be written; the message says why."""

    def __str__(self) -> str:
        return self.strerror or ""


@dataclass(frozen=True)
class CellStore:
    """The cells that a folder stores."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """The cell's file."""
        return self.folder / "cells" / f"{cell.key}.safetensors"

    def failure_path(self, cell: Cell) -> Path:
        """The path of the traceback of a failed cell."""
        return self.folder / "failures" / f"{cell.key}.txt"

    def kept(self, cell: Cell) -> Contents | None:
        """The cell's contents; None if it has no file.

        Raises:
            DamagedCell: its file is damaged, cut short or foreign.
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
        """Store the bytes of a packed cell, and remove an earlier failure. The caller has claimed the cell.

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
        """Claim the cell for this process within the block; False if another process has claimed it.

        The claim locks one byte of a file, a byte for each cell; the system unlocks it when the process dies.
        """
        lock, byte = _lock_file(self.folder.resolve()), int(cell.key[:15], 16)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):  # POSIX allows both errors for a lock of another process
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(lock, fcntl.LOCK_UN, 1, byte)


def write_at_once(path: Path, data: bytes, flush: bool = True, claimed: bool = False) -> None:
    """Write a file that is complete or missing at any time; an old file stays until the new one is complete.

    `flush` brings the file to the disk first, so that it survives a power cut too. `claimed` says that no other process
    writes this file: a part that a killed process has left is then overwritten.

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
    """Write strict JSON as `write_at_once` writes bytes.

    Raises:
        CannotKeep: as `write_at_once`. ValueError: a number that is not finite.
    """
    write_at_once(path, json.dumps(content, indent=1, allow_nan=False).encode())


@cache
def _lock_file(folder: Path) -> int:
    """The lock file, open as long as the process lives, since closing any handle would release all its locks."""
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / ".claims", os.O_RDWR | os.O_CREAT, 0o666)
