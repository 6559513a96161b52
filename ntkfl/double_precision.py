"""JAX in float64 during one computation of ours: the rest of a program keeps the precision that it has set."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


@contextmanager
def jax_in_float64() -> Iterator[None]:
    """Within it JAX computes in float64; JAX is not imported if it is not installed."""
    if "jax" not in sys.modules:
        yield
        return
    import jax

    with jax.enable_x64(True):
        yield


def in_float64(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function, perhaps a user's, within which JAX computes in float64."""

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with jax_in_float64():
            return function(*args, **kwargs)

    return called
