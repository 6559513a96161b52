"""The number of threads that share a large computation."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Value = TypeVar("Value")


def blas_threads() -> int:
    """The number of threads of BLAS; a limit on BLAS (OMP_NUM_THREADS, `threadpool_limits`) also limits this package's
    threads."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


def one_blas_thread() -> AbstractContextManager[Any]:
    """A block in which BLAS uses one thread, for small matrices and for work with threads of its own."""
    return _blas().limit(limits=1)


@contextmanager
def worker_threads() -> Iterator[int]:
    """A block in which the caller may start `blas_threads` threads, and BLAS uses one thread in each.

    Where the number is 1 the caller works itself: a product of small tiles would wait longer for a thread to start.
    """
    count = blas_threads()
    with one_blas_thread() if count > 1 else nullcontext():
        yield count


def in_context(work: Callable[..., Value]) -> Callable[..., Value]:
    """The same function, which runs in any thread with the present thread's settings, such as `np.errstate`."""
    context = copy_context()
    return lambda *given: context.copy().run(work, *given)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process, looked up once, since this package loads those of numpy and scipy."""
    return ThreadpoolController().select(user_api="blas")
