"""Parts that several families of models share: convolutions with a norm, attention, dense layers, the last layer."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn


class Residual(nn.Sequential):
    """A block x + body(x), where the body is given by the modules of a Sequential.

    `ntkfl.certify_network` understands networks with such blocks.

    Example:
        >>> from torch import nn
        >>> from ntkfl.training import Residual
        >>> block = Residual(nn.Linear(8, 8), nn.GELU())
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), block, nn.Linear(8, 1))
    """

    def forward(self, x: Tensor) -> Tensor:
        """Returns x + body(x), in the shape of x.

        Args:
            x: the body's input, of the same shape as its output.
        """
        return x + super().forward(x)


Norm = Literal["group", "none"]


def convolution(
    inputs: int, outputs: int, kernel: int, norm: Norm, stride: int = 1, padding: int = 0
) -> tuple[nn.Module, ...]:
    """For the norm "none" a convolution with a bias; for "group" a convolution without a bias, then a GroupNorm.

    The GroupNorm has two groups and a bias of its own.

    Source: IMA, Table IV: "Group normalization (GN) layers split the input channels into two groups in all models".
    """
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=norm == "none")
    return (layer,) if norm == "none" else (layer, nn.GroupNorm(2, outputs))


def drawn_for_relu(module: nn.Sequential) -> nn.Sequential:
    """The module, with its convolutions drawn anew so that the signal keeps its size through ReLU layers.

    Source: He et al. 2015, section 2.2 (variance 2 / fan-in, no biases).
    """
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module


class OneOutput(nn.Linear):
    """A linear layer to a single output, (b, k) -> (b,)."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs, 1)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).squeeze(-1)


def readout(inputs: int, outputs: int | None) -> nn.Linear:
    """The last layer, to outputs (b, C), or to (b,) if `outputs` is None."""
    return OneOutput(inputs) if outputs is None else nn.Linear(inputs, outputs)


class Mean(nn.Module):
    """The mean over the pixels, (b, c, h, w) -> (b, c)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


def dense(*widths: int) -> list[nn.Module]:
    """Linear layers from each width to the next, with a ReLU after each layer."""
    return [part for k, m in pairwise(widths) for part in (nn.Linear(k, m), nn.ReLU())]


def flat_length(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> int:
    """The number of outputs of a module for one input of this shape. Only shapes are computed."""
    with torch.device("meta"), torch.no_grad():
        return make()(torch.empty(1, *shape)).numel()


def attention(query: Tensor, key: Tensor, value: Tensor, heads: int, real: Tensor | None = None) -> Tensor:
    """Multi-head attention: softmax(q k' / sqrt(width of a head)) v of all heads side by side, (b, t, w).

    `query`, `key` and `value` are (b, t, w), and the number of heads divides w. `real`, (b, t), marks the positions
    that may be attended to; None: all.

    Source: Vaswani et al. 2017, section 3.2.
    """
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(-3, -2) for part in (query, key, value))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if real is not None:  # with -inf, a sample that is all padding would give NaN
        scores = scores.masked_fill(~real[:, None, None, :], torch.finfo(scores.dtype).min)
    return (scores.softmax(-1) @ v).transpose(-3, -2).flatten(-2)
