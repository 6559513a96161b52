"""The layers of whatever network is given: a torch module, a network of any width or a JAX function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ntkfl.problem import require_kind
from ntkfl.smooth_networks.jax_layers import jax_layers
from ntkfl.smooth_networks.layers import Layer, of_module, of_wide

if TYPE_CHECKING:
    from torch import nn

    from ntkfl.training.models.wide_networks import WideNetwork


def layers_of(
    network: nn.Module | WideNetwork | Callable[..., Any], params: Any, features: int | None = None
) -> tuple[Layer, ...]:
    """The layers of a network, the input's first; the last has no activation, or is followed by one.

    features: number of features, for a convolutional network of any width, whose images are square.

    Raises:
        ValueError: an object without such layers (the message names the first part that is none); parameters that do
            not fit.
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
        if before.passes_on != after.takes:
            raise ValueError(
                f"layer {after.name} takes {after.takes} numbers; layer {before.name} gives {before.passes_on}"
            )
    aside: list[int] = []
    for layer in layers:
        aside += [layer.takes] * layer.opens
        for _ in range(layer.closes):
            before_block = aside.pop()
            if before_block != layer.gives:
                raise ValueError(
                    f"the residual block that ends with layer {layer.name} takes {before_block} numbers and gives "
                    f"{layer.gives}; they must be as many"
                )
    if not any(layer.trained for layer in layers):
        raise ValueError("no layer of the network is trained: nothing can change")
    return layers
