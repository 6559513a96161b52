"""Losses of a batch: cross-entropy, plain or with logits shifted by class counts; halved squares; logistic loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ntkfl.messages import require_number
from ntkfl.training.method import Batch, Objective, Step
from ntkfl.training.model import Model
from ntkfl.training.tree import Params, Tensor


@dataclass(frozen=True)
class CrossEntropy:
    """The mean of -log softmax(f(x))_y over the batch."""

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        return batch.mean(cross_entropies(model.outputs(params, batch.x), batch.y))


@dataclass(frozen=True)
class CalibratedCrossEntropy:
    """Cross-entropy of the logits f_c(x) - tau n_c^(-1/4), where the client has n_c samples of class c.

    Classes with n_c = 0 are left out.

    Source: FedLC (Zhang et al. 2022, arXiv:2209.00189), with the full softmax, as in the released code.
    """

    tau: float

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        from torch import finfo

        present = step.counts > 0
        shift = -self.tau * step.counts.clamp(min=1) ** -0.25
        logits = model.outputs(params, batch.x) + shift
        # The lowest finite number is used in place of -infinity: its exponential is 0, and the gradient by the logit
        # that it replaces is 0. The label's own logit is not masked, since a sample that is padding may have a class
        # that this client lacks.
        total = logits.where(present, finfo(logits.dtype).min).logsumexp(1)
        return batch.mean(total - logits.gather(1, batch.y[:, None])[:, 0])


@dataclass(frozen=True)
class BalancedCrossEntropy:
    """Cross-entropy of the logits f_c(x) + gamma log max(n_c, 1), where the client has n_c samples of class c.

    Source: balanced softmax (Ren et al. 2020, arXiv:2007.10740), as FedRoD (arXiv:2107.00778) uses it.
    """

    gamma: float = 1.0

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        shift = self.gamma * step.counts.clamp(min=1).log()
        return batch.mean(cross_entropies(model.outputs(params, batch.x) + shift, batch.y))


@dataclass(frozen=True)
class HalfSquares:
    """|f(x) - y|^2 / 2, summed over the batch as in FL-NTK's Algorithm 1, or averaged."""

    reduction: Literal["sum", "mean"] = "mean"

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        squares = half_squares(model.outputs(params, batch.x), batch.y)
        return batch.mean(squares) if self.reduction == "mean" else (squares * batch.real).sum()

    def of_rows(self, stacked: Callable[[Params, Tensor], Tensor], params: Params, batch: Batch) -> Tensor:
        """The losses of many clients, (rows,). Parameters and batches have a row for each client.

        Args:
            stacked: outputs of the model for all rows at once.
            params: the parameters by name, (rows, ...).
            batch: the batches, (rows, b, ...).
        """
        squares = (stacked(params, batch.x) - batch.y).square().reshape(*batch.real.shape, -1).sum(2) / 2
        total = (squares * batch.real).sum(1)
        return total if self.reduction == "sum" else total / batch.real.sum(1).clamp(min=1)


@dataclass(frozen=True)
class LogisticLoss:
    """log(1 + exp(-y f(x))) for labels y = -1 and +1, summed over the batch."""

    def __call__(self, model: Model, params: Params, batch: Batch, step: Step) -> Tensor:
        from torch.nn.functional import logsigmoid

        # logsigmoid, since torch's softplus is exactly linear beyond 20, where its slope is wrong by 2e-9
        return -(logsigmoid(batch.y * model.outputs(params, batch.x)) * batch.real).sum()


def cross_entropies(outputs: Tensor, classes: Tensor) -> Tensor:
    """The cross-entropy -log softmax(outputs)_class of each row, (b,).

    Args:
        outputs: logits, shape (b, C).
        classes: the class of each row, 0..C-1, shape (b,).
    """
    from torch.nn.functional import cross_entropy

    return cross_entropy(outputs, classes, reduction="none")


def half_squares(outputs: Tensor, labels: Tensor) -> Tensor:
    """|outputs - labels|^2 / 2 of each row, (b,).

    Args:
        outputs: shape (b, C), or (b,) for one output.
        labels: labels of the same shape.
    """
    return (outputs - labels).square().flatten(1).sum(1) / 2 if labels.ndim > 1 else (outputs - labels) ** 2 / 2


def require_cross_entropy(objective: Objective) -> None:
    """Refuse an objective other than cross-entropy, for a method that shifts logits.

    Args:
        objective: the loss that was chosen.

    Raises:
        ValueError: the objective is not cross-entropy; the message names the objective.
    """
    if not isinstance(objective, CrossEntropy):
        raise ValueError(f"the objective is {objective}; logits are shifted in a cross-entropy only: CrossEntropy()")


def calibrated(objective: Objective, tau: float) -> Objective:
    """The cross-entropy on FedLC's calibrated logits; with tau = 0 the plain cross-entropy over all classes.

    Args:
        objective: a cross-entropy.
        tau: strength of the calibration, at least 0.

    Raises:
        ValueError: an objective other than cross-entropy, or a negative tau.
    """
    require_cross_entropy(objective)
    require_number("tau, the strength of the calibration,", tau, "be 0 or more")
    return CalibratedCrossEntropy(tau) if tau else objective
