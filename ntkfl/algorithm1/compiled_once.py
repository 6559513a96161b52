"""Functions that compile others, called once however many threads ask at the same time."""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import TypeVar

R = TypeVar("R")


def compiled_once(compile_them: Callable[..., R]) -> Callable[..., R]:
    """Like `functools.cache`, but one thread compiles while other threads wait for its result."""
    cached, compiling = cache(compile_them), Lock()

    @wraps(cached)
    def compiled(*args: str) -> R:
        with compiling:
            return cached(*args)

    return compiled
