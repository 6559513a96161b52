"""Compiled functions: compiled once however many threads ask at the same time, and kept for later processes."""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any, TypeVar

R = TypeVar("R")


def compiled_once(compile_them: Callable[..., R]) -> Callable[..., R]:
    """Like `functools.cache`, but one thread compiles while other threads wait for its result."""
    cached, compiling = cache(compile_them), Lock()

    @wraps(cached)
    def compiled(*args: str) -> R:
        with compiling:
            return cached(*args)

    return compiled


def machine_code(signature: Any, **options: Any) -> Callable[[Callable], Callable]:
    """`numba.njit` of a signature; the function releases the interpreter.

    Machine code is kept for later processes of the same processor, beside the source file or in the user's cache, and
    made again where that file has changed. What refers to compiled functions must be a function of a module: of others
    Numba keeps code that no process finds again.
    """
    from numba import njit

    def compiled(function: Callable) -> Callable:
        try:
            return njit(signature, nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder can be written to
            return njit(signature, nogil=True, **options)(function)

    return compiled
