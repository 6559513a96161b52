"""The measurements of a federation between rounds: losses and accuracies.

Losses and accuracies are those of the global model or, for a personal method, of the clients' own models.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isnan
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ntkfl.training.engine.federation import Federation, RoundResult, State
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.metrics import HALF_SQUARES, NATS, Row
from ntkfl.training.objectives import cross_entropies, half_squares
from ntkfl.training.tree import Params, Tree, row_of, tree_map

AT_ONCE = 1000  # number of samples that are evaluated in one call


class Score(NamedTuple):
    """The mean loss over samples (cross-entropy in nats for classes, halved squares for real labels), and the accuracy.

    The accuracy is NaN for real labels, unless they encode classes: all ±1 or all one-hot.
    """

    loss: float
    accuracy: float


def evaluate(outputs: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, weights: Tensor | None = None) -> Score:
    """The score of a model on samples x (n, ...) with labels y: classes (n,), or real numbers (n,) or (n, C).

    Sums are taken in float64. `weights` of the samples, (n,), are at least 0; if all are 0, the score is NaN.
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
    """A function (outputs, labels) -> whether the predicted class is right; None if these labels are not classes."""
    if not y.is_floating_point():
        return lambda outputs, labels: outputs.argmax(1) == labels
    if y.ndim == 1:
        return (lambda outputs, labels: outputs * labels > 0) if (y.abs() == 1).all() else None
    if ((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all() and y.shape[1] > 1:
        return lambda outputs, labels: outputs.argmax(1) == labels.argmax(1)
    return None


NOTHING = Score(float("nan"), float("nan"))


def loss_unit(data: FederatedData) -> str:
    """The unit of the losses on these data."""
    return HALF_SQUARES if data.classes is None else NATS


def measured(
    federation: Federation,
    state: State,
    train_loss: bool = False,
    result: RoundResult | None = None,
    seconds: float = 0.0,
) -> Row:
    """The measurements at a state.

    Test and training scores are scores of the global model. For a personal method they are means over the clients' own
    models, which `Federation.own_models` gives.

    `result` is the round that led to the state, or None before the first round. `seconds` is the duration of the round.
    """
    data = federation.data
    test = NOTHING if data.x_test is None else _score(federation, state, data.x_test, data.y_test)
    train = _score(federation, state, data.x, data.y) if train_loss else NOTHING
    row = Row(state.rounds, test_loss=test.loss, test_accuracy=test.accuracy, train_loss=train.loss, seconds=seconds)
    if result is None:
        return row
    return replace(
        row,
        rate=federation.schedule(state.rounds - 1),
        client_accuracy=NOTHING.accuracy if result.ends is None else _mean_accuracy(federation, result.ends),
        personal_accuracy=NOTHING.accuracy if result.ends is None else _personal_accuracy(federation, state),
        cohort=len(result.cohort),
        local_steps=int(result.steps.sum()),
        drift=float(result.squared_drift.mean()),
    )


def _mean_accuracy(federation: Federation, stacked: Params) -> float:
    """The mean test accuracy of several models, which are the rows of `stacked`."""
    data = federation.data
    if data.x_test is None:
        return NOTHING.accuracy
    return float(np.mean([_one(federation, params, data.x_test, data.y_test).accuracy for params in _rows(stacked)]))


def _personal_accuracy(federation: Federation, state: State) -> float:
    """The mean test accuracy of the clients' own models.

    A client's number of samples of a class is the weight of the test samples of this class.

    Source: Chen & Chao 2022 (FedRoD), whose personalised accuracy has these weights.
    """
    data, outputs = federation.data, federation.method.personal_outputs
    if outputs is None or data.x_test is None or data.y_test is None:
        return NOTHING.accuracy
    counts, accuracies = torch.as_tensor(data.class_counts()), []
    for client in state.has_trained.nonzero()[:, 0].tolist():
        kept = tree_map(lambda value: value.to(data.x.device), row_of(state.clients["rule"], client))

        def own(x: Tensor, kept: Tree = kept) -> Tensor:
            return outputs(federation.model, state.model, kept, x)

        weights = counts[client].to(data.x.device)[data.y_test]
        accuracies.append(evaluate(own, data.x_test, data.y_test, weights).accuracy)
    # The accuracy of a client is NaN if none of its classes is in the test set. Such a client is left out.
    known = [accuracy for accuracy in accuracies if not isnan(accuracy)]
    return fmean(known) if known else NOTHING.accuracy


def _score(federation: Federation, state: State, x: Tensor, y: Tensor | None) -> Score:
    if not federation.method.personal:
        return _one(federation, state.model, x, y)
    population = federation.data.clients
    at_once = federation.together(state.model, population)
    groups = (list(range(population))[first : first + at_once] for first in range(0, population, at_once))
    models = (params for group in groups for params in _rows(federation.own_models(state, group)))
    return Score(*np.mean([_one(federation, params, x, y) for params in models], axis=0).tolist())


def _one(federation: Federation, params: Params, x: Tensor, y: Tensor | None) -> Score:
    assert y is not None  # FederatedData has both x_test and y_test, or neither
    return evaluate(lambda some: federation.model.outputs(params, some), x, y)


def _rows(stacked: Params) -> Iterator[Params]:
    for row in range(len(next(iter(stacked.values())))):
        yield row_of(stacked, row)
