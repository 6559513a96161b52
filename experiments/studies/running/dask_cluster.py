"""Cells on a Dask cluster of the user.

The workers of the cluster measure cells and send the numbers, which this process stores.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from experiments.studies.running.cell_store import Cell, CellStore
from experiments.studies.running.code_version import OtherCode
from experiments.studies.running.measuring import RunStopped, Status, is_kept, keep
from experiments.studies.running.remote import measured_there

if TYPE_CHECKING:
    from distributed import Client

SECONDS_TO_CONNECT = 15
LOST = "the connection to the scheduler is lost"
DEADLY = "the workers of the cluster died while they measured this cell, again when nothing else was measured"
# Number of cells that are sent to the cluster for each of its threads. It is large enough that no thread waits for the
# transfer, and small enough that cells are shared fairly.
AHEAD = 4


@dataclass(frozen=True)
class Cluster:
    """The address of the scheduler of a cluster, and its three TLS files, if any.

    Raises:
        ValueError: the address has no protocol, or the TLS files do not go with the address.
    """

    address: str
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        files = {"--tls-ca": self.ca, "--tls-cert": self.cert, "--tls-key": self.key}
        if not self.address.startswith(("tcp://", "tls://")):
            raise ValueError(f"the scheduler is {self.address!r}; it must be tcp://HOST:PORT or tls://HOST:PORT")
        wanted = self.address.startswith("tls://")
        wrong = [option for option, file in files.items() if (file is not None) != wanted]
        if wrong and wanted:
            raise ValueError(f"{self.address} needs {', '.join(wrong)} too: the files that its workers have")
        if wrong:
            raise ValueError(f"{', '.join(wrong)} go with tls://HOST:PORT; the scheduler is {self.address}")

    def client(self) -> Client:
        """A client of the cluster.

        Raises:
            RunStopped: no scheduler answers, dask is not installed, or the TLS files are not accepted.
        """
        try:
            from distributed import Client
            from distributed.security import Security

            # The messages of these loggers are hidden, since our own message says what is wrong. If an interrupt comes
            # during a request, tornado's logger would also print a NameError of dask.
            for talkative in ("distributed.client", "distributed.batched", "tornado.application"):
                logging.getLogger(talkative).setLevel(logging.CRITICAL)
        except ImportError as error:
            raise RunStopped(f"{error}: pip install 'ntkfl[cluster]'") from None
        tls = {"tls_ca_file": self.ca, "tls_client_cert": self.cert, "tls_client_key": self.key}
        try:
            security = Security(require_encryption=True, **tls) if self.ca else None
            return _in_thread(
                lambda: Client(self.address, security=security, timeout=SECONDS_TO_CONNECT, set_as_default=False)
            )
        except (OSError, TimeoutError) as error:
            raise RunStopped(f"no Dask scheduler answers at {self.address}: {error}") from None


class DaskCluster:
    """The workers of a cluster; if a worker dies, dask gives its cells to other workers."""

    def __init__(self, spec: str, store: CellStore, cluster: Cluster) -> None:
        self._spec, self.store, self._cluster = spec, store, cluster

    def __enter__(self) -> DaskCluster:
        self._client = self._cluster.client()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def wait_for_workers(self, count: int) -> None:
        """Wait until the cluster has `count` workers.

        `run` works without this call, and begins as soon as there is a worker.
        """
        self._client.wait_for_workers(count)

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Status]]:
        """Measure the cells, and yield each one with its status when it is finished.

        If a worker dies, dask reports a failure of all its cells, even of those that were only waiting. So each such
        cell is measured again, alone and after all others, before it counts as failed.

        Raises:
            RunStopped: the connection to the scheduler is lost. OtherCode: a worker has another version of the code.
                OSError: as `CellStore.keep`.
        """
        from distributed import as_completed

        left = list(reversed(cells))
        # for each future, its cell and the claim of the cell, which is released when the cell is stored
        there: dict[Any, tuple[Cell, ExitStack]] = {}
        # cells of a worker that died, including those that were only waiting
        suspects: list[tuple[Cell, ExitStack]] = []
        finished = as_completed(loop=self._client.loop)

        def send(cell: Cell, claim: ExitStack) -> None:
            with _connected():
                future = self._client.submit(measured_there, self._spec, cell.inputs, pure=False)
            there[future] = cell, claim
            finished.add(future)

        try:
            while left or there or suspects:
                with _connected():
                    room = AHEAD * max(1, sum(self._client.nthreads().values()))
                while left and len(there) < room:
                    cell, claim = left.pop(), ExitStack()
                    if not claim.enter_context(self.store.claim(cell)):
                        yield cell, Status.BUSY
                    elif is_kept(self.store, cell):
                        claim.close()
                        yield cell, Status.KEPT
                    else:
                        send(cell, claim)
                alone = not (left or there)
                if alone and suspects:
                    send(*suspects.pop())
                if there:
                    future = next(finished)
                    cell, claim = there.pop(future)
                    result = _result(future)
                    if result is None and not alone:
                        suspects.append((cell, claim))
                        continue
                    with claim:
                        status = keep(self.store, cell, DEADLY if result is None else result)
                    yield cell, status
        finally:
            for future in there:
                future.cancel()
            for _, claim in (*there.values(), *suspects):
                claim.close()


def _in_thread(make: Callable[[], Client]) -> Client:
    """Call `make` in a separate thread, so that an interrupt does not hit the call, and return its result.

    An exception of the call is raised here.

    A client that is interrupted while it connects would wait half a minute and print a traceback.
    """
    made: SimpleQueue[Client | Exception] = SimpleQueue()

    def run() -> None:
        try:
            made.put(make())
        except Exception as error:
            made.put(error)

    Thread(target=run, daemon=True).start()
    result = made.get()
    if isinstance(result, Exception):
        raise result
    return result


@contextmanager
def _connected() -> Iterator[None]:
    """A block in which every exception of dask means that the connection to the scheduler is lost."""
    try:
        yield
    except Exception as error:
        raise RunStopped(f"{LOST}: {error}") from error


def _result(future: Any) -> bytes | str | None:
    """The result of `measured_there`, or None if the workers that had the cell died for whatever reason.

    Raises:
        OtherCode, RunStopped: there is no result, and the cell is not the reason.
    """
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        return future.result()
    except KilledWorker:
        return None
    except (CancelledError, CommClosedError):  # the second error means that the connection was lost during the transfer
        raise RunStopped(LOST) from None
    except OtherCode:
        raise
    except Exception as error:
        raise RunStopped(f"a worker of the cluster cannot measure: {error}") from error
