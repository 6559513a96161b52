"""H(0) of a wide network, by exact counts of active neurons, against products of 0/1 matrices and of Jacobians."""

from collections.abc import Callable
from functools import partial

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows

BLOCK = 2**14


def _given(sizes: Sizes):
    from ntkfl.initialisation import draw

    weights = draw(sizes["m"], sizes["d"], 0)
    return unit_rows(sizes["n"], sizes["d"]), weights.hidden, weights.signs


def _ours(sizes: Sizes) -> Call:
    from ntkfl import gram
    from ntkfl.gram import packing

    packing.kernels()
    x, hidden, _ = _given(sizes)
    return lambda: gram.finite(x, hidden)


def _drawn(sizes: Sizes, on_devices: bool = False) -> Call:
    """Draw the weights and count, both within the measured time.

    The counts are made in this process, or on all JAX devices if `on_devices` is true.
    """
    import jax

    from ntkfl import gram
    from ntkfl.gram import packing

    packing.kernels()
    x, devices = unit_rows(sizes["n"], sizes["d"]), jax.devices() if on_devices else ()
    return lambda: gram.initial(x, sizes["m"], 0, devices=devices)


def _products(sizes: Sizes) -> Call:
    """Compute which neurons are active by a float32 product, and count them by symmetric float32 products.

    Neurons are taken in blocks.
    """
    x, hidden, _ = _given(sizes)
    single, weights = x.astype(np.float32), hidden.astype(np.float32)

    def work():
        counts = np.zeros((len(x), len(x)), np.float32)
        for start in range(0, len(weights), BLOCK):
            active = (single @ weights[start : start + BLOCK].T >= 0).astype(np.float32)
            counts += active @ active.T
        return (x @ x.T) * (counts.astype(float) / len(weights))

    return work


def _torch_func(sizes: Sizes) -> Call:
    """J J^T, where torch.func computes the Jacobian of every sample."""
    import torch
    from torch.func import functional_call, jacrev, vmap

    x, hidden, signs = (torch.tensor(array, dtype=torch.float32) for array in _given(sizes))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = torch.nn.Parameter(hidden)

        def forward(self, row):
            return torch.relu(self.hidden @ row) @ signs / len(signs) ** 0.5

    network = Network()
    parameters = {"hidden": hidden}

    def output(values, row):
        return functional_call(network, values, (row,))

    def work():
        jacobian = vmap(jacrev(output), (None, 0))(parameters, x)["hidden"].flatten(1)
        return (jacobian @ jacobian.T).numpy()

    return work


def _neural_tangents(sizes: Sizes) -> Call:
    """The empirical kernel of neural-tangents by its implementation 1, compiled and in float32.

    At n = 1000 and m = 2^14 this implementation needs 66 GB.
    """
    import jax
    import jax.numpy as jnp

    from experiments.benchmarks.neural_tangents_import import neural_tangents

    x, hidden, signs = (jnp.asarray(array, jnp.float32) for array in _given(sizes))
    nt = neural_tangents()

    def network(weights, rows):
        return (jax.nn.relu(rows @ weights.T) @ signs / len(signs) ** 0.5)[:, None]

    kernel = jax.jit(nt.empirical_ntk_fn(network, implementation=1))
    return lambda: np.asarray(kernel(x, None, hidden))


def _its_own_jax(implementation: int) -> Callable[[Sizes], Call]:
    """neural-tangents with the JAX for which it was made; with this JAX all implementations of the kernel run."""

    def build(sizes: Sizes) -> Call:
        from experiments.benchmarks.elsewhere import timed_there

        x, hidden, signs = _given(sizes)
        arrays = {"x": x, "hidden": hidden, "scale": signs / np.sqrt(len(signs))}
        given = {name: array.astype(np.float32) for name, array in arrays.items()}
        return lambda: timed_there("gram_by_neural_tangents", given, 2, str(implementation))

    return build


# by number of NtkImplementation: 1 contracts Jacobians, 2 takes products with them, 3 uses structured derivatives
OWN_JAX = (
    (1, {"m": 2**12}),
    (2, {"m": 2**12}),
    (3, {"m": 2**14, "d": 10}),
)
ON_DEVICES = partial(_drawn, on_devices=True)
# the largest number of neurons whose weights are all kept in memory; weights drawn in blocks allow any number
HELD = {"m": 2**20}
WORKLOAD = Workload(
    name="initial-gram",
    says="H(0), n samples of d features, m neurons",
    sizes=(
        {"n": 300, "d": 10, "m": 2**12},
        {"n": 1000, "d": 10, "m": 2**14},
        {"n": 1000, "d": 10, "m": 2**17},
        {"n": 1000, "d": 10, "m": 2**20},
        {"n": 1000, "d": 10, "m": 2**24},
        {"n": 1000, "d": 784, "m": 2**14},
    ),
    candidates=(
        Candidate("ntkfl", _ours, "ours", most=HELD),
        Candidate("ntkfl, weights drawn too", _drawn, "also ours"),
        # JAX's plugins for GPUs
        Candidate("ntkfl, drawn and on devices", ON_DEVICES, "also ours", needs="jax_plugins"),
        Candidate("float32 products", _products, "limit", most=HELD),
        Candidate("torch.func", _torch_func, most={"m": 2**14, "d": 10}),
        Candidate("neural-tangents", _neural_tangents, needs="neural_tangents", most={"m": 2**12}),
        *(
            Candidate(f"neural-tangents {k}, its JAX", _its_own_jax(k), peer="neural-tangents", most=most)
            for k, most in OWN_JAX
        ),
    ),
    along="m",
)
