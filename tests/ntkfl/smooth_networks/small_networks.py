"""Helpers for tests: small smooth networks, their derivatives by torch, and the nearest weights that fit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from flint import arb
from torch import nn

from ntkfl import Problem
from ntkfl.smooth_networks.layers import ACTIVATIONS, IDENTITY, Layer
from ntkfl.training import Residual

TORCH = {
    "erf": torch.erf,
    "gelu": nn.functional.gelu,
    "tanh": torch.tanh,
    "softplus": nn.functional.softplus,
    "sin": torch.sin,
    "sigmoid": torch.sigmoid,
    "silu": nn.functional.silu,
    "relu": torch.relu,
    "identity": lambda z: z,
}


BALLS = {  # the activations in ball arithmetic, whose values are intervals that contain the exact ones
    "erf": lambda z: z.erf(),
    "gelu": lambda z: z * (1 + (z / arb(2).sqrt()).erf()) / 2,
    "tanh": lambda z: z.tanh(),
    "softplus": lambda z: (1 + z.exp()).log(),
    "sin": lambda z: z.sin(),
    "sigmoid": lambda z: 1 / (1 + (-z).exp()),
    "silu": lambda z: z / (1 + (-z).exp()),
    "identity": lambda z: z,
}


def network(seed, widths, activations, biases=True, frozen=(), blocks=()):
    """Returns layers of these widths, inputs first, in NTK parametrisation with scaled biases.

    The last layer may have an activation. blocks: the first and the last layer of each residual block.
    """
    rng = np.random.default_rng(seed)
    return tuple(
        Layer(
            f"layer {k}",
            rng.standard_normal((m, before)),
            rng.standard_normal(m) if biases else None,
            1 / np.sqrt(before),
            0.3,
            ACTIVATIONS[activations[k]] if k < len(activations) else IDENTITY,
            k not in frozen,
            [first for first, _ in blocks].count(k),
            [last for _, last in blocks].count(k),
        )
        for k, (before, m) in enumerate(pairwise(widths))
    )


def trained(layers):
    """Returns the trained parameters as one vector."""
    parts = []
    for layer in layers:
        if layer.trained:
            parts += [layer.weight.ravel()] + ([] if layer.bias is None else [layer.bias])
    return torch.tensor(np.concatenate(parts))


def outputs(layers, theta, x):
    """Returns the outputs f at these trained parameters, (n C,), as a function that torch differentiates."""
    h, first, aside = torch.tensor(x), 0, []
    if layers[0].image:
        h = h.reshape(len(x), -1, layers[0].image.pixels).transpose(1, 2).reshape(len(x), -1)
    for layer in layers:
        aside += [h] * layer.opens
        weight, bias = torch.tensor(layer.weight), None if layer.bias is None else torch.tensor(layer.bias)
        if layer.trained:
            weight = theta[first : first + weight.numel()].reshape(weight.shape)
            first += weight.numel()
            if bias is not None:
                bias = theta[first : first + len(bias)]
                first += len(bias)
        shift = 0 if bias is None else layer.bias_scale * bias
        if layer.image is None:
            h = layer.scale * h @ weight.T + shift
        else:
            side, pixels, stride = layer.image.side, (layer.image.height, layer.image.width), layer.image.stride
            images = h.reshape(len(x), *pixels, -1).permute(0, 3, 1, 2)
            squares = weight.reshape(len(weight), -1, side, side)
            z = nn.functional.conv2d(images, squares, stride=stride, padding=side // 2).permute(0, 2, 3, 1)
            h = (layer.scale * z + shift).reshape(len(x), -1)
        h = TORCH[layer.activation.name](h)
        for _ in range(layer.closes):
            h = h + aside.pop()
        if layer.pools:
            h = h.reshape(len(x), layer.image.places, -1).mean(1)
    return h.reshape(-1)


def jacobian(layers, theta, x):
    return torch.func.jacrev(lambda t: outputs(layers, t, x))(theta)


def hessians(layers, theta, x):
    """Returns the Hessians of all outputs, (n C, P, P)."""
    return torch.func.jacrev(torch.func.jacrev(lambda t: outputs(layers, t, x)))(theta)


def nearest_fit(layers, theta, x, y):
    """Returns weights that fit y and whose difference from theta is in the span of the gradients at the fit."""
    at = theta
    for _ in range(6):
        j, f = jacobian(layers, at, x), outputs(layers, at, x)
        at = theta + j.T @ torch.linalg.solve(j @ j.T, y - f + j @ (at - theta))
    return at


def module(seed=0, outputs=1, activation=nn.Tanh, width=30, features=4):
    """Returns a torch network of three layers in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(features, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, outputs)
        ).double()


def residual(seed=0, width=24, features=4):
    """Returns a torch network of four layers with nested residual blocks."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        block = Residual(nn.Linear(width, width), nn.Tanh(), Residual(nn.Linear(width, width), nn.GELU()))
        return nn.Sequential(nn.Linear(features, width), nn.Softplus(), block, nn.Linear(width, 1)).double()


def convolutional(seed, image, channels, activations, pools=True, blocks=(), biases=True):
    """Returns convolutional layers and a readout.

    `channels` has the numbers of channels, those of the inputs first. Every layer convolves with the stride
    `image.stride`. If `pools`, the readout is applied to the mean over the pixels.
    """
    rng, layers = np.random.default_rng(seed), []
    for k, (before, m) in enumerate(pairwise(channels)):
        columns, last = before * image.side**2, k == len(channels) - 2
        layers.append(
            Layer(
                f"layer {k}",
                rng.standard_normal((m, columns)),
                rng.standard_normal(m) if biases else None,
                1 / np.sqrt(columns),
                0.3,
                ACTIVATIONS[activations[k]],
                True,
                [first for first, _ in blocks].count(k),
                [end for _, end in blocks].count(k),
                image,
                pools and last,
            )
        )
        image = replace(image, height=image.output_shape[0], width=image.output_shape[1])
    columns = layers[-1].passes_on
    weight = rng.standard_normal((1, columns))
    return (*layers, Layer("readout", weight, None, 1 / np.sqrt(columns), 0.0, IDENTITY, True))


def near(net, n, residual, seed=0, features=4):
    """Returns random unit inputs with labels at the distance |y - f| = `residual` from the network's outputs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    with torch.no_grad():
        f = net(torch.tensor(x)).numpy()
    off = rng.standard_normal(f.shape)
    y = f + residual * off / np.linalg.norm(off)
    return Problem(x, y[:, 0] if y.shape[1] == 1 else y)
