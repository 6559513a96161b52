"""The number of threads that share a large computation."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Value = TypeVar("Value")


def blas_threads() -> int:
    """The number of threads of BLAS; a limit on them (OMP_NUM_THREADS, `threadpool_limits`) limits our threads too."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


def one_blas_thread() -> AbstractContextManager[Any]:
    """A `with` block in which BLAS uses one thread, for small matrices and for code that starts its own threads."""
    return _blas().limit(limits=1)


@contextmanager
def worker_threads() -> Iterator[int]:
    """A `with` block in which the caller may start `blas_threads` threads, and BLAS uses one thread in each of them.

    If the number is 1, the caller computes without another thread, since starting a thread takes longer than a product
    of small tiles.
    """
    count = blas_threads()
    with one_blas_thread() if count > 1 else nullcontext():
        yield count


def in_context(work: Callable[..., Value]) -> Callable[..., Value]:
    """The same function, made to run in any thread with the settings of the present thread, such as `np.errstate`."""
    context = copy_context()
    return lambda *given: context.copy().run(work, *given)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; they are looked up only once, after the imports of this package have loaded
    the BLAS libraries of numpy and scipy.
    """
    return ThreadpoolController().select(user_api="blas")
