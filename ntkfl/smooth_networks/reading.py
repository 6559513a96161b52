"""The layers of a given network: a torch module, a network of `ntkfl.networks.wide` or a JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ntkfl.estimate import Estimate, NotFinite
from ntkfl.memory import require
from ntkfl.problem import finite_array, require_kind
from ntkfl.smooth_networks.jax_layers import jax_layers
from ntkfl.smooth_networks.layers import Layer, of_module, of_wide
from ntkfl.smooth_networks.passes import passed

if TYPE_CHECKING:
    from torch import nn

    from ntkfl.training.models.wide_networks import WideNetwork

PROBES = 2  # inputs at which a torch module is evaluated
ROUNDINGS = 4  # allowed difference from the values that torch computes, as a multiple of the proved rounding bound


def layers_of(
    network: nn.Module | WideNetwork | Callable[..., Any], params: Any, features: int | None = None
) -> tuple[Layer, ...]:
    """The layers of a network, from input to output; the last layer has an activation if the network ends with an
    activation.

    `features` is the number of features. It is needed for functions, and for convolutional networks of
    `ntkfl.networks.wide`, whose images are square.

    Raises:
        ValueError: the object has no such layers (the message names the first part that is no layer), or the parameters
            do not fit.
    """
    from torch import nn

    from ntkfl.training.models.wide_networks import WideNetwork

    function = callable(network) and not isinstance(network, nn.Module | type)
    if params is not None and not function:
        require_kind("params", params, Mapping, "dict(network.named_parameters())")
    if isinstance(network, WideNetwork):
        layers = of_wide(network, params, features)
    elif function:
        if features is None:
            raise ValueError("the layers of a function are read with data, whose number of features is missing")
        layers = jax_layers(network, params, features)
    elif isinstance(network, nn.Sequential):
        layers = of_module(network, params, features)
    else:
        raise ValueError(
            f"network is a {type(network).__name__}; it must be a torch Sequential, ntkfl.networks.wide('fc:...') or "
            "ntkfl.networks.wide('conv:...'), or a JAX function f(params, x)"
        )
    if layers[-1].image is not None:
        raise ValueError(f"layer {layers[-1].name} is a convolution; the last layer must be a Linear one")
    for before, after in pairwise(layers):
        if before.passes_on != after.n_inputs:
            raise ValueError(
                f"layer {after.name} takes {after.n_inputs} numbers; layer {before.name} gives {before.passes_on}"
            )
    aside: list[int] = []
    for layer in layers:
        aside += [layer.n_inputs] * layer.opens
        for _ in range(layer.closes):
            before_block = aside.pop()
            if before_block != layer.n_outputs:
                raise ValueError(
                    f"the residual block that ends with layer {layer.name} takes {before_block} numbers and gives "
                    f"{layer.n_outputs}; they must be as many"
                )
    if not any(layer.trained for layer in layers):
        raise ValueError("no layer of the network is trained: nothing can change")
    if isinstance(network, nn.Module):
        own = dict(network.named_parameters())
        given = {name: finite_array(name, value) for name, value in (own if params is None else params).items()}
        require(
            "comparing a torch module with its layers", lambda of: 48.0 * of, of=sum(v.size for v in given.values())
        )
        _require_same(network, layers, given)
        rng = np.random.default_rng(1)
        drawn = {name: rng.standard_normal(v.shape) / np.sqrt(v[0].size) for name, v in given.items()}
        _require_same(network, of_module(network, drawn, features), drawn)
    return layers


def _require_same(module: nn.Module, layers: tuple[Layer, ...], params: Mapping[str, np.ndarray]) -> None:
    """Compare outputs and a gradient with torch's outputs and gradient at random inputs, since a module's `forward` may
    have been replaced.

    Nothing is compared if weights are so large that outputs are infinite. A difference at other inputs is not detected.

    Raises:
        ValueError: outputs or gradients differ by more than rounding, or torch cannot compute the outputs.
    """
    import torch

    rng = np.random.default_rng(0)
    x = rng.standard_normal((PROBES, layers[0].n_inputs))
    try:
        done = passed(layers, x)
        b = rng.standard_normal(done.outputs.value.shape)
        kernel = done.kernel([done.input_products(k) for k in range(len(layers))])
        squared = Estimate.exact(b.reshape(-1)) @ (kernel @ b.reshape(-1))
    except NotFinite:
        return
    own = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}
    trained = [own[name] for name, value in module.named_parameters() if value.requires_grad]
    try:
        with torch.enable_grad():
            f = torch.func.functional_call(module, own, torch.tensor(x))
            gradients = torch.autograd.grad((f * torch.tensor(b)).sum(), trained, allow_unused=True)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"the network cannot be computed at x of shape {x.shape} in float64: {reason}") from error
    length = sum(float((part**2).sum()) for part in gradients if part is not None)
    for what, read, its in (
        ("outputs", done.outputs, f.detach().numpy()),
        ("gradients", squared, np.array(length)),
    ):
        rounding = ROUNDINGS * read.error + 2.0**-53 * sum(part.numel() for part in trained) * np.abs(its)
        if its.shape != read.value.shape or not (np.abs(its - read.value) <= rounding).all():
            raise ValueError(
                f"the {what} of the network, computed by torch, are not those of its layers as torch documents them: "
                "some forward is not torch's own"
            )
