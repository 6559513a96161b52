"""Tiles of a Gram matrix in a file, for matrices larger than memory; a build that was killed is continued."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ntkfl.memory import largest, shown

MAGIC = b"ntkfl tiles 2\n"  # then 32 bytes of the mark, 8 of the count of whole slabs, 8 for each slab's nearest row
MARK, WORD, PAGE = 32, 8, 4096  # bytes; the first slab begins on a page


@dataclass(eq=False)
class TilesFile:
    """A file of slabs in order, and the number of slabs that are whole."""

    path: Path
    rows: Sequence[tuple[int, int]]  # first and end of each slab
    dtype: str
    nearest: list[int]  # for each whole slab, the row of its largest entry off the diagonal

    @classmethod
    def of(cls, path: Path, mark: bytes, rows: Sequence[tuple[int, int]], dtype: str) -> TilesFile:
        """A new file, which takes its room on the disk at once; or the existing file, with its slabs.

        Raises:
            ValueError: the file has other contents, its folder does not exist or takes no file, or the disk has too
                little room.
        """
        file = cls(path, rows, dtype, [])
        size = file._at(len(rows))
        if path.is_dir():
            raise ValueError(f"memmap is {path}, which is a folder; name a file")
        if path.is_symlink() or path.exists():
            if not path.is_file():
                raise ValueError(f"memmap is {path}, which is no regular file; name another, or remove it")
            with path.open("rb") as opened:
                head = opened.read(file._word(len(rows)))
            count, *nearest = (int.from_bytes(head[at : at + WORD], "little") for at in file._words)
            same = head.startswith(MAGIC + mark) and path.stat().st_size == size and count <= len(rows)
            if not same or any(row >= end - start for row, (start, end) in zip(nearest, rows, strict=True)):
                raise ValueError(
                    f"{path} has no tiles of these samples, kernel and entries; name another file, or remove it"
                )
            file.nearest = nearest[:count]
            return file
        if not path.parent.is_dir():
            raise ValueError(f"memmap is {path}, but there is no folder {path.parent}; make it, or name another file")
        free = shutil.disk_usage(path.parent).free
        if size > free:
            fits = largest(file._size, rows[-1][1], free)
            would = f"; n up to {fits} would fit" if fits else ""
            raise ValueError(f"the tiles take {shown(size)} on the disk of {path}, and {shown(free)} are free{would}")
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("xb") as opened:
                os.posix_fallocate(opened.fileno(), 0, size)  # so the disk cannot be full later
                opened.write(MAGIC + mark + bytes(WORD))
            os.link(part, path)  # refused where another process has made the file meanwhile
        except FileExistsError:
            return cls.of(path, mark, rows, dtype)
        except OSError as error:
            raise ValueError(
                f"memmap is {path}, and no file of {shown(size)} can be made there: {error.strerror}; name another file"
            ) from None
        finally:
            with suppress(OSError):  # a folder that takes no file
                part.unlink(missing_ok=True)
        return file

    @property
    def whole(self) -> int:
        """The number of whole slabs."""
        return len(self.nearest)

    def slab(self, number: int) -> np.ndarray:
        """The slab as an array mapped to the file."""
        first, end = self.rows[number]
        mode: Literal["r", "r+"] = "r" if number < self.whole else "r+"
        try:
            mapped = np.memmap(self.path, self.dtype, mode, self._at(number), (end - first, end))
        except OSError as error:
            raise ValueError(f"{self.path} cannot be continued: {error.strerror}; name another file") from None
        return mapped.view(np.ndarray)

    def keep(self, number: int, nearest: int) -> None:
        """Count a slab as whole, with its nearest row, after its pages are on the disk."""
        with self.path.open("r+b") as opened:
            for at, word in ((self._word(number), nearest), (self._words[0], number + 1)):
                opened.seek(at)
                opened.write(word.to_bytes(WORD, "little"))
                opened.flush()
                os.fsync(opened.fileno())
        self.nearest.append(nearest)

    @property
    def _words(self) -> range:
        """The positions in the file of the count and of each slab's nearest row."""
        first = len(MAGIC) + MARK
        return range(first, first + WORD * (1 + len(self.rows)), WORD)

    def _word(self, number: int) -> int:
        return len(MAGIC) + MARK + WORD * (1 + number)

    def _at(self, number: int) -> int:
        return self._size(self.rows[number - 1][1] if number else 0)

    def _size(self, n: int) -> int:
        """Bytes of the head and of the slabs of the first n samples."""
        head = -(-self._word(len(self.rows)) // PAGE) * PAGE
        ends = ((first, min(end, n)) for first, end in self.rows if first < n)
        return head + np.dtype(self.dtype).itemsize * sum((end - first) * end for first, end in ends)
