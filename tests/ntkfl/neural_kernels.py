"""Kernels computed by neural-tangents, for comparison with the kernels of `ntkfl.gram`."""

import warnings

import jax
import numpy as np

from experiments.benchmarks.neural_tangents_import import neural_tangents

# Two of neural-tangents' implementations of the empirical kernel: contracted Jacobians, and Jacobian-vector products.
TRUSTED_IMPLEMENTATIONS = (1, 2)


def relu_ntk(x, z=None):
    """Returns `gram.infinite`, correct to about 1e-15.

    Near the angles 0 and pi half the digits are lost, so it is only correct to about 1e-8 there.
    """
    # In the NTK parametrisation with W_std = 1 the pre-activations are w.x / sqrt(d). The difference ntk - nngp is the
    # part of the first layer, (x.z / d) E[relu' relu'], which is our kernel divided by d. The function is not compiled,
    # because XLA would fuse the operations and round angles of 0.
    kernel = _kernel(2)(x, z, ("ntk", "nngp"))
    return x.shape[1] * np.asarray(kernel.ntk - kernel.nngp)


def deep_kernel(x, z=None, depth=3):
    """Returns `gram.deep(x, z, depth)`, correct to about 5e-8 near the angles 0 and pi, and to 1e-15 elsewhere."""
    return x.shape[1] * np.asarray(_kernel(depth)(x, z, "ntk"))


def empirical_ntk(apply, params, x, z=None, implementation=1):
    """Returns J(x) J(z)^T of a network apply(params, x) -> (n, 1), summed over all parameters."""
    compute = neural_tangents().empirical_ntk_fn(apply, implementation=implementation)
    # neural-tangents takes jnp.size of a ShapeDtypeStruct, about which jax 0.10 and 0.11 only warn.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "size requires ndarray", DeprecationWarning)
        return np.asarray(jax.jit(compute)(x, z, params))


def _kernel(depth):
    stax = neural_tangents().stax
    hidden = [layer for _ in range(depth - 2) for layer in (stax.Relu(), stax.Dense(1, W_std=2**0.5))]
    return stax.serial(stax.Dense(1, W_std=1.0), *hidden, stax.Relu(), stax.Dense(1, W_std=1.0))[2]
