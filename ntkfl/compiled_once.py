"""Compiled functions, each of which is compiled once, however many threads need it at the same time.

The environment variable NUMBA_CACHE_DIR says whether machine code is kept for later processes, and where.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any, TypeVar

R = TypeVar("R")


def compiled_once(compile_them: Callable[..., R]) -> Callable[..., R]:
    """Like `functools.cache`, except that one thread compiles while other threads wait for its result."""
    cached, compiling = cache(compile_them), Lock()

    @wraps(cached)
    def compiled(*args: str) -> R:
        with compiling:
            return cached(*args)

    return compiled


def machine_code(signature: Any, **options: Any) -> Callable[[Callable], Callable]:
    """`numba.njit` with one signature; the compiled function releases the interpreter's lock.

    If the environment variable NUMBA_CACHE_DIR names a folder, machine code is kept there for later processes on the
    same kind of processor. The function is compiled again if the source file has changed. Without the variable no
    machine code is written, and none is read from a file. Numba reads such files by unpickling them.

    A function that calls compiled functions must be defined in a module and not within another function, because code
    of nested functions is kept under names that no later process finds.
    """
    from numba import njit

    return njit(signature, nogil=True, cache=bool(os.environ.get("NUMBA_CACHE_DIR")), **options)
