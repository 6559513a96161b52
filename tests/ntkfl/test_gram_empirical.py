"""Tests of the empirical kernel against other computations of it, and of the use of neural-tangents."""

import importlib
import inspect
import sys

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings, strategies as st
from jax.interpreters import ad
from neural_kernels import TRUSTED_IMPLEMENTATIONS, deep_kernel, empirical_ntk, relu_ntk
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional

from experiments.benchmarks import neural_tangents_import
from ntkfl import gram, memory
from ntkfl.gram import finite, finite_width, infinite, infinite_estimate
from ntkfl.initialisation import draw
from ntkfl.memory import TooLittleMemory
from ntkfl.training.model import Model
from ntkfl.training.models.two_layer import ntk_network

EXACT = 1e-12  # the allowed error, relative to the largest entry


def dense(width, depth, outputs, activation=torch.relu, features=5):
    """Returns a fully connected network with biases; `outputs` = 0 means one output without an axis."""
    sizes = [features] + [width] * (depth - 1)
    readout = (outputs, width) if outputs else (width,)

    def initial(seed):
        generator = torch.Generator().manual_seed(seed)
        layers = list(zip(sizes[1:], sizes[:-1], strict=True))
        shapes = {f"w{k}": layer for k, layer in enumerate(layers)} | {f"b{k}": (s[0],) for k, s in enumerate(layers)}
        shapes["v"] = readout
        return {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}

    def hidden(params, x):
        for k in range(depth - 1):
            x = activation(x @ params[f"w{k}"].T / x.shape[-1] ** 0.5 + params[f"b{k}"])
        return x

    return Model("dense", initial, hidden, lambda params, z: functional.linear(z, params["v"]) / width**0.5)


def twice(width=6):
    """Returns a network that uses one matrix at two depths, so that gradients in this matrix have rank two."""

    def initial(seed):
        generator = torch.Generator().manual_seed(seed)
        shapes = {"w": (width, 5), "u": (width, width), "v": (width,)}
        return {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}

    def hidden(params, x):
        z = torch.tanh(x @ params["w"].T)
        return torch.tanh(torch.tanh(z @ params["u"].T) @ params["u"].T)

    return Model("twice", initial, hidden, lambda params, z: z @ params["v"])


def convolutional():
    """Returns a network with a convolution, ReLU, the mean over the pixels, and three outputs; inputs have (2,
    4, 4).
    """

    def initial(seed):
        generator = torch.Generator().manual_seed(seed)
        shapes = {"w": (4, 2, 3, 3), "v": (3, 4)}
        return {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}

    def features(params, x):
        return torch.relu(functional.conv2d(x, params["w"])).mean((2, 3))

    return Model("convolutional", initial, features, lambda params, z: z @ params["v"].T)


def rows(count, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=(count, *(shape or (5,))))


def off(kernel, expected):
    return np.abs(kernel - expected).max() / np.abs(expected).max()


def by_autograd(model, params, x):
    """Returns the rows of the Jacobian, (n C, P), with one backward pass each."""
    own = {name: value.clone().requires_grad_() for name, value in params.items()}
    rows = []
    for output in model.outputs(own, torch.tensor(x)).reshape(-1):
        gradients = torch.autograd.grad(output, list(own.values()), retain_graph=True, materialize_grads=True)
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(rows).numpy()


NETWORKS = [
    (dense(7, 3, 0), (5,)),
    (dense(6, 4, 3, torch.erf), (5,)),
    (dense(4, 2, 1), (5,)),
    (twice(), (5,)),
    (convolutional(), (2, 4, 4)),
]
NAMES = ["one output", "several outputs", "an axis of one", "a matrix twice", "convolutional"]
each_network = pytest.mark.parametrize(("model", "shape"), NETWORKS, ids=NAMES)


@each_network
def test_jacobian_is_what_one_backward_pass_an_output_gives(model, shape, monkeypatch):
    x, params = rows(5, *shape), model.initial(3)
    expected = by_autograd(model, params, x)
    for at_once in (1, 2**22):
        monkeypatch.setattr("ntkfl.training.model.AT_ONCE", at_once)
        jacobian = model.jacobian(params, torch.tensor(x))
        assert jacobian.shape == (5, len(expected) // 5, model.size())
        assert off(jacobian.flatten(0, 1).numpy(), expected) < EXACT


@each_network
def test_kernel_is_the_product_of_jacobians(model, shape):
    x, z, params = rows(6, *shape), rows(4, *shape, seed=1), model.initial(0)
    left, right = by_autograd(model, params, x), by_autograd(model, params, z)
    kernel = gram.empirical(x, model, params)
    assert off(kernel, left @ left.T) < EXACT
    assert (kernel == kernel.T).all()
    assert off(gram.empirical(x, model, params, z), left @ right.T) < EXACT


@each_network
@pytest.mark.parametrize("samples", [0, 3, 5])  # the number of samples in memory at once, out of 6
def test_how_much_is_held_does_not_matter(model, shape, samples, monkeypatch):
    x, z, params = rows(6, *shape), rows(3, *shape, seed=1), model.initial(0)
    expected = gram.empirical(x, model, params), gram.empirical(x, model, params, z)
    monkeypatch.setattr(finite_width, "HELD", 8 * samples * model.size())
    monkeypatch.setattr(finite_width, "FORMED", 1)
    monkeypatch.setattr(finite_width, "ROWS", 2)
    assert off(gram.empirical(x, model, params), expected[0]) < EXACT
    assert off(gram.empirical(x, model, params, z), expected[1]) < EXACT


@settings(max_examples=30, deadline=None)
@given(
    width=st.integers(1, 9),
    depth=st.integers(2, 4),
    outputs=st.integers(0, 3),
    n=st.integers(1, 5),
    seed=st.integers(0),
)
def test_any_network_gives_a_symmetric_positive_kernel(width, depth, outputs, n, seed):
    model = dense(width, depth, outputs)
    params = model.initial(seed % 2**63)
    x = rows(n, seed=seed)
    kernel = gram.empirical(x, model, params)
    jacobian = model.jacobian(params, torch.tensor(x)).flatten(0, 1).numpy()
    assert np.abs(kernel - jacobian @ jacobian.T).max() <= EXACT * np.abs(kernel).max()
    assert np.linalg.eigvalsh(kernel)[0] >= -EXACT * np.trace(kernel)


def test_two_layer_kernel_is_the_exact_count():
    weights, x, z = draw(64, 5, 0), rows(20), rows(7, seed=1)
    model = ntk_network(weights)
    assert off(gram.empirical(x, model, model.initial(0)), gram.finite(x, weights.hidden)) < EXACT
    assert off(gram.empirical(x, model, model.initial(0), z), gram.finite(x, weights.hidden, z=z)) < EXACT


@pytest.mark.parametrize("outputs", [1, 3])
def test_against_torch_func(outputs):
    """The kernel agrees with the recipe of torch.func's page: Jacobians by vmap of jacrev, contracted over each
    parameter.
    """
    module = torch.nn.Sequential(torch.nn.Linear(5, 9), torch.nn.GELU(), torch.nn.Linear(9, outputs)).double()
    params, x = {name: value.detach() for name, value in module.named_parameters()}, rows(6)
    jacobians = vmap(jacrev(lambda own, row: functional_call(module, own, (row[None],))[0]), (None, 0))
    blocks = jacobians(params, torch.tensor(x)).values()
    kernel = sum(torch.einsum("Naf,Mbf->NaMb", j.flatten(2), j.flatten(2)) for j in blocks)
    model = Model("module", lambda seed: params, lambda own, x: functional_call(module, own, (x,)), lambda _, z: z)
    assert off(gram.empirical(x, model, params), kernel.reshape(6 * outputs, -1).numpy()) < EXACT


@pytest.mark.filterwarnings("ignore:size requires ndarray:DeprecationWarning")
@pytest.mark.parametrize("implementation", TRUSTED_IMPLEMENTATIONS)
@pytest.mark.parametrize("outputs", [0, 2])
def test_against_neural_tangents(implementation, outputs):
    model, x, z = dense(8, 3, outputs, torch.tanh), rows(5), rows(3, seed=1)
    params = model.initial(0)
    theirs = {name: jnp.asarray(value.numpy()) for name, value in params.items()}

    def apply(own, inputs):
        for k in range(2):
            inputs = jnp.tanh(inputs @ own[f"w{k}"].T / inputs.shape[-1] ** 0.5 + own[f"b{k}"])
        return inputs @ own["v"].reshape(-1, 8).T / 8**0.5

    count = max(1, outputs)
    full = neural_tangents_import.neural_tangents().empirical_ntk_fn(
        apply, trace_axes=(), implementation=implementation
    )
    kernel = np.asarray(jax.jit(full)(x, z, theirs))
    assert off(gram.empirical(x, model, params, z), kernel.transpose(0, 2, 1, 3).reshape(5 * count, -1)) < EXACT


def test_gradients_that_are_nearly_of_rank_one_are_not_taken_for_it():
    """Gradients that nearly have rank one are not treated as gradients of rank one.

    The second use of the matrix has 2^-30 of the size of the first use. This size is above rounding, so the kernel must
    include the second use.
    """

    def features(params, x):
        return x @ params["w"].T + 2.0**-30 * torch.tanh(x.flip(1) @ params["w"].T)

    model = Model("nearly", lambda seed: {}, features, lambda _, z: z @ torch.arange(1.0, 5.0, dtype=torch.float64))
    params = {"w": torch.tensor(rows(4, 5))}
    j = model.jacobian(params, torch.tensor(rows(3)))
    assert finite_width._vectors(j.reshape(3, 4, 5), torch.empty(60, dtype=torch.float64)) is None
    assert off(gram.empirical(rows(3), model, params), (j.flatten(0, 1) @ j.flatten(0, 1).T).numpy()) < EXACT


def test_float32_is_converted():
    model, x = dense(6, 3, 2), rows(4)
    single = {name: value.float() for name, value in model.initial(0).items()}
    double = {name: value.double() for name, value in single.items()}
    assert (gram.empirical(x.astype(np.float32), model, single) == gram.empirical(np.float32(x), model, double)).all()


def test_permuting_samples_permutes_the_kernel():
    model, x, order = dense(6, 3, 2), rows(5), np.array([3, 1, 4, 0, 2])
    params = model.initial(0)
    places = (2 * order[:, None] + np.arange(2)).ravel()
    kernel = gram.empirical(x, model, params)
    assert off(gram.empirical(x[order], model, params), kernel[np.ix_(places, places)]) < EXACT


def test_parameters_may_be_arrays_that_cannot_be_written_to():
    model, x = dense(6, 3, 0), rows(3)
    params = model.initial(0)
    arrays = {name: value.numpy() for name, value in params.items()}
    for value in arrays.values():
        value.flags.writeable = False
    np.testing.assert_array_equal(gram.empirical(x, model, arrays), gram.empirical(x, model, params))


def test_the_arguments_of_all_functions_have_one_order():
    order = ["x", "h", "owner", "network", "params", "u", "u0", "w", "width", "landmarks", "kernel", "seed", "z"]
    for name in set(gram.__all__) - {"ACTIVATIONS", "Degeneracy", "Features", "ParallelRows"}:
        names = list(inspect.signature(getattr(gram, name)).parameters)
        known = [argument for argument in names if argument in order]
        assert names[0] in ("x", "h") and known == names[: len(known)] == sorted(known, key=order.index), name


class TestRefused:
    model = dense(6, 3, 0)
    params = model.initial(0)

    def test_what_is_no_network(self):
        for no_network in (torch.nn.Linear(5, 1), lambda params, x: x):
            with pytest.raises(ValueError, match=r"network is a \w+; ntkfl.network\(...\) makes one"):
                gram.empirical(rows(3), no_network, self.params)

    def test_the_former_order(self):
        with pytest.raises(TypeError, match=r"samples first, .*: empirical\(x, network, params, z\)"):
            gram.empirical(self.model, self.params, rows(3))

    @pytest.mark.parametrize("params", [None, {}, [torch.zeros(3)]])
    def test_what_are_no_parameters(self, params):
        with pytest.raises(ValueError, match=r"it must be a dict of tensors, as network.initial\(0\) gives"):
            gram.empirical(rows(3), self.model, params)

    @pytest.mark.parametrize("value", [torch.zeros(3, dtype=torch.int64), np.zeros(3, int), [0.0]])
    def test_a_parameter_that_is_not_of_real_numbers(self, value):
        with pytest.raises(
            ValueError,
            match=r"parameter 'v' is (torch.int64|int64|list); it must be a tensor, or an array, of real numbers",
        ):
            gram.empirical(rows(3), self.model, self.params | {"v": value})

    def test_samples_that_are_not_finite(self):
        x = rows(3)
        x[1, 2] = np.nan
        with pytest.raises(ValueError, match=r"x\[1, 2\] is nan; every entry must be finite"):
            gram.empirical(x, self.model, self.params)
        with pytest.raises(ValueError, match=r"z\[1, 2\] is nan; every entry must be finite"):
            gram.empirical(rows(3), self.model, self.params, x)

    @pytest.mark.parametrize("x", [np.zeros((0, 5)), np.array(["a"]), np.float64(1)])
    def test_what_are_no_samples(self, x):
        with pytest.raises(
            ValueError,
            match=r"must be real numbers, one row a sample|has dtype <U1; every entry must be",
        ):
            gram.empirical(x, self.model, self.params)

    def test_shapes_that_disagree(self):
        with pytest.raises(ValueError, match=r"z has samples of shape \(4,\), x of \(5,\)"):
            gram.empirical(rows(3), self.model, self.params, rows(3, 4))
        with pytest.raises(ValueError, match=r"dense fails on float64 inputs of shape \(2, 4\)"):
            gram.empirical(rows(3, 4), self.model, self.params)

    def test_an_output_that_is_not_finite_names_its_sample(self):
        model = Model("root", lambda seed: {}, lambda p, x: torch.sqrt(x @ p["w"]), lambda _, z: z)
        params, x = {"w": torch.ones(5, dtype=torch.float64)}, np.ones((4, 5))
        x[2] = -1
        with pytest.raises(ValueError, match="output of root for sample 2 of x is not finite"):
            gram.empirical(x, model, params)
        with pytest.raises(ValueError, match="output of root for sample 2 of z is not finite"):
            gram.empirical(np.ones((3, 5)), model, params, x)

    def test_a_gradient_that_is_not_finite_names_its_samples(self):
        model = Model("root", lambda seed: {}, lambda p, x: torch.sqrt(x @ p["w"]), lambda _, z: z)
        x = np.ones((4, 5))
        x[3] = 0
        with pytest.raises(ValueError, match="no finite product for samples 0 and 3"):
            gram.empirical(x, model, {"w": torch.ones(5, dtype=torch.float64)})

    def test_more_than_memory_holds(self, monkeypatch):
        monkeypatch.setattr(memory, "available", lambda: 2.0**28)
        x = np.lib.stride_tricks.as_strided(np.ones(5), (40_000, 5), (0, 8))
        with pytest.raises(
            TooLittleMemory, match=r"kernel of dense, 84 parameters, takes 12.9 GB .* n up to \d+ would"
        ):
            gram.empirical(x, self.model, self.params)


@pytest.mark.parametrize(("n", "d"), [(5, 3), (5, 30)])
def test_two_layer_kernel_is_ours(n, d):
    x, z = rows(n, d), rows(3, d, seed=1)
    # neural-tangents' kernel has no error bound. Its rounding has the size of ours, in units of |x_i||z_j|.
    assert (np.abs(relu_ntk(x) - infinite(x)) <= 4 * infinite_estimate(x).error).all()
    assert (np.abs(relu_ntk(x, z) - infinite(x, z)) <= 4 * infinite_estimate(x, z).error).all()


@pytest.mark.parametrize("depth", [2, 4])
def test_deep_kernel_against_the_recursion_of_arc_cosine_kernels(depth):
    x = rows(5, 3)
    norms = np.outer(*[np.linalg.norm(x, axis=1)] * 2)
    covariance = kernel = x @ x.T
    for layer in range(depth - 1):
        angle = np.arccos(np.clip(covariance / norms, -1, 1))
        slopes = (np.pi - angle) / np.pi
        covariance = norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
        # Hidden weights with the variance 2 / fan-in keep the norm; the last layer's variance is 1 / fan-in.
        gain = 1 if layer < depth - 2 else 1 / 2
        covariance, kernel = gain * covariance, gain * (covariance + kernel * slopes)
    assert np.allclose(deep_kernel(x, depth=depth), kernel, rtol=0, atol=1e-6 * norms.max())
    off = ~np.eye(5, dtype=bool)  # The angles of entries off the diagonal are not near 0.
    assert np.allclose(deep_kernel(x, depth=depth)[off], kernel[off], rtol=0, atol=1e-12 * norms.max())


def test_deep_kernel_is_homogeneous_and_contains_the_two_layer_one():
    x = rows(5, 3)
    scales = np.array([0.5, 2.0, 3.0, 1.0, 7.0])
    deep = deep_kernel(x, depth=4)
    assert np.allclose(deep_kernel(x * scales[:, None], depth=4), deep * np.outer(scales, scales), rtol=1e-12)
    assert np.linalg.eigvalsh(deep_kernel(x, depth=2) - infinite(x))[0] > 0
    assert np.allclose(deep_kernel(x, x[:3], depth=4), deep[:, :3], rtol=1e-7)


@pytest.mark.parametrize("implementation", TRUSTED_IMPLEMENTATIONS)
def test_empirical_ntk_is_the_gram_of_the_finite_network(implementation):
    x, z, (hidden, signs) = rows(5, 3), rows(2, 3, seed=1), draw(40, 3, seed=0)

    def apply(u, inputs):
        return (jnp.maximum(inputs @ u.T, 0) @ signs / np.sqrt(40))[:, None]

    assert np.allclose(empirical_ntk(apply, hidden, x, implementation=implementation), finite(x, hidden))
    theirs = empirical_ntk(apply, hidden, x, z, implementation=implementation)
    assert np.allclose(theirs, finite(x, hidden, z=z), rtol=0, atol=1e-13)


def test_predict_solves_the_gradient_flow():
    x, y = rows(6, 4), rows(6, 1, seed=2)
    h = infinite(x)
    predict = neural_tangents_import.neural_tangents().predict.gradient_descent_mse(h, y, learning_rate=1.0)
    for time in (0.0, 0.7, 30.0):
        outputs = np.asarray(predict(time, np.zeros_like(y)))
        # The loss of neural-tangents is half the mean of squares over the samples, so the gradient flow has the rate
        # H / n.
        assert np.allclose(outputs, y - scipy.linalg.expm(-h * time / len(y)) @ y, rtol=0, atol=1e-12)


def names():
    core = ("Jaxpr", "JaxprEqn", "Literal", "Var", "Primitive")
    present = [name for name in core if hasattr(jax.core, name)]
    present += [name for name in ("jax.util", "neural_tangents.experimental") if name in sys.modules]
    return present + [name for name, owner in (("util", jax), ("zeros_like_p", ad)) if hasattr(owner, name)]


def test_the_names_it_misses_are_gone_after_the_import():
    assert neural_tangents_import.neural_tangents().__version__ == "0.6.5"
    assert names() == []


@pytest.fixture
def unimported(monkeypatch):
    """Gives a process that has not imported neural-tangents yet; its modules are restored afterwards."""
    for name in [name for name in sys.modules if name.split(".")[0] == "neural_tangents"]:
        monkeypatch.delitem(sys.modules, name)
    neural_tangents_import.neural_tangents.cache_clear()
    yield monkeypatch
    neural_tangents_import.neural_tangents.cache_clear()


def test_the_names_are_gone_after_an_import_that_fails(unimported):
    seen = []

    def fail(name):
        seen.extend(names())
        sys.modules["neural_tangents.half"] = sys
        raise RuntimeError("half way")

    unimported.setattr(importlib, "import_module", fail)
    with pytest.raises(RuntimeError, match="half way"):
        neural_tangents_import.neural_tangents()
    assert len(seen) == 9
    assert names() == []
    assert "neural_tangents.half" not in sys.modules


def test_absent_it_names_the_command(unimported):
    unimported.setattr(importlib.util, "find_spec", lambda name: None)
    command = "pip install --no-deps -r requirements-neural-tangents.txt"
    with pytest.raises(ImportError, match=f"`make verify` sets it up, or run: {command}"):
        neural_tangents_import.neural_tangents()
