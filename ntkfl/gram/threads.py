"""How many threads share a large computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController


@contextmanager
def worker_threads() -> Iterator[int]:
    """As many as BLAS has, which meanwhile keeps to one for each of them.

    So whoever limits BLAS (OMP_NUM_THREADS, `threadpool_limits`) limits all.
    """
    libraries = ThreadpoolController().select(user_api="blas")
    count = max((library["num_threads"] for library in libraries.info()), default=1)
    with libraries.limit(limits=1):
        yield count
