"""Kernel matrices in tiles that are held outside this process: on a torch device, or by the workers of a Dask cluster.
As in `tiles`, the rows of a matrix are stored in slabs, which are groups of consecutive rows.

The entries of the tiles on a device are computed by this machine's processors; the device multiplies the tiles. On a
cluster, every worker multiplies its rows, and the results are added in the order of the rows.
"""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.gram.tiles import (
    STORED,
    TILE,
    UNIT,
    Kernel,
    Tiles,
    Value,
    added,
    entries_above,
    entries_below,
    filler,
    slab_products,
    slab_rows,
    stored_kernel_error,
    tiles_bytes,
    tiles_room,
)
from ntkfl.memory import TooLittleMemory, available, left_for, require
from ntkfl.problem import finite_array

if TYPE_CHECKING:
    import torch
    from distributed import Client, Future, Worker


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceTiles(Tiles):
    """A matrix like `Tiles` whose slabs of rows are on a device; its products equal the products of `Tiles` up to
    rounding errors.

    Products are summed in float64 on the device. The clients' blocks of the matrix and the other vectors of a run stay
    in this process.
    """

    slabs: tuple[torch.Tensor, ...]  # type: ignore[assignment]

    @classmethod
    def on(
        cls, device: torch.device, kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str = "float64"
    ) -> DeviceTiles:
        """The kernel of all pairs of samples.

        Raises:
            ValueError: too little memory on the device or here; as `Tiles.of`.
        """
        import torch

        x, slabs = finite_array("x", x), []
        require("a slab of tiles", lambda n: tiles_room(n, dtype), n=len(x))
        require(f"the tiles on {device}", lambda n: device_bytes(n, dtype), room_on(device, len(x), dtype), n=len(x))
        fill = filler(kernel, x, dtype)
        for start, end in slab_rows(len(x)):
            interruption.check()
            slab = np.empty((end - start, end), dtype)
            fill(slab, start, end)
            slabs.append(torch.from_numpy(slab).to(device))
        return cls(slabs=tuple(slabs), rounding=STORED[dtype], of_kernel=stored_kernel_error(kernel, x, dtype))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored entries."""
        return np.dtype(str(self.slabs[0].dtype).removeprefix("torch."))

    @property
    def product_rounding(self) -> float:
        """A bound of |fl(H v) - H v|_F / |v|_F, for any order of summation."""
        return 1.01 * (len(self) + len(self) / TILE + 4) * UNIT * self.norm

    @property
    def work(self) -> float:
        """Always 0, since this machine's cores do not compute the products."""
        return 0.0

    def of_slabs(self, function: Callable[..., Value], *arguments: object) -> Iterator[Value]:
        """The values of a function of each slab and these arguments, in the slabs' order; each slab is copied to the
        host.
        """
        for slab in self.slabs:
            interruption.check()
            yield function(slab.cpu().numpy(), *arguments)

    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        import torch

        factor = torch.from_numpy(np.ascontiguousarray(v, float)).to(self.slabs[0].device)
        product = torch.zeros_like(factor)
        for (start, end), slab in zip(self.rows, self.slabs, strict=True):
            for first in range(0, end - start, TILE):
                interruption.check()
                part = slab[first : first + TILE].to(torch.float64)
                top = start + first
                product[top : top + len(part)] += part @ factor[:end]
                if start:
                    product[:start] += part[:, :start].T @ factor[top : top + len(part)]
        return product.cpu().numpy()

    def __getitem__(self, at: np.ndarray | tuple[np.ndarray, ...]) -> Float[np.ndarray, "p q"]:
        import torch

        def entries(slab: torch.Tensor, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            lines = slab[torch.from_numpy(rows).to(slab.device)]
            return lines[:, torch.from_numpy(columns).to(slab.device)].cpu().numpy()

        rows, columns = (np.ravel(part) for part in (at if isinstance(at, tuple) else (at, np.arange(len(self)))))
        block = np.empty((len(rows), len(columns)))
        for (start, end), slab in zip(self.rows, self.slabs, strict=True):
            interruption.check()
            own, before = entries_below(start, end, rows, columns)
            block[np.ix_(own, before)] = entries(slab, rows[own] - start, columns[before])
            over, mirrored = entries_above(start, end, rows, columns)
            block[np.ix_(over, mirrored)] = entries(slab, columns[mirrored] - start, rows[over]).T
        return block


def device_bytes(n: int, dtype: str) -> float:
    """Bytes needed on the device for the tiles, and for some rows in float64 while they are multiplied."""
    return tiles_bytes(n, dtype) - tiles_room(n, dtype) + 8 * n * min(TILE, n)


def room_on(device: torch.device, n: int, dtype: str) -> float:
    """The number of free bytes on the device."""
    import torch

    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return left_for(device_bytes(n, dtype))


SECONDS_BETWEEN_LOOKS = 2.0  # seconds between two counts of the remaining workers during a product
LOOKS_WITHOUT_WORKERS = 5  # a product is given up after this many counts that find no worker

Rows = Sequence[tuple[int, int]]


class ClusterStopped(RuntimeError):
    """A Dask cluster can compute no more: it is out of reach, has no workers, or runs other code."""


class _Worker(NamedTuple):
    """A worker's description of itself."""

    code: str
    machine: str
    holds: float  # bytes that the worker may still take before Dask writes to the disk or ends it
    left: float  # bytes that are free on the worker's machine


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskTiles(Tiles):
    """A matrix like `Tiles` whose slabs of rows are on Dask workers.

    Products have the same bits as products of `Tiles` in this process if workers have as many BLAS threads as this
    process. Each worker has consecutive slabs, and all workers have nearly the same number of entries. If a worker
    dies, others compute its rows again. Error bounds assume the same matrix in all products, so recomputed rows with
    other bits are refused.
    """

    slabs: tuple[np.ndarray, ...] = ()
    client: Client
    shares: tuple[Future, ...]
    checksums: tuple[int, ...]  # checksums of the entries that each worker holds
    entries: str

    @classmethod
    def on(cls, client: Client, kernel: Kernel, x: Float[np.ndarray, "n d"], dtype: str = "float64") -> DaskTiles:
        """The kernel of all pairs of samples, computed by the workers that the cluster has now.

        Raises:
            ValueError: too little memory on a worker; as `Tiles.of`.
            ClusterStopped: there is no worker, a worker has other code, or the cluster is lost.
        """
        x = finite_array("x", x)
        shares = _shares(client, len(x), x.shape[1], dtype)
        with _cluster_errors(client):
            submit = partial(
                client.submit, _built, _sent(client, x), kernel, dtype, pure=False, allow_other_workers=True
            )
            futures = tuple(submit(own, workers=[address]) for address, own in shares.items())
            counted = [client.submit(_checksum, future, pure=False) for future in futures]
        return cls(
            client=client,
            shares=futures,
            # an error of the kernel is raised here; the slabs themselves stay on the workers
            checksums=tuple(_awaited(client, future) for future in counted),
            entries=dtype,
            rounding=STORED[dtype],
            of_kernel=stored_kernel_error(kernel, x, dtype),
        )

    @property
    def rows(self) -> Rows:
        """The first row of each slab and the row after its last."""
        return slab_rows(len(self))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored entries."""
        return np.dtype(self.entries)

    @property
    def work(self) -> float:
        """Always 0, since this machine's cores do not compute the products."""
        return 0.0

    def of_slabs(self, function: Callable[..., Value], *arguments: object) -> Iterator[Value]:
        """The values of a function of each slab and these arguments, in the slabs' order, one worker at a time."""
        with _cluster_errors(self.client):
            submit = self.client.submit
            futures = [
                submit(_of_share, *share, function, arguments, pure=False)
                for share in zip(self.shares, self.checksums, strict=True)
            ]
        for future in futures:
            yield from _awaited(self.client, future)

    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        with _cluster_errors(self.client):
            sent, submit = _sent(self.client, v), self.client.submit
            total: Any = None
            shares = zip(self.shares, self.checksums, strict=True)
            for part in [submit(_products, *share, sent, pure=False) for share in shares]:
                # one after the other, so that sums have the same order as in one process
                total = submit(added, total, part, pure=False)
        return _awaited(self.client, total)


def has_room(client: Client, n: int, d: int, dtype: str) -> bool:
    """Whether the workers have memory for the tiles of n samples of d features."""
    try:
        return bool(_shares(client, n, d, dtype))
    except TooLittleMemory:
        return False


def _shares(client: Client, n: int, d: int, dtype: str) -> dict[str, Rows]:
    """The rows of the slabs that each worker is to hold, by the worker's address, such that every worker has room for
    its rows.
    """
    workers, rows = _workers(client), slab_rows(n)
    sizes = np.array([(end - start) * end for start, end in rows], float)
    whose = ((np.cumsum(sizes) - sizes / 2) / sizes.sum() * len(workers)).astype(int)
    shares: dict[str, Rows] = {}
    machines: dict[str, list[tuple[str, float]]] = {}
    for number, (address, worker) in enumerate(sorted(workers.items())):
        own = np.flatnonzero(whose == number)
        if not own.size:
            continue
        shares[address] = [rows[i] for i in own]
        part = float(sizes[own].sum() / sizes.sum())
        _require(f"the rows of tiles on the worker {address}", [part], worker.holds, n, d, dtype)
        machines.setdefault(worker.machine, []).append((address, part))
    for machine, held in machines.items():
        left = min(workers[address].left for address, _ in held)
        _require(f"the rows of tiles on {machine}", [part for _, part in held], left, n, d, dtype)
    return shares


def _require(what: str, parts: list[float], limit: float, n: int, d: int, dtype: str) -> None:
    """Require that shares of the tiles, each with the samples and the temporary arrays of a slab, fit into the limit.

    Each number of `parts` is a share of all tiles.
    """

    def needs(n: int) -> float:
        room = tiles_room(n, dtype)
        return sum(part * (tiles_bytes(n, dtype) - room) + room + 8 * 2 * n * d for part in parts)

    require(what, needs, limit, "more machines take less each", n=n)


def _workers(client: Client) -> dict[str, _Worker]:
    """A dictionary from each worker's address to its description.

    Raises:
        ClusterStopped: there are no workers, or a worker does not compute as this process does.
    """
    with _cluster_errors(client):
        workers = client.run(_worker, on_error="return")
    if not workers:
        raise ClusterStopped(f"{_name(client)} has no workers; start some: dask worker ADDRESS --nthreads 1")
    same = "give it the same checkout, Python and packages, and start it anew"
    for address, worker in workers.items():
        if isinstance(worker, Exception):
            raise ClusterStopped(f"the worker {address} cannot begin: {type(worker).__name__}: {worker}; {same}")
        if worker.code != _code():
            raise ClusterStopped(f"the worker {address} has another version of ntkfl or numpy; {same}")
    return workers


def _awaited(client: Client, future: Future) -> Any:
    """The result of a task.

    Raises:
        ValueError: a worker has refused the task. ClusterStopped: the task has no result.
    """
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    alone = 0
    while alone < LOOKS_WITHOUT_WORKERS:
        interruption.check()
        done = future.done()
        try:
            return future.result(timeout=None if done else SECONDS_BETWEEN_LOOKS)
        except KilledWorker:
            raise ClusterStopped(
                "the rows of tiles ended every worker that was given them: too little memory there, or a kernel that "
                "ends its process"
            ) from None
        # a CommClosedError means that the connection was lost during the transfer
        except (CancelledError, CommClosedError):
            raise ClusterStopped(f"the connection to {_name(client)} is lost") from None
        except ValueError:
            raise
        except Exception as error:
            if done or not isinstance(error, TimeoutError):
                raise ClusterStopped(f"a worker cannot compute its rows: {type(error).__name__}: {error}") from error
        with _cluster_errors(client):
            alone = 0 if client.nthreads() else alone + 1
    raise ClusterStopped(f"no worker of {_name(client)} is left")


def _sent(client: Client, array: np.ndarray) -> Future:
    """The array for the workers, kept by the scheduler.

    A scattered array would be lost with the workers that hold it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        return client.submit(_same, array, pure=False)


@contextmanager
def _cluster_errors(client: Client) -> Iterator[None]:
    """A context in which every error that dask raises means that the scheduler is lost."""
    try:
        yield
    except Exception as error:
        raise ClusterStopped(f"the connection to {_name(client)} is lost: {error}") from error


def _name(client: Client) -> str:
    return f"the Dask scheduler at {client.scheduler.address if client.scheduler else 'an address that is closed'}"


# --- functions that run on a worker


def _worker(dask_worker: Worker) -> _Worker:
    memory, used = dask_worker.memory_manager, dask_worker.monitor.get_process_memory()
    holds = (memory.memory_target_fraction or 1) * memory.memory_limit - used if memory.memory_limit else float("inf")
    return _Worker(_code(), platform.node(), max(0.0, holds), available())


@cache
def _code() -> str:
    """A checksum of what the bits of entries and products depend on: the versions of Python, numpy and numba, and the
    source files of `ntkfl.gram`.
    """
    digest = hashlib.sha256(f"{platform.python_version()} {np.__version__} {version('numba')}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _same(array: np.ndarray) -> np.ndarray:
    return array


class _Share(NamedTuple):
    slabs: list[np.ndarray]
    checksum: int


def _built(x: Float[np.ndarray, "n d"], kernel: Kernel, dtype: str, rows: Rows) -> _Share:
    """The slabs of these rows, computed on a worker."""
    # arrays that were sent are read-only, and numba needs writable arrays
    fill = filler(kernel, np.require(x, requirements="W"), dtype)
    slabs, checksum = [np.empty((end - start, end), dtype) for start, end in rows], 0
    for slab, (start, end) in zip(slabs, rows, strict=True):
        fill(slab, start, end)
        checksum = crc32(slab.data, checksum)
    return _Share(slabs, checksum)


def _checksum(share: _Share) -> int:
    return share.checksum


def _same_slabs(share: _Share, checksum: int) -> list[np.ndarray]:
    """The slabs, after a check that they equal the slabs that were built first.

    Raises:
        RuntimeError: the slabs differ.
    """
    if share.checksum != checksum:
        raise RuntimeError(
            "they were computed again, and differ in some bits from the first rows, but error bounds need equal rows; "
            "use workers on machines of one kind, and begin again"
        )
    return share.slabs


def _of_share(
    share: _Share, checksum: int, function: Callable[..., Value], arguments: tuple[object, ...]
) -> list[Value]:
    return [function(slab, *arguments) for slab in _same_slabs(share, checksum)]


def _products(share: _Share, checksum: int, v: Float[np.ndarray, "n k"]) -> list[np.ndarray]:
    return list(slab_products(_same_slabs(share, checksum), v))
