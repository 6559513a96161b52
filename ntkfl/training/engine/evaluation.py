"""A model's mean loss on given samples, and its accuracy if the labels are classes."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ntkfl.training.objectives import cross_entropies, half_squares

AT_ONCE = 1000  # samples


class Score(NamedTuple):
    """Mean loss of a sample (cross-entropy in nats for classes, halved squares for real labels), and accuracy.

    The accuracy of real labels is NaN unless they encode classes, as all ±1 or all one-hot.
    """

    loss: float
    accuracy: float


def evaluate(outputs: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, weights: Tensor | None = None) -> Score:
    """The score of a model on samples x (n, ...), y (n,) integers or real (n,) or (n, C); sums in float64.

    `weights`, (n,), are at least 0; the score is NaN where all are 0.
    """
    loss, hits, real = 0.0, 0.0, y.is_floating_point()
    score = half_squares if real else cross_entropies
    hit = _hit(y)
    weights = torch.ones(len(x), device=x.device) if weights is None else weights
    with torch.no_grad():
        for first in range(0, len(x), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            labels, predicted, weight = y[part], outputs(x[part]), weights[part].double()
            loss += (weight * score(predicted, labels).double()).sum().item()
            hits += float("nan") if hit is None else (weight * hit(predicted, labels)).sum().item()
    total = weights.double().sum().item() or float("nan")
    return Score(loss / total, hits / total)


def _hit(y: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
    """A function that tells whether outputs name the right class; None if labels of this kind are not classes."""
    if not y.is_floating_point():
        return lambda outputs, labels: outputs.argmax(1) == labels
    if y.ndim == 1:
        return (lambda outputs, labels: outputs * labels > 0) if (y.abs() == 1).all() else None
    if ((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all() and y.shape[1] > 1:
        return lambda outputs, labels: outputs.argmax(1) == labels.argmax(1)
    return None
