"""Whether a run has learned anything. Its last rounds are compared with the best answer that ignores the input."""

from collections.abc import Sequence
from math import isnan, sqrt

import torch
from torch import Tensor

from ntkfl.training.engine.federation import Federation, State
from ntkfl.training.engine.measurement import Score, evaluate
from ntkfl.training.federated_data import FederatedData
from ntkfl.training.metrics import Row
from ntkfl.training.runs.summary import summary

# a run that has learned nothing has diverged if its loss is more than GROWN times the loss without training
GROWN = 2
FLAT = 0.99  # a loss counts as lower than another loss only if it is below this share of the other loss


def shortfall(federation: Federation, state: State, rows: Sequence[Row]) -> str | None:
    """A sentence which says that a run diverged or was not trained, and why. None if it has learned, or had no round.

    The best constant answer is the shares of the classes among the training labels or, for real labels, their mean. A
    run has learned if its loss is 1% below the loss of this answer, on the test samples (for the mean of the last
    rounds) or on the training samples (for the last model).

    A run has also learned if its accuracy is above a, the accuracy of always answering the most frequent class. If the
    loss is not 1% lower than before training, the run's accuracy must exceed a by two standard deviations, which are
    2 sqrt(a (1 - a) / n) on n samples. If all labels are the same, there is nothing to learn, and the run counts as a
    run that has learned unless its loss has more than doubled. Methods that report clients' own models are not judged.
    """
    if not state.rounds or federation.method.personal:
        return None
    data, on_test = federation.data, None
    if data.x_test is not None and data.y_test is not None:
        summaries, nothing = summary(rows), float("nan")
        score = Score(
            *(summaries[name].mean if name in summaries else nothing for name in ("test_loss", "test_accuracy"))
        )
        before = rows[0].test_loss
        on_test = _judged("test", data.y_test, data, score, before, score.loss < FLAT * before, state.rounds)
        if on_test is None:
            return None
    score = evaluate(lambda x: federation.model.outputs(state.model, x), data.x, data.y)
    before = rows[0].test_loss if isnan(rows[0].train_loss) else rows[0].train_loss
    fallen = score.loss < FLAT * rows[0].train_loss
    on_training = _judged("training", data.y, data, score, before, fallen, state.rounds)
    return on_training and (on_test or on_training)


def _judged(
    which: str, y: Tensor, data: FederatedData, score: Score, before: float, fallen: bool, rounds: int
) -> str | None:
    """The sentence about these samples; None if the run's answers are better than the best constant answer.

    `before` is the loss before training, perhaps on other samples, or NaN if it is unknown. `fallen` says that the loss
    on these samples is known to be 1% lower than before training.
    """
    loss, accuracy = score
    share, constant = _most_frequent(y), _constant_loss(data.y, y, data.classes)
    start = constant if isnan(before) else max(before, constant)
    nothing_to_learn = len(torch.unique(torch.cat([data.y, y]), dim=0)) == 1
    if loss < FLAT * constant or (nothing_to_learn and not loss > GROWN * before):
        return None
    if isnan(accuracy) or share is None:
        comparison = f"the {which} loss is {loss:.4g}, and {constant:.4g} by always answering the mean label"
    else:
        margin = 0.0 if fallen else 2 * sqrt(share * (1 - share) / len(y))
        if accuracy > share + margin:
            return None
        comparison = f"{which} accuracy is {accuracy:.2%}, and {share:.2%} by always answering one class"
    if not loss <= GROWN * start:
        return (
            f"DIVERGED: the {which} loss is {loss:.4g} after {rounds} rounds, and {start:.4g} without training; a "
            "smaller rate may do"
        )
    return f"NOT TRAINED: after {rounds} rounds {comparison}; another rate, more rounds or another model may do"


def _most_frequent(y: Tensor) -> float | None:
    """The share of the most frequent class among the labels; None if there are no labels."""
    if y.is_floating_point():
        y = (y > 0).long() if y.ndim == 1 else y.argmax(1)
    return float(torch.bincount(y).max()) / len(y) if len(y) else None


def _constant_loss(train: Tensor, y: Tensor, classes: int | None) -> float:
    """The mean loss on y of the best constant answer to the training labels.

    For classes the answer is the shares of the classes among the training labels, where each class counts once more
    than it occurs. For real labels the answer is the mean of the training labels.
    """
    if classes:
        shares = (torch.bincount(train, minlength=classes) + 1.0) / (len(train) + classes)
        return -float(shares.log()[y].mean())
    off = (y - train.mean(0)).double().reshape(len(y), -1)
    return float((off**2).sum(1).mean() / 2)
