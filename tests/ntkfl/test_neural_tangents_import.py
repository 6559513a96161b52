"""The bridge to neural-tangents: computations under the bridge, traces that it leaves, refusals."""

import importlib
import sys

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.interpreters import ad
from neural_kernels import TRUSTED_IMPLEMENTATIONS, deep_kernel, empirical_ntk, relu_ntk

from experiments.benchmarks import neural_tangents_import
from ntkfl.gram import finite, infinite, infinite_estimate
from ntkfl.initialisation import draw


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(("n", "d"), [(5, 3), (5, 30)])
def test_two_layer_kernel_is_ours(n, d):
    x, z = rows(n, d), rows(3, d, seed=1)
    # their kernel has no error bound; its rounding has the size of ours, in units of |x_i||z_j|
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
        # hidden weights of variance 2 / fan-in keep the norm; the last layer's variance is 1 / fan-in
        gain = 1 if layer < depth - 2 else 1 / 2
        covariance, kernel = gain * covariance, gain * (covariance + kernel * slopes)
    assert np.allclose(deep_kernel(x, depth=depth), kernel, rtol=0, atol=1e-6 * norms.max())
    off = ~np.eye(5, dtype=bool)  # entries off the diagonal, whose angles are not near 0
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
        # their loss is half the mean of squares over the samples: the flow has the rate H / n
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
    """A process that has not imported neural-tangents yet; its modules are restored afterwards."""
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
