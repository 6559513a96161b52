"""Tests of JAX functions that are read as the layers of a network: they are certified like the same torch network.

A function that is no network of such layers is refused, and the message says why.
"""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from small_networks import module, near, residual
from torch import nn

from ntkfl import Problem, certify_network
from ntkfl.smooth_networks import attack_network
from ntkfl.smooth_networks.layers import ACTIVATIONS
from ntkfl.smooth_networks.passes import Curvature, passed, sizes_of_each, weight_norms
from ntkfl.smooth_networks.reading import layers_of

PHI = {
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "relu": lambda z: jnp.maximum(z, 0),
}


def drawn(seed=0, **shapes):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def arrays(net):
    return {name: value.detach().numpy() for name, value in net.named_parameters()}


def of_module(p, x):
    h = jnp.tanh(x @ p["0.weight"].T + p["0.bias"])
    h = jnp.tanh(h @ p["2.weight"].T + p["2.bias"])
    return (h @ p["4.weight"].T + p["4.bias"])[:, 0]


def of_residual(p, x):
    h = jax.nn.silu(x @ p["0.weight"].T + p["0.bias"])
    inner = jnp.tanh(h @ p["2.0.weight"].T + p["2.0.bias"])
    outer = inner + PHI["gelu"](inner @ p["2.2.0.weight"].T + p["2.2.0.bias"])
    return (h + outer) @ p["3.weight"].T + p["3.bias"]


def test_a_function_is_certified_as_the_same_module_is():
    for net, function, size in ((module(1), of_module, 1e-3), (silu_residual(), of_residual, 1e-6)):
        problem = near(net, 3, size)
        torchs, jaxs = certify_network(net, None, problem), certify_network(function, arrays(net), problem)
        assert torchs.certified and jaxs.certified
        for name in ("distance", "reach", "step_limit", "window_factor"):
            assert getattr(jaxs, name) == pytest.approx(getattr(torchs, name), rel=1e-9), name
        assert attack_network(jaxs, trials=20).broken is None


def silu_residual():
    net = residual(3)
    net[1] = nn.SiLU()
    return net


@pytest.mark.parametrize("name", PHI)
def test_every_activation_is_read_with_numbers_before_and_behind(name):
    """Every activation is read, with factors before and behind it.

    The function has NTK parametrisation, weights with and without transposition, and the layer 1.5 phi(.7 z).
    """
    p, phi = drawn(a=(5, 3), b=(5,), c=(5, 5), d=(5, 1)), PHI[name]

    def function(p, x):
        h = phi(0.7 * (x @ p["a"].T / jnp.sqrt(3) + 0.2 * p["b"])) * 1.5
        return jnp.squeeze(phi(h @ p["c"] * 0.4) @ p["d"] / jnp.sqrt(5), 1)

    layers, x = layers_of(function, p, 3), np.random.default_rng(1).standard_normal((4, 3))
    assert [layer.activation.name for layer in layers] == [name, name, "identity"]
    assert [layer.scale for layer in layers] == pytest.approx([0.7 / 3**0.5, 0.6, 5**-0.5])
    assert layers[0].bias_scale == pytest.approx(0.14) and all(layer.trained for layer in layers)
    with jax.enable_x64(True):
        np.testing.assert_allclose(passed(layers, x).outputs.value[:, 0], function(p, x), rtol=1e-12)
    assert set(PHI) == set(ACTIVATIONS) - {"identity", "softplus"}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("factor", [0.1, 1.0, 3.0, 30.0])
def test_an_activation_of_a_multiple_of_a_sum_has_its_factor_in_every_bound(factor):
    """If an activation is applied to a sum times a factor, the factor is part of every bound.

    In earlier code the norm of 3 I, the map for the factor 3, was taken as 1. The bound of this network's gradient was
    then 3.17, but the gradient's norm is 3.35.
    """
    rng = np.random.default_rng(0)
    shapes = (("a", (4, 6), 2), ("b", (6, 6), 2.4), ("c", (6,), 2.4))
    p = {name: rng.standard_normal(shape) / size for name, shape, size in shapes}
    x = 0.3 * rng.standard_normal((1, 4))

    def function(p, x):
        h = jnp.tanh(x @ p["a"])
        return jnp.tanh(factor * (h + jnp.tanh(h @ p["b"]))) @ p["c"]

    layers = layers_of(function, p, 4)
    norms = weight_norms(layers)
    for layer, norm in list(zip(layers, norms, strict=True))[1:]:
        top = layer.scale * np.linalg.norm(layer.weight, 2)
        assert top * (1 - 1e-12) <= norm <= top * (1 + 1e-6)
    curvature = Curvature(layers, norms, sizes_of_each(passed(layers, x, norms)), None)
    with jax.enable_x64(True):
        flat, back = jax.flatten_util.ravel_pytree(p)
        gradient = np.linalg.norm(jax.grad(lambda at: function(back(at), x)[0])(flat))
        hessian = np.abs(np.linalg.eigvalsh(jax.hessian(lambda at: function(back(at), x)[0])(flat))).max()
    assert gradient <= curvature.lipschitz(0.0)[0] and hessian <= curvature.of_each(0.0)[0]


def test_parameters_may_be_nested_single_precision_or_jitted():
    p = [(np.ones((3, 4), np.float32) / 3, np.zeros(4)), {"out": np.full(4, 0.25)}]
    layers = layers_of(jax.jit(lambda p, x: jnp.tanh(x @ p[0][0] + p[0][1]) @ p[1]["out"]), p, 3)
    assert [layer.name for layer in layers] == ["0.0", "1.out"]
    assert layers[0].weight[0, 0] == float(np.float32(1) / np.float32(3))


@jax.custom_jvp
def straight_through(z):
    return jnp.tanh(z)


straight_through.defjvp(lambda at, moved: (jnp.tanh(at[0]), moved[0]))


REFUSED = {
    "relu of jax.nn": (lambda p, x: jax.nn.relu(x @ p["a"]) @ p["d"], "operation custom_jvp_call after layer a"),
    "derivative of its own": (lambda p, x: straight_through(x @ p["a"]) @ p["d"], "custom_jvp_call after layer a"),
    "gelu by tanh": (
        lambda p, x: jax.nn.gelu(x @ p["a"]) @ p["d"],
        "operation integer_pow after layer a, which is none",
    ),
    "sorted": (lambda p, x: jnp.sort(x @ p["a"], axis=1)[:, 0], "operation sort after layer a"),
    "stopped parameter": (lambda p, x: jnp.tanh(x @ jax.lax.stop_gradient(p["a"])) @ p["d"], "stop_gradient"),
    "stopped value": (lambda p, x: jax.lax.stop_gradient(jnp.tanh(x @ p["a"])) @ p["d"], "stop_gradient"),
    "batch norm": (lambda p, x: jnp.tanh(x @ p["a"] - (x @ p["a"]).mean(0)) @ p["d"], "'a' is used twice"),
    "mean of samples": (lambda p, x: jnp.tanh((x - x.mean(0)) @ p["a"]) @ p["d"], "operation reduce_sum"),
    "attention": (lambda p, x: jax.nn.softmax(x @ p["a"]) @ p["d"], "operation "),
    "shared": (lambda p, x: jnp.tanh(x @ p["a"]) @ p["a"].T, "the parameter 'a' is used twice"),
    "unused": (lambda p, x: x @ p["a"], "params have d, which the function does not use"),
    "shifted": (lambda p, x: jnp.tanh(x @ p["a"] + 1) @ p["d"], "operation add after layer a"),
    "negative": (lambda p, x: jnp.tanh(x @ p["a"] * -2) @ p["d"], "numbers must be positive"),
    "divided by zero": (lambda p, x: jnp.tanh(x @ p["a"] / 0.0) @ p["d"], "operation div after layer a"),
    "parameter by zero": (lambda p, x: x @ (p["a"] / 0.0) @ p["d"], "operation div"),
    "number of samples": (
        lambda p, x: jnp.tanh(x @ p["a"]) @ p["d"] / len(x),
        "has other layers for another number of sam",
    ),
    "one sample": (
        lambda p, x: (jnp.sin if len(x) == 1 else jnp.tanh)(x @ p["a"]) @ p["d"],
        "has other layers for another number of sam",
    ),
    "many samples": (
        lambda p, x: (jnp.sin if len(x) > 100 else jnp.tanh)(x @ p["a"]) @ p["d"],
        "has other layers for another number of sam",
    ),
    "single precision": (lambda p, x: jnp.tanh((x @ p["a"]).astype("float32")) @ p["d"], "after layer a"),
    "shapes": (lambda p, x: x @ p["a"].T @ p["d"], "cannot be read at params and x of shape"),
    "torch": (lambda p, x: torch.tanh(torch.tensor(x)), "cannot be read at params and x of shape"),
    "no layer": (lambda p, x: p["d"], "does not give the outputs of layers"),
    "several": (lambda p, x: (x @ p["a"], p["d"]), "does not give the outputs of layers"),
    "factors": (lambda p, x: x @ (p["a"] @ p["d"]), "operation dot_general"),
    "powers": (lambda p, x: (x @ p["a"]) ** 2 @ p["d"], "operation integer_pow after layer a"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused_by_name(name):
    function, why = REFUSED[name]
    with pytest.raises(ValueError, match=why):
        certify_network(function, drawn(a=(4, 3), d=(3, 1)), Problem(np.eye(4), np.zeros(4)))


def test_functions_without_parameters_are_refused():
    for params, why in (
        ({}, "params have no array"),
        (None, "params have no array"),
        ({"a": np.full(3, np.nan)}, "nan"),
    ):
        with pytest.raises(ValueError, match=why):
            certify_network(lambda p, x: x, params, Problem(np.eye(4), np.zeros(4)))


def test_what_was_read_is_compared_with_the_function(monkeypatch):
    """If the reader of layers takes sine for tanh, the comparison with the function finds it."""
    from ntkfl.smooth_networks import jax_layers

    trees = jax_layers._references()
    monkeypatch.setattr(jax_layers, "_references", lambda: trees | {"tanh": trees["sin"], "sin": trees["tanh"]})
    params = drawn(a=(4, 3), d=(3, 1))
    # At zero parameters the outputs and gradients are 0 with tanh and with sine. So a comparison at these parameters
    # alone would not find the difference.
    for given in (params, params | {"a": 0 * params["a"], "d": 0 * params["d"]}):
        with pytest.raises(ValueError, match="the outputs of the function are not those of the layers read from it"):
            layers_of(lambda p, x: jnp.tanh(x @ p["a"]) @ p["d"], given, 4)
