"""neural-tangents 0.6.5 on current JAX: the independent reference for kernels.

It is imported on first use. It asks for names that JAX has since moved or dropped; they are there during the import
only. Trusted in this way: stax kernels of fully connected networks, eager `predict`, and `empirical_ntk_fn` in the
implementations 1 and 2, which are compared with independent computations in the tests. Its kernels of convolutional
networks agree with `gram.convolutional` on a few images; in blocks of many they end this process (jax 0.10.2: a
segmentation fault in an elementwise operation on arrays of six dimensions), so they are not for use.
"""

from __future__ import annotations

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
import numpy as np
from jax.extend import core as extended
from jax.interpreters import ad
from jaxtyping import Float

from ntkfl.gram.deep import checked_depth
from ntkfl.problem import checked_inputs

INSTALL = "pip install --no-deps -r requirements-neural-tangents.txt"
TRUSTED_IMPLEMENTATIONS = (1, 2)
_MOVED = ("Jaxpr", "JaxprEqn", "Literal", "Var", "Primitive")  # from jax.core to jax.extend.core


@cache
def neural_tangents() -> types.ModuleType:
    """The neural_tangents module (`.stax`, `.predict`, ...).

    Raises:
        ImportError: it is not installed; names the command.
    """
    if "neural_tangents" in sys.modules:
        return sys.modules["neural_tangents"]
    if importlib.util.find_spec("neural_tangents") is None:
        raise ImportError(f"neural-tangents is not installed; `make verify` sets it up, or run: {INSTALL}")
    with _names_it_misses(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("neural_tangents")


def relu_ntk(x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "p d"] | None = None) -> Float[np.ndarray, "n p"]:
    """`gram.infinite` computed by neural-tangents: x_i.z_j (pi - angle_ij) / (2 pi).

    Its angles lose half the digits near 0 and pi, so expect agreement to about 1e-8 there and 1e-15 elsewhere.

    Raises:
        ImportError: neural-tangents is not installed. ValueError: an entry that is not finite, or a zero row.
    """
    x, z = _arguments(x, z)
    # In the NTK parametrisation with W_std = 1 the pre-activations are w.x / sqrt(d); ntk - nngp is what the first
    # layer contributes: (x.z / d) E[relu' relu'], which is ours over d.
    kernel = _kernel(2)(x, z, ("ntk", "nngp"))
    return x.shape[1] * np.asarray(kernel.ntk - kernel.nngp)


def deep_kernel(
    x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "p d"] | None = None, depth: int = 3
) -> Float[np.ndarray, "n p"]:
    """`gram.deep(x, z, depth)` computed by neural-tangents: its independent judge.

    Its angles lose half the digits near 0 and pi, so expect agreement to about 5e-8 there and 1e-15 elsewhere.

    Args:
        x: samples. z: other samples; default: x. depth: layers of weights, at least 2; 2 is one hidden layer.

    Raises:
        ImportError: neural-tangents is not installed. ValueError: depth below 2, and as `relu_ntk`.
    """
    depth = checked_depth(depth)
    x, z = _arguments(x, z)
    return x.shape[1] * np.asarray(_kernel(depth)(x, z, "ntk"))


def empirical_ntk(
    apply: Callable[[Any, jax.Array], jax.Array],
    params: Any,
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "p d"] | None = None,
    implementation: int = 1,
) -> Float[np.ndarray, "n p"]:
    """J(x) J(z)^T of a network apply(params, x) -> (n, 1), summed over all parameters, by neural-tangents.

    Args:
        apply: the network. params: its parameters, as JAX nests them. x: samples. z: other samples; default: x.
        implementation: 1 contracts Jacobians, 2 uses products of a Jacobian with vectors.

    Raises:
        ValueError: another implementation. ImportError: neural-tangents is not installed.
    """
    if implementation not in TRUSTED_IMPLEMENTATIONS:
        raise ValueError(
            f"implementation is {implementation!r}; it must be 1 or 2. 3 (and 0, which picks one and may pick 3) walks "
            "JAX's internals as they were for neural-tangents 0.6.5, and is not trusted on the JAX installed here"
        )
    x, z = _arguments(x, z)
    compute = neural_tangents().empirical_ntk_fn(apply, implementation=implementation)
    with warnings.catch_warnings():  # it takes jnp.size of a ShapeDtypeStruct; jax 0.10 and 0.11 only warn
        warnings.filterwarnings("ignore", "size requires ndarray", DeprecationWarning)
        return np.asarray(compute(x, z, params))


@cache
def _kernel(depth: int) -> Callable[..., Any]:
    stax = neural_tangents().stax
    first, last = stax.Dense(1, W_std=1.0), stax.Dense(1, W_std=1.0)
    hidden = [layer for _ in range(depth - 2) for layer in (stax.Relu(), stax.Dense(1, W_std=2**0.5))]
    return stax.serial(first, *hidden, stax.Relu(), last)[2]


def _arguments(x, z) -> tuple[np.ndarray, np.ndarray | None]:
    return checked_inputs("x", x), None if z is None else checked_inputs("z", z)


@contextmanager
def _names_it_misses() -> Iterator[None]:
    """Give JAX the names that neural-tangents imports; take them away again, also on failure."""
    util = types.ModuleType("jax.util")
    util.__dict__.update(safe_map=_strict_map, safe_zip=_strict_zip)
    attributes: list[tuple[Any, str, Any]] = [(jax, "util", util), (ad, "zeros_like_p", object())]
    attributes += [(jax.core, name, getattr(extended, name)) for name in _MOVED]
    attributes = [(owner, name, value) for owner, name, value in attributes if not hasattr(owner, name)]
    # Its own experimental module needs TensorFlow.
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
