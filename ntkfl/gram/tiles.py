"""A Gram matrix that is too large for an eigendecomposition.

The lower triangle is stored in slabs, which are groups of consecutive rows. Products are computed in square tiles.

The slabs may be in a file, for matrices larger than memory; if the process is killed while it fills the file, a later
process continues. A kernel phi(x) . phi(z) needs no stored Gram matrix, since products, blocks and norms can be
computed from the features phi.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.double_precision import in_float64, jax_in_float64
from ntkfl.gram.limit import COARSE, COARSER, STEEP, compiles, fill_infinite, infinite, pair_of_inputs
from ntkfl.gram.threads import in_context, worker_threads
from ntkfl.memory import largest, require, shown
from ntkfl.messages import refusing
from ntkfl.problem import finite_array, real_array

# After these bytes the file has 32 bytes of the mark (a hash that tells matrices apart), 8 bytes of the count of whole
# slabs, and 8 bytes for the nearest row of each slab.
MAGIC = b"ntkfl tiles 2\n"
MARK, WORD, PAGE = 32, 8, 4096  # bytes; the first slab begins on a page


@dataclass(eq=False)
class TilesFile:
    """A file of slabs in order, which also has the number of slabs that are whole, that is completely written."""

    path: Path
    rows: Sequence[tuple[int, int]]  # the first row of each slab and the row after its last
    dtype: str
    nearest: list[int]  # for each whole slab, the row of its largest entry off the diagonal (its "nearest row")

    @classmethod
    def of(cls, path: Path, mark: bytes, rows: Sequence[tuple[int, int]], dtype: str) -> TilesFile:
        """A new file, whose full size on the disk is reserved at once, or the existing file with its slabs.

        Raises:
            ValueError: the file has other contents, its folder does not exist or allows no new file, or the disk has
                too little room.
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
                os.posix_fallocate(opened.fileno(), 0, size)  # reserved now, so that the disk cannot be full later
                opened.write(MAGIC + mark + bytes(WORD))
            os.link(part, path)  # fails if another process has made the file in the meantime
        except FileExistsError:
            return cls.of(path, mark, rows, dtype)
        except OSError as error:
            raise ValueError(
                f"memmap is {path}, and no file of {shown(size)} can be made there: {error.strerror}; name another file"
            ) from None
        finally:
            with suppress(OSError):  # a folder that allows no new file
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
        """Record that a slab is whole, and its nearest row, after the pages of the slab are on the disk."""
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
        """Bytes of the file's header and of the slabs of the first n samples."""
        head = -(-self._word(len(self.rows)) // PAGE) * PAGE
        ends = ((first, min(end, n)) for first, end in self.rows if first < n)
        return head + np.dtype(self.dtype).itemsize * sum((end - first) * end for first, end in ends)


TILE = 256  # rows and columns of a tile; in float64 a tile has half a megabyte, which stays in a core's cache
# rows of a slab, which one call of the kernel computes; a multiple of TILE, so that each diagonal tile is in one slab
SLAB = 8 * TILE
# symmetry is tested on PROBED x PROBED pairs; also the number of rows of a call of the kernel that computes diagonals
PROBED = 64
UNEVEN = 1e-12  # largest asymmetry, relative to the largest entry, that is allowed and removed by averaging
UNIT = 2.0**-53
STORED = {"float64": 0.0, "float32": 2.0**-24}  # relative error that storing an entry makes
UNDERFLOW = 2.0**-149  # underflow of an entry below the least normal float32
# the largest entry of float32 tiles must be at least this; underflow is then at most 2^-23 of their rounding error
SMALL = 2.0**-102
# above this or below its inverse, squares of entries and cubes of step sizes in bounds overflow or underflow
EXTREME = 2.0**240
SAME = 1e-6  # largest allowed difference of a file's entries from newly computed entries, relative to the largest entry

Kernel = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
Value = TypeVar("Value")
# Fill(out, start, end) fills the rows start to end in the columns 0 to end
Fill = Callable[[np.ndarray, int, int], None]


class Expansion(NamedTuple):
    """The sums h(x) c over the samples, where h(x) = k(x, samples), written as a basis b(x) times coefficients."""

    basis: Callable[[np.ndarray], np.ndarray]  # b, which maps points (p, d) to (p, k)
    coefficients: Float[np.ndarray, "T k C"]
    terms: int  # number of terms that are added for one value h(x) c, in all sums together


@refusing({"seen": "it is fingerprint"})
@dataclass(frozen=True, eq=False, kw_only=True)
class HeldGram(ABC):
    """A symmetric matrix H that gives products and blocks: `H @ v`, `H[rows]`, `H[np.ix_(rows, columns)]`.

    Products are summed in float64, whatever the dtype of the entries. `np.asarray` converts the object to a whole
    matrix.

    Args:
        rounding: relative error of each stored entry.
        of_kernel: shape (n,): the kernel's own error of entry ij is at most of_kernel[i] of_kernel[j].
    """

    rounding: float
    of_kernel: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.of_kernel)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return len(self), len(self)

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """The dtype of the stored entries."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """|H|_F of the stored entries, rounded upward."""

    @property
    def error(self) -> float:
        """A bound of |H - K|_F, where K is the exact matrix of the kernel."""
        return self._error(self.norm, self.of_kernel)

    def block_error(self, owned: np.ndarray, block: Float[np.ndarray, "p p"]) -> float:
        """A bound of |H - K|_F, as `error`, for the block of some samples.

        Args:
            owned: the samples.
            block: the stored entries of that block.
        """
        return self._error(float(np.linalg.norm(block)), self.of_kernel[owned])

    def _error(self, norm: float, of_kernel: np.ndarray) -> float:
        underflow = len(of_kernel) * UNDERFLOW if self.rounding else 0.0
        return 1.01 * (self.rounding * norm + float(of_kernel @ of_kernel) + underflow)

    @property
    @abstractmethod
    def largest_own(self) -> float:
        """The largest entry of the diagonal."""

    @property
    @abstractmethod
    def trace(self) -> float:
        """The sum of the diagonal."""

    @property
    @abstractmethod
    def product_rounding(self) -> float:
        """A bound of |fl(H v) - H v|_F / |v|_F, where fl(H v) is the product as `@` computes it."""

    @property
    def work(self) -> float:
        """The number of arithmetic operations that this machine's cores do for a product with a vector."""
        return 2.0 * len(self) ** 2

    @cached_property
    def fingerprint(self) -> Float[np.ndarray, "n 1"]:
        """H times a fixed vector of random signs; two matrices are told apart by this product."""
        return self @ np.random.default_rng(0).choice([-1.0, 1.0], (len(self), 1))

    @abstractmethod
    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]: ...

    @abstractmethod
    def __getitem__(self, at: np.ndarray | tuple[np.ndarray, ...]) -> Float[np.ndarray, "p q"]: ...

    def cross(self, kernel: Kernel, x: Float[np.ndarray, "p d"], samples: np.ndarray) -> Float[np.ndarray, "p n"]:
        """The kernel between new points and the samples.

        Args:
            kernel: the kernel of H.
            x: points, shape (p, d).
            samples: the samples of H.
        """
        return kernel(x, samples)

    def expansion(self, cross: Callable[[np.ndarray], np.ndarray], c: Float[np.ndarray, "T n C"]) -> Expansion:
        """The sums h(x) c at new points x, as an `Expansion`.

        Args:
            cross: h.
            c: coefficients of the samples, shape (T, n, C).
        """
        return Expansion(cross, c, len(self))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        require("the whole Gram matrix", lambda n: 8 * n * n, n=len(self))
        return self[np.arange(len(self))]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tiles(HeldGram):
    """A matrix stored as slabs of rows of its lower triangle.

    Args:
        slabs: the slabs in order; a slab has the rows s to e of columns 0 to e.
    """

    slabs: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str = "float64", memmap: Path | None = None
    ) -> Tiles:
        """The kernel of all pairs of samples.

        Args:
            kernel: the function (x, z) -> (p, n); z may be None, which means x itself. Entry ij is compared with entry
                ji for all pairs within the block of 2048 samples of each slab. The two entries are also compared where
                i is one of 64 samples of such a block and j is one of 64 samples before the block. For all other pairs
                symmetry is assumed.
            x: samples, shape (n, d).
            dtype: "float64", or "float32" for half the memory; default float64.
            memmap: a file that holds the tiles in place of memory; an existing file is continued, or read if it is
                complete.

        Raises:
            ValueError: there is too little memory, or too little room on the disk. Or the file has other tiles, as is
                seen from one row in 256 or from the row of each slab's largest entry off the diagonal. Or entries are
                beyond or far below float32, with dtype "float32". Or the kernel is complex, not symmetric where
                symmetry is tested, not finite, of another shape, or not positive semi-definite, since it has an entry
                too large for its diagonal.
        """
        x = finite_array("x", x)
        ends = slab_rows(len(x))
        room = tiles_room if memmap else tiles_bytes
        require("the tiles of the Gram matrix", lambda n: room(n, dtype), n=len(x))
        fill = filler(kernel, x, dtype)
        file = None if memmap is None else TilesFile.of(memmap, _mark(kernel, x, dtype), ends, dtype)
        slabs = [] if file is None else [file.slab(number) for number in range(file.whole)]
        if file is not None and slabs:
            _require_same(kernel, x, slabs, file)
        for number, (start, end) in list(enumerate(ends))[len(slabs) :]:
            interruption.check()
            slabs.append(np.empty((end - start, end), dtype) if file is None else file.slab(number))
            fill(slabs[-1], start, end)
            if file is not None:
                file.keep(number, _nearest(slabs[-1]))
        return cls(slabs=tuple(slabs), rounding=STORED[dtype], of_kernel=stored_kernel_error(kernel, x, dtype))

    @property
    def rows(self) -> Sequence[tuple[int, int]]:
        """The first row of each slab and the row after its last."""
        return [(slab.shape[1] - len(slab), slab.shape[1]) for slab in self.slabs]

    def of_slabs(self, function: Callable[..., Value], *arguments: object) -> Iterator[Value]:
        """The values of function(slab, arguments) for each slab in order, computed one at a time.

        Args:
            function: (slab, arguments) -> value.
            arguments: further arguments, the same for all slabs.
        """
        for slab in self.slabs:
            interruption.check()
            yield function(slab, *arguments)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored entries."""
        return self.slabs[0].dtype

    @cached_property
    def norm(self) -> float:
        """|H|_F of the stored entries, rounded upward."""
        return float(np.sqrt(sum(self.of_slabs(_square)))) * (1 + 2 * len(self) * UNIT)

    @property
    def largest_own(self) -> float:
        """The largest entry of the diagonal."""
        return float(max(own.max() for own in self.of_slabs(_diagonal)))

    @property
    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(sum(own.sum() for own in self.of_slabs(_diagonal)))

    @property
    def product_rounding(self) -> float:
        """A bound of |fl(H v) - H v|_F / |v|_F; each term is rounded in the sum of its tile and in the sum over the
        tiles.
        """
        additions = TILE + 2 * len(self) / TILE + 4
        return 1.01 * additions * UNIT * self.norm

    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        return added(None, slab_products(self.slabs, v))

    def __getitem__(self, at: np.ndarray | tuple[np.ndarray, ...]) -> Float[np.ndarray, "p q"]:
        rows, columns = (np.ravel(part) for part in (at if isinstance(at, tuple) else (at, np.arange(len(self)))))
        block = np.empty((len(rows), len(columns)))
        for (start, end), (below, above) in zip(self.rows, self.of_slabs(_pieces, rows, columns), strict=True):
            block[_crossed(*entries_below(start, end, rows, columns))] = below
            block[_crossed(*entries_above(start, end, rows, columns))] = above.T
        return block


def slab_rows(n: int) -> list[tuple[int, int]]:
    """The first row of each slab of n samples, and the row after its last."""
    return [(start, min(start + SLAB, n)) for start in range(0, n, SLAB)]


def filler(kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str) -> Fill:
    """A function that fills slabs with the kernel's entries, and refuses entries that a Gram matrix cannot have."""
    if kernel is infinite:
        pair_of_inputs(x, None)  # refuses a row of zeros; the message has its index among all samples
    return _compiled(x, dtype) if kernel is infinite and compiles(x) else _asked(kernel, x, dtype)


def slab_products(slabs: Sequence[np.ndarray], v: Float[np.ndarray, "n k"]) -> Iterator[Float[np.ndarray, "m k"]]:
    """Each slab's contribution to the first rows of the product, in the order of the slabs.

    The values do not depend on the number of threads.
    """
    stopped = Event()
    product = partial(_slab_product, v=v, stopped=stopped)
    if len(slabs) == 1:
        yield product(slabs[0])
        return
    with worker_threads() as count:  # threads of this package, since BLAS is slow on thin products
        if count == 1:
            yield from map(product, slabs)
            return
        with ThreadPoolExecutor(count) as workers:
            try:
                yield from workers.map(in_context(product), slabs)
            finally:
                stopped.set()  # after an interrupt the threads end after their present tile


def added(before: Float[np.ndarray, "m k"] | None, parts: Iterable[np.ndarray]) -> Float[np.ndarray, "n k"]:
    """The sum of the earlier slabs' contributions `before` and of these parts, added in the order of the slabs."""
    total = before
    for part in parts:
        interruption.check()
        longer = part.copy()
        if total is not None:
            longer[: len(total)] += total
        total = longer
    assert total is not None  # never None, since there is at least one slab
    return total


def _square(slab: np.ndarray) -> float:
    """|.|_F^2 of a slab and its mirror image."""
    return sum((1 + (rows != columns)) * float(np.vdot(part, part)) for rows, columns, part in _tiles_of_slab(slab))


def _diagonal(slab: np.ndarray) -> Float[np.ndarray, " m"]:
    """The diagonal entries in a slab."""
    return np.diagonal(slab, slab.shape[1] - len(slab)).astype(float)


def entries_below(start: int, end: int, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows and columns of a block that are in a slab."""
    return (rows >= start) & (rows < end), columns < end


def entries_above(start: int, end: int, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows and columns of a block that are in the slab's mirror image above the diagonal."""
    return rows < start, (columns >= start) & (columns < end)


def _pieces(slab: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a block that are in a slab, and the transposed entries of the block that are in the slab's mirror
    image.
    """
    start, end = slab.shape[1] - len(slab), slab.shape[1]
    own, before = entries_below(start, end, rows, columns)
    over, mirrored = entries_above(start, end, rows, columns)
    return slab[(rows[own] - start)[:, None], columns[before]], slab[(columns[mirrored] - start)[:, None], rows[over]]


def _crossed(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of chosen rows at chosen columns.

    This equals `np.ix_` but is faster, since `np.ix_` inspects the types first.
    """
    return np.flatnonzero(rows)[:, None], np.flatnonzero(columns)


def _tiles_of_slab(slab: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
    start = slab.shape[1] - len(slab)
    for first in range(0, len(slab), TILE):
        some = slab[first : first + TILE]
        top = start + first
        for left in range(0, top + 1, TILE):
            part = some[:, left : min(left + TILE, top + len(some))]
            columns = slice(left, left + part.shape[1])
            yield slice(top, top + len(some)), columns, part.astype(float, copy=False)


def _slab_product(slab: np.ndarray, v: Float[np.ndarray, "n k"], stopped: Event) -> Float[np.ndarray, "m k"]:
    """The contribution of a slab and its mirror image to the first m rows of the product."""
    product = np.zeros((slab.shape[1], *v.shape[1:]))
    for rows, columns, part in _tiles_of_slab(slab):
        if stopped.is_set():  # the product is no longer needed
            break
        product[rows] += part @ v[columns]
        if columns != rows:
            product[columns] += part.T @ v[rows]
    return product


def _compiled(x: Float[np.ndarray, "n d"], dtype: str) -> Fill:
    """A function that fills slabs with H_inf, only to the accuracy of float32 if tiles are stored in float32."""
    x = pair_of_inputs(x, None)[0]
    largest = float(np.linalg.norm(x, axis=1).max() ** 2) / 2
    _require_room(largest, dtype)
    _require_size(largest, dtype)
    steep = COARSE if STORED[dtype] else STEEP

    def fill(slab: np.ndarray, start: int, end: int) -> None:
        if start:
            fill_infinite(slab[:, :start], x[start:end], x[:start], False, steep)
        fill_infinite(slab[:, start:], x[start:end], x[start:end], True, steep)

    return fill


def _asked(kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str) -> Fill:
    """A function that fills slabs from any kernel, and refuses entries that no positive semi-definite matrix has."""
    _require_symmetric(kernel, x)
    roots = np.full(len(x), np.nan)

    def fill(slab: np.ndarray, start: int, end: int) -> None:
        for first in range(0, start, PROBED):
            if np.isnan(roots[first]):  # the file has this slab already: compute its diagonal
                some = x[first : min(first + PROBED, start)]
                roots[first : first + len(some)] = np.sqrt(np.maximum(np.diagonal(_values(kernel, some, None)), 0))
        own = _values(kernel, x[start:end], None)
        _require_mirrored(own, own.T)
        roots[start:end] = np.sqrt(np.maximum(np.diagonal(own), 0))
        # in a positive semi-definite matrix no entry is larger than the largest diagonal entry
        _require_room(roots[:end].max() ** 2, dtype)
        if end == len(x):
            _require_size(roots.max() ** 2, dtype)
        slab[:, start:] = _allowed((own + own.T) / 2, roots[start:end], roots[start:end])
        if start:
            beside = _values(kernel, x[start:end], x[:start])
            rows, columns = (np.linspace(0, size - 1, PROBED).astype(int) for size in beside.shape)
            _require_mirrored(beside[np.ix_(rows, columns)], _values(kernel, x[columns], x[start + rows]).T)
            slab[:, :start] = _allowed(beside, roots[start:end], roots[:start])

    return fill


def _require_room(largest: float, dtype: str) -> None:
    if largest > (most := min(float(np.finfo(dtype).max), EXTREME)):
        other = "take float64 tiles, or " if STORED[dtype] and largest <= EXTREME else ""
        raise ValueError(
            f"the samples are too large: the kernel has entries up to {largest:.3g}, and {dtype} tiles take up to "
            f"{most:.3g}; {other}divide the samples by a number"
        )


def _require_size(largest: float, dtype: str) -> None:
    """Refuse entries so large or small that float32 numbers, or an error bound, would lose their relative accuracy."""
    least = SMALL if STORED[dtype] else 1 / EXTREME
    if largest < least and (largest or STORED[dtype]):
        other = "take float64 tiles, or " if STORED[dtype] and largest >= 1 / EXTREME else ""
        raise ValueError(
            f"the samples are too small: the kernel has no entry above {largest:.3g}, and {dtype} tiles need one of "
            f"{least:.3g}; {other}multiply the samples by a number"
        )


def kernel_error(kernel: Kernel, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """The field `of_kernel` of a `HeldGram`; it is 0 for a user's kernel, whose float64 values are taken as exact."""
    if kernel is not infinite:
        return np.zeros(len(x))
    return np.sqrt((3 * x.shape[1] + 24) * UNIT) * np.linalg.norm(x, axis=1)  # as in `infinite_estimate`


def stored_kernel_error(kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str) -> Float[np.ndarray, " n"]:
    """The `kernel_error` of stored tiles; for float32 it is larger, as the compiled code is less accurate."""
    return kernel_error(kernel, x) * np.sqrt(COARSER if STORED[dtype] else 1)


def tiles_bytes(n: int, dtype: str) -> float:
    """Bytes of the tiles of n samples, and of the kernel's temporary arrays for one slab."""
    return np.dtype(dtype).itemsize * (n * n / 2 + n * min(n, SLAB) / 2) + tiles_room(n, dtype)


def tiles_room(n: int, dtype: str) -> float:
    """Bytes of the entries of a slab before they are stored; tiles in a file need only these bytes in memory.

    The bytes of a slab's symmetric part are counted three times, and the bytes of the rest one and a half times. A call
    of a user's kernel may take more.
    """
    return 8 * 1.5 * min(n, SLAB) * (n + min(n, SLAB))


def _mark(kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str) -> bytes:
    """The mark of a file of tiles: a hash of the samples, the slabs and some entries of the kernel."""
    digest = hashlib.sha256(f"{dtype} {SLAB} {x.shape}".encode())
    for part in (x, _values(kernel, x[-1:], x[:PROBED])):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.digest()


def _nearest(slab: np.ndarray) -> int:
    """The row of a slab with its largest entry off the diagonal."""
    start = slab.shape[1] - len(slab)
    return int(np.argmax([max(row[:i].max(initial=0), -row[:i].min(initial=0)) for i, row in enumerate(slab, start)]))


def _require_same(kernel: Kernel, x: np.ndarray, slabs: Sequence[np.ndarray], file: TilesFile) -> None:
    """Refuse a file that has another kernel, if the difference shows in the rows that are checked.

    Of each slab, the first row and every 256th row after it are checked, and the row of the slab's largest entry off
    the diagonal. The kernel is called once, since most of its work is to prepare all samples.
    """
    looked = [np.append(np.arange(0, len(slab), TILE), row) for slab, row in zip(slabs, file.nearest, strict=True)]
    rows = np.concatenate([start + own for (start, _), own in zip(file.rows, looked, strict=False)])
    values, first = _values(kernel, x[rows], x[: slabs[-1].shape[1]]), 0
    for slab, own in zip(slabs, looked, strict=True):
        exact = values[first : (first := first + len(own)), : slab.shape[1]]
        off, largest = np.abs(slab[own] - exact).max(), np.abs(exact).max()
        if not off <= SAME * largest:
            raise ValueError(
                f"{file.path} has tiles of another kernel: some entries are off by {off:.3g}, the largest being "
                f"{largest:.3g}; name another file, or remove it"
            )


def _values(kernel: Kernel, x: np.ndarray, z: np.ndarray | None) -> np.ndarray:
    values, shape = real_array("kernel", kernel(x, z)), (len(x), len(x if z is None else z))
    if values.shape != shape:
        raise ValueError(f"the kernel of {shape[0]} by {shape[1]} samples has shape {values.shape}; it must be {shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"the kernel has the entry {values[~np.isfinite(values)][0]}; every entry must be finite")
    return values


def _allowed(values: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The entries; raises a ValueError if an entry ij is larger than the root of the product of the diagonal entries ii
    and jj.
    """
    for i, row in enumerate(values):
        over = np.abs(row) - left[i] * right
        if over.max() > 1e-9 * left[i] * right.max():
            j = int(np.argmax(over))
            raise ValueError(
                f"the kernel has the entry {row[j]:.6g} between samples whose diagonal entries are {left[i] ** 2:.6g} "
                f"and {right[j] ** 2:.6g}: it is not positive semi-definite, which the kernel regime requires"
            )
    return values


def _require_symmetric(kernel: Kernel, x: np.ndarray) -> None:
    first, last = x[:PROBED], x[-PROBED:]
    _require_mirrored(_values(kernel, first, last), _values(kernel, last, first).T)


def _require_mirrored(block: np.ndarray, mirrored: np.ndarray) -> None:
    """Refuse a block that differs from its mirror image."""
    off, largest = np.abs(block - mirrored).max(), np.abs(block).max()
    if off > UNEVEN * largest:
        raise ValueError(
            f"the kernel is not symmetric: entries differ from their mirror images by up to {off:.3g}, the largest "
            f"being {largest:.3g}; the kernel regime needs k(x, z) = k(z, x)"
        )


NULL = 1e-12  # eigenvalues of the landmarks' matrix below this share of the largest are treated as rounding errors


@dataclass(frozen=True, eq=False)
class Features:
    """The kernel phi(x) . phi(z). With `kernel_regime(..., matrix_free=True)` the rounds of n samples need 8 n m bytes.

    Args:
        of: phi, samples (p, d) -> (p, m).
        count: m.
    """

    of: Callable[[np.ndarray], np.ndarray]
    count: int

    def __call__(self, x: Float[np.ndarray, "p d"], z: Float[np.ndarray, "q d"] | None = None) -> np.ndarray:
        """The kernel of all pairs, (p, q); with z None the pairs of x with itself."""
        left = self.features(x)
        return left @ (left if z is None else self.features(z)).T

    def features(self, x: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "p m"]:
        """phi of samples.

        Args:
            x: samples, shape (p, d).

        Raises:
            ValueError: features of another shape, or that are not finite.
        """
        with jax_in_float64():
            values = finite_array("of(x)", self.of(x))
        if values.shape != (len(x), self.count):
            raise ValueError(f"of gives features of shape {values.shape}; they must be {(len(x), self.count)}")
        return values


def kernel_of(given: Kernel | None) -> Kernel:
    """The given kernel, converted to float64, or the infinite-width kernel where none is given."""
    if given is not None and not callable(given):
        raise ValueError(f"gram is {type(given).__name__}; tiles take a kernel, a function (x, z) -> (p, n)")
    return infinite if given is None else given if isinstance(given, Features) else in_float64(given)


def nystroem(x: Float[np.ndarray, "n d"], landmarks: int, kernel: Kernel = infinite, seed: int = 0) -> Features:
    """Nystroem's kernel k(x, L) k(L, L)^+ k(L, z), of low rank, in place of k; the landmarks L are some of the samples.

    Args:
        x: samples, shape (n, d).
        landmarks: the number of landmarks, drawn without replacement.
        kernel: k, (x, z) -> (p, q). Default: `ntkfl.gram.infinite`.
        seed: the seed of the draw; default 0.

    Raises:
        ValueError: landmarks outside 1 to n; a kernel that is 0, complex or not finite on the landmarks.

    Source: arXiv:1303.1849.
    """
    x, kernel = finite_array("x", x), in_float64(kernel)
    if not 1 <= landmarks <= len(x):
        raise ValueError(f"landmarks is {landmarks}; it must be from 1 to the number of samples, {len(x)}")
    require("the landmarks' matrix", lambda landmarks: 8 * 3 * landmarks**2, landmarks=landmarks)
    chosen = x[np.sort(np.random.default_rng(seed).choice(len(x), landmarks, replace=False))]
    values, vectors = np.linalg.eigh(finite_array("kernel", kernel(chosen, None)))
    kept = values > NULL * values[-1]
    if not kept.any():
        raise ValueError(f"the kernel's largest eigenvalue on the landmarks is {values[-1]:.3g}; it must be positive")
    root = vectors[:, kept] / np.sqrt(values[kept])
    return Features(lambda z: kernel(z, chosen) @ root, root.shape[1])


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureGram(HeldGram):
    """The matrix H = F F' for an array F of features."""

    kernel: Features
    held: Float[np.ndarray, "n m"]  # F

    @classmethod
    def by(cls, kernel: Features, x: Float[np.ndarray, "n d"]) -> FeatureGram:
        """Compute the features of all samples, few samples at a time."""
        require("the features of all samples", lambda n: features_bytes(n, kernel.count), n=len(x))
        held = np.empty((len(x), kernel.count))
        for start in range(0, len(x), SLAB):
            interruption.check()
            held[start : start + SLAB] = kernel.features(x[start : start + SLAB])
        return cls(kernel=kernel, held=held, rounding=0.0, of_kernel=np.zeros(len(x)))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored features."""
        return self.held.dtype

    @cached_property
    def norm(self) -> float:
        """|H|_F = |F' F|_F, rounded upward."""
        thin = self.held if self.held.shape[0] > self.held.shape[1] else self.held.T
        return float(np.linalg.norm(thin.T @ thin)) + self.product_rounding

    @property
    def work(self) -> float:
        """The operations of a product with a vector."""
        return 4.0 * self.held.size

    @property
    def largest_own(self) -> float:
        """The largest entry of the diagonal."""
        return float(self._diagonal.max())

    @property
    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(self._diagonal.sum())

    @property
    def product_rounding(self) -> float:
        """A bound of |fl(F (F' v)) - H v|_F / |v|_F, and of the rounding errors of fl(F' F) and of a block's entries.

        The entries of the products are sums of n or of m terms.
        """
        return 1.01 * (sum(self.held.shape) + 8) * UNIT * self.trace

    @cached_property
    def _diagonal(self) -> Float[np.ndarray, " n"]:
        return np.einsum("ij,ij->i", self.held, self.held)

    def block_error(self, owned: np.ndarray, block: Float[np.ndarray, "p p"]) -> float:
        """A bound of the error of a block in the Frobenius norm; the entries are sums of m terms."""
        return 1.01 * (self.held.shape[1] + 8) * UNIT * float(self._diagonal[owned].sum())

    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        return self.held @ (self.held.T @ v)

    def __getitem__(self, at: np.ndarray | tuple[np.ndarray, ...]) -> Float[np.ndarray, "p q"]:
        rows, columns = (np.ravel(part) for part in (at if isinstance(at, tuple) else (at, np.arange(len(self)))))
        left = self.held[rows]
        return left @ (left if np.array_equal(rows, columns) else self.held[columns]).T

    def cross(self, kernel: Kernel, x: Float[np.ndarray, "p d"], samples: np.ndarray) -> Float[np.ndarray, "p n"]:
        """The kernel between new points and the samples; the samples' features are not computed again."""
        return self.kernel.features(x) @ self.held.T

    def expansion(self, cross: Callable[[np.ndarray], np.ndarray], c: Float[np.ndarray, "T n C"]) -> Expansion:
        """The sums h(x) c at new points x, as phi(x) times F' c."""
        return Expansion(self.kernel.features, self.held.T @ c, sum(self.held.shape))


def features_bytes(n: int, count: int) -> float:
    """Bytes of the features of n samples, and of one slab's features while they are computed."""
    return 8.0 * count * (n + 2 * min(n, SLAB))
