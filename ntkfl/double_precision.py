"""JAX computes in float64 while this package computes; the rest of the program keeps the precision that it has set."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


@contextmanager
def jax_in_float64() -> Iterator[None]:
    """A block in which JAX computes in float64.

    If the process has not imported JAX, the block does not import it.
    """
    if "jax" not in sys.modules:
        yield
        return
    import jax

    with jax.enable_x64(True):
        yield


def in_float64(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Returns the function, changed so that JAX computes in float64 while it runs."""

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with jax_in_float64():
            return function(*args, **kwargs)

    return called
