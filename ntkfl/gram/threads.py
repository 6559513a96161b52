"""How many threads share a large computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController


def blas_threads() -> int:
    """As many as BLAS has: whoever limits BLAS (OMP_NUM_THREADS, `threadpool_limits`) limits all."""
    return _count(ThreadpoolController().select(user_api="blas"))


@contextmanager
def worker_threads() -> Iterator[int]:
    """`blas_threads` of our own, while BLAS keeps to one for each of them."""
    libraries = ThreadpoolController().select(user_api="blas")
    count = _count(libraries)
    with libraries.limit(limits=1):
        yield count


def _count(libraries: ThreadpoolController) -> int:
    return max((library["num_threads"] for library in libraries.info()), default=1)
