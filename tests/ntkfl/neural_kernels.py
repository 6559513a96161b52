"""Kernels by neural-tangents, to compare with the kernels of `ntkfl.gram`."""

import warnings

import jax
import numpy as np

from experiments.benchmarks.neural_tangents_import import neural_tangents

# neural-tangents' implementations of the empirical kernel: contracted Jacobians, and Jacobian-vector products
TRUSTED_IMPLEMENTATIONS = (1, 2)


def relu_ntk(x, z=None):
    """`gram.infinite`, to about 1e-15; near the angles 0 and pi, where half the digits are lost, to about 1e-8."""
    # In the NTK parametrisation with W_std = 1 the pre-activations are w.x / sqrt(d); ntk - nngp is the first layer's
    # part, (x.z / d) E[relu' relu']: our kernel over d.
    kernel = _kernel(2)(x, z, ("ntk", "nngp"))  # not compiled: XLA would fuse it and round angles of 0
    return x.shape[1] * np.asarray(kernel.ntk - kernel.nngp)


def deep_kernel(x, z=None, depth=3):
    """`gram.deep(x, z, depth)`, to about 5e-8 near the angles 0 and pi, 1e-15 elsewhere."""
    return x.shape[1] * np.asarray(_kernel(depth)(x, z, "ntk"))


def empirical_ntk(apply, params, x, z=None, implementation=1):
    """J(x) J(z)^T of a network apply(params, x) -> (n, 1), summed over all parameters."""
    compute = neural_tangents().empirical_ntk_fn(apply, implementation=implementation)
    with warnings.catch_warnings():  # neural-tangents takes jnp.size of a ShapeDtypeStruct; jax 0.10 and 0.11 only warn
        warnings.filterwarnings("ignore", "size requires ndarray", DeprecationWarning)
        return np.asarray(jax.jit(compute)(x, z, params))


def _kernel(depth):
    stax = neural_tangents().stax
    hidden = [layer for _ in range(depth - 2) for layer in (stax.Relu(), stax.Dense(1, W_std=2**0.5))]
    return stax.serial(stax.Dense(1, W_std=1.0), *hidden, stax.Relu(), stax.Dense(1, W_std=1.0))[2]
