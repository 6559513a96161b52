"""Multi-head attention from elementary operations, so that it can be mapped over clients."""

import math

import torch
from torch import Tensor


def attention(query: Tensor, key: Tensor, value: Tensor, heads: int, real: Tensor | None = None) -> Tensor:
    """softmax(q k' / sqrt(width of a head)) v in each head, heads side by side, (b, t, w).

    Args:
        heads: their number, a divisor of w.
        query, key, value: (b, t, w). real: which positions may be attended to, (b, t) of booleans; None: all.

    Source: Vaswani et al. 2017, section 3.2.
    """
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(-3, -2) for part in (query, key, value))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if real is not None:
        scores = scores.masked_fill(
            ~real[:, None, None, :], torch.finfo(scores.dtype).min
        )  # -inf would make a row of padding nan
    return (scores.softmax(-1) @ v).transpose(-3, -2).flatten(-2)
