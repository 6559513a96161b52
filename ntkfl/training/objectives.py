"""Losses of a batch: cross-entropy for classes, halved squares for real labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ntkfl.training.method import Batch, Step
from ntkfl.training.model import Model
from ntkfl.training.tree import Params


@dataclass(frozen=True)
class CrossEntropy:
    """The mean of -log softmax(f(x))_y over the batch."""

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        return batch.mean(cross_entropies(model.outputs(params, batch.x), batch.y))


@dataclass(frozen=True)
class HalfSquares:
    """|f(x) - y|^2 / 2, summed over the batch as in FL-NTK's Algorithm 1, or its mean."""

    reduction: Literal["sum", "mean"] = "mean"

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        squares = half_squares(model.outputs(params, batch.x), batch.y)
        return batch.mean(squares) if self.reduction == "mean" else (squares * batch.real).sum()


def cross_entropies(outputs: Tensor, classes: Tensor) -> Tensor:
    """-log softmax(outputs)_class of each row, (b,)."""
    return functional.cross_entropy(outputs, classes, reduction="none")


def half_squares(outputs: Tensor, labels: Tensor) -> Tensor:
    """|outputs - labels|^2 / 2 of each row, (b,)."""
    return torch.square(outputs - labels).flatten(1).sum(1) / 2 if labels.ndim > 1 else (outputs - labels) ** 2 / 2
