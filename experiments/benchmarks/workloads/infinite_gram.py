"""H_inf of many rows, against the matrix product x x^T that it contains."""

from functools import partial

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows


def _ours(sizes: Sizes, given_room: bool = False) -> Call:
    """H_inf in a new array, or with `given_room` in an array that is made before the clock starts.

    The array of the matrix product, too, is made before the clock starts.
    """
    from ntkfl import gram

    x = unit_rows(sizes["n"], sizes["d"])
    out = np.empty((len(x), len(x))) if given_room else None
    return lambda: gram.infinite(x, out=out)


def _product(sizes: Sizes) -> Call:
    """The product x x^T, computed in blocks of 256 rows into one array."""
    x = unit_rows(sizes["n"], sizes["d"])
    out = np.empty((len(x), len(x)))

    def work():
        for start in range(0, len(x), 256):
            np.matmul(x[start : start + 256], x.T, out=out[start : start + 256])
        return out

    return work


def _arccos(sizes: Sizes) -> Call:
    """The formula of H_inf as one would type it, with arccos."""
    x = unit_rows(sizes["n"], sizes["d"])

    def work():
        dot = x @ x.T
        return dot * (np.pi - np.arccos(np.clip(dot, -1, 1))) / (2 * np.pi)

    return work


def _neural_tangents(sizes: Sizes) -> Call:
    """The kernel of one ReLU layer by stax, compiled and in float64.

    The difference of stax's "ntk" and "nngp" is the first layer's part of the kernel. H_inf is a multiple of that part.
    """
    import jax
    import jax.numpy as jnp

    from experiments.benchmarks.neural_tangents_import import neural_tangents

    stax, d = neural_tangents().stax, sizes["d"]
    *_, kernel = stax.serial(stax.Dense(1), stax.Relu(), stax.Dense(1))  # W_std 1, no biases, NTK parametrisation

    @jax.jit
    def first_layer(rows):
        both = kernel(rows, None, ("ntk", "nngp"))
        return d * (both.ntk - both.nngp)

    x = jnp.asarray(unit_rows(sizes["n"], d))
    return lambda: np.asarray(first_layer(x))


WORKLOAD = Workload(
    name="infinite-gram",
    says="H_inf, n samples of d features, float64",
    sizes=({"n": 4000, "d": 32}, {"n": 10000, "d": 32}, {"n": 20000, "d": 32}),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("ntkfl, into one array", partial(_ours, given_room=True), "also ours"),
        Candidate("row-blocked product", _product, "limit"),
        Candidate("arccos in numpy", _arccos, most={"n": 10000}),
        Candidate("neural-tangents", _neural_tangents, needs="neural_tangents", most={"n": 4000}),
    ),
    along="n",
    tolerance=1e-7,  # arccos loses digits at small angles; our formula does not
)
