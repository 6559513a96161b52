"""Imports neural-tangents 0.6.5 on a current JAX, for benchmarks and as the independent reference for kernels in tests.

neural-tangents is imported on first use. neural-tangents imports names that JAX has since moved or dropped, and this
module supplies these names while the import lasts.

Only some parts of neural-tangents are known to work with a current JAX. The tests compare three of them with
independent computations: stax kernels of fully connected networks, eager `predict`, and `empirical_ntk_fn` in the
implementations 1 and 2. Implementation 3 relies on JAX's internals as they were at the time of neural-tangents 0.6.5,
and implementation 0 may choose 3. The kernels of convolutional networks agree with `gram.convolutional` on a few
images. On blocks of many images these kernels must not be used, because they end the process (with jax 0.10.2, by a
segmentation fault in an elementwise operation on arrays of six dimensions).
"""

import importlib
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.core
from jax.extend import core as extended
from jax.interpreters import ad

INSTALL = "pip install --no-deps -r requirements-neural-tangents.txt"
# names that JAX has moved from jax.core to jax.extend.core
_MOVED = ("Jaxpr", "JaxprEqn", "Literal", "Var", "Primitive")


@cache
def neural_tangents() -> types.ModuleType:
    """The module neural_tangents, with its parts `.stax`, `.predict` and so on.

    After the call JAX computes in float64, as ntkfl needs.

    Raises:
        ImportError: neural-tangents is not installed; the message has the command that installs it.
    """
    if "neural_tangents" in sys.modules:
        return sys.modules["neural_tangents"]
    if importlib.util.find_spec("neural_tangents") is None:
        raise ImportError(f"neural-tangents is not installed; `make verify` sets it up, or run: {INSTALL}")
    jax.config.update("jax_enable_x64", True)
    with _names_it_misses(), warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return importlib.import_module("neural_tangents")


@contextmanager
def _names_it_misses() -> Iterator[None]:
    """A context in which JAX has the names that neural-tangents imports."""
    util = types.ModuleType("jax.util")
    util.__dict__.update(safe_map=_strict_map, safe_zip=_strict_zip)
    attributes: list[tuple[Any, str, Any]] = [(jax, "util", util), (ad, "zeros_like_p", object())]
    attributes += [(jax.core, name, getattr(extended, name)) for name in _MOVED]
    attributes = [(owner, name, value) for owner, name, value in attributes if not hasattr(owner, name)]
    # An empty module stands for neural_tangents.experimental, which would need TensorFlow.
    modules = {"jax.util": util, "neural_tangents.experimental": types.ModuleType("neural_tangents.experimental")}
    modules = {name: module for name, module in modules.items() if name not in sys.modules}
    for owner, name, value in attributes:
        setattr(owner, name, value)
    sys.modules.update(modules)
    try:
        yield
    except BaseException:
        for name in [name for name in sys.modules if name.split(".")[0] == "neural_tangents"]:
            del sys.modules[name]
        raise
    finally:
        for owner, name, _ in attributes:
            delattr(owner, name)
        for name in modules:
            sys.modules.pop(name, None)


def _strict_map(function: Callable[..., Any], *columns: Any) -> list[Any]:
    return [function(*row) for row in zip(*columns, strict=True)]


def _strict_zip(*columns: Any) -> list[Any]:
    return list(zip(*columns, strict=True))
