"""The kernel J J^T of a finite network of three layers, against recipes that compute the whole Jacobian J."""

from collections.abc import Callable

import numpy as np

from experiments.benchmarks.workload import Call, Candidate, Sizes, Workload, unit_rows


def _given(sizes: Sizes):
    """Inputs, and the weights of the first, the middle and the last layer in the NTK parametrisation.

    For d features, width m and C outputs the network has d m + m^2 + m C parameters.
    """
    rng, m = np.random.default_rng(1), sizes["m"]
    shapes = (m, sizes["d"]), (m, m), (sizes["C"], m)
    return unit_rows(sizes["n"], sizes["d"]), [rng.standard_normal(shape) for shape in shapes]


def _in_torch(weights, x):
    import torch

    first, middle, last = weights
    hidden = torch.relu(torch.relu(x @ first.T) @ middle.T / len(middle) ** 0.5)
    return hidden @ last.T / len(middle) ** 0.5


def _in_jax(weights, x):
    import jax

    first, middle, last = weights
    hidden = jax.nn.relu(jax.nn.relu(x @ first.T) @ middle.T / len(middle) ** 0.5)
    return hidden @ last.T / len(middle) ** 0.5


def _ours(sizes: Sizes) -> Call:
    import torch

    from ntkfl import gram
    from ntkfl.training import Model

    x, weights = _given(sizes)
    params = {str(layer): torch.tensor(weight) for layer, weight in enumerate(weights)}
    model = Model("three layers", lambda seed: params, lambda own, x: _in_torch(own.values(), x), lambda _, z: z)
    return lambda: gram.empirical(x, model, params)


def _ours_in_jax(sizes: Sizes) -> Call:
    """The same network as a JAX function."""
    from ntkfl import gram, network

    x, weights = _given(sizes)
    model = network(_in_jax, weights)
    params = model.initial(0)
    return lambda: gram.empirical(x, model, params)


def _torch_func(sizes: Sizes) -> Call:
    """The recipe of torch.func's documentation.

    The recipe computes the Jacobian of every sample, and contracts the Jacobians parameter by parameter.
    """
    import torch
    from torch.func import jacrev, vmap

    x, weights = _given(sizes)
    rows, params = torch.tensor(x), tuple(map(torch.tensor, weights))
    jacobians = vmap(jacrev(lambda own, row: _in_torch(own, row[None])[0]), (None, 0))

    def work():
        by_output = [jacobian.flatten(2) for jacobian in jacobians(params, rows)]
        parts = [torch.einsum("Naf,Mbf->NaMb", jacobian, jacobian) for jacobian in by_output]
        return torch.stack(parts).sum(0).reshape(len(x) * sizes["C"], -1).numpy()

    return work


def _neural_tangents(implementation: int) -> Callable[[Sizes], Call]:
    """neural-tangents' empirical kernel for all pairs of outputs, compiled and in float64."""

    def build(sizes: Sizes) -> Call:
        import jax

        from experiments.benchmarks.neural_tangents_import import neural_tangents

        x, weights = _given(sizes)
        empirical = neural_tangents().empirical_ntk_fn
        kernel = jax.jit(empirical(lambda own, x: _in_jax(own, x), trace_axes=(), implementation=implementation))
        rows, params = jax.numpy.asarray(x), [jax.numpy.asarray(weight) for weight in weights]

        def work():
            return np.asarray(kernel(rows, None, params)).transpose(0, 2, 1, 3).reshape(len(x) * sizes["C"], -1)

        return work

    return build


WORKLOAD = Workload(
    name="empirical-kernel",
    says="J J^T in float64 of a ReLU network of three layers, n samples of d features, widths m, C outputs",
    sizes=(
        {"n": 100, "d": 32, "m": 300, "C": 1},
        {"n": 30, "d": 32, "m": 300, "C": 10},
        {"n": 200, "d": 32, "m": 984, "C": 1},
        {"n": 1000, "d": 32, "m": 984, "C": 1},
    ),
    candidates=(
        Candidate("ntkfl", _ours, "ours"),
        Candidate("ntkfl, a JAX function", _ours_in_jax, "also ours"),
        Candidate("torch.func", _torch_func, most={"n": 200}),
        Candidate("neural-tangents 1", _neural_tangents(1), needs="neural_tangents", most={"n": 200}),
        Candidate("neural-tangents 2", _neural_tangents(2), needs="neural_tangents", most={"n": 200}),
    ),
    along="n",
    tolerance=1e-12,
)
