"""The losses whose barriers are computed, each with its true Lipschitz constant in the outputs.

The first part of FedGuCci's Assumption 3.2 is that this constant is 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ntkfl.problem import finite_array

MOST_SQUARED = 145.0  # sums of squares of numbers up to 10^145 are far from overflow


@dataclass(frozen=True)
class Loss:
    """A loss that is convex in the outputs.

    Args:
        value: (outputs (..., n) or (..., n, C), labels) -> the losses of the samples, (..., n).
        lipschitz: the Lipschitz constant with respect to the l2 norm of the outputs; None: the loss is not Lipschitz.
    """

    name: str
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    lipschitz: float | None
    says: str


def _squared(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    difference = (outputs - y) ** 2
    return difference.sum(axis=-1) if y.ndim == 2 else difference


def _cross_entropy(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    largest = outputs.max(axis=-1, keepdims=True)
    total = np.log(np.exp(outputs - largest).sum(axis=-1)) + largest[..., 0]
    index = np.broadcast_to(y.astype(int), outputs.shape[:-1])[..., None]
    return total - np.take_along_axis(outputs, index, axis=-1)[..., 0]


SQUARED = Loss("squared", _squared, None, "|f - y|^2, summed over the outputs; 2 R on |f - y| <= R, else not Lipschitz")
ABSOLUTE = Loss("absolute", lambda f, y: np.abs(f - y), 1.0, "|f - y|, one output")
LOGISTIC = Loss("logistic", lambda f, y: np.logaddexp(0, -y * f), 1.0, "log(1 + exp(-y f)), one output, y = ±1")
CROSS_ENTROPY = Loss("cross-entropy", _cross_entropy, float(np.sqrt(2)), "-log softmax(f)_y, y = 0..C-1")
LOSSES = {loss.name: loss for loss in (SQUARED, ABSOLUTE, LOGISTIC, CROSS_ENTROPY)}


def named_loss(name: str) -> Loss:
    """The loss of this name.

    Args:
        name: "squared", "absolute", "logistic" or "cross-entropy".

    Raises:
        ValueError: the name is unknown.
    """
    if name not in LOSSES:
        raise ValueError(f"there is no loss {name!r}; it is one of {', '.join(LOSSES)}")
    return LOSSES[name]


def check_squares(exponent: float, y: np.ndarray) -> None:
    """Refuse outputs of up to 10^exponent, or labels, if their squares could overflow.

    Args:
        exponent: the decimal exponent of a bound of the outputs.
        y: labels.

    Raises:
        ValueError: outputs or labels reach 1e145.
    """
    if exponent > MOST_SQUARED:
        raise ValueError(f"outputs reach 1e{exponent:.0f}: the squared loss overflows; rescale the network")
    largest = float(np.abs(finite_array("y", y)).max(initial=0.0))
    if largest > 10**MOST_SQUARED:
        raise ValueError(f"labels reach {largest:.0e}: the squared loss overflows; rescale the labels")


def checked_labels(loss: Loss | None, y: np.ndarray, n: int, n_outputs: int) -> np.ndarray:
    """The labels in the form that the loss needs, (n,), or (n, C) for the squared loss of several outputs.

    Args:
        loss: the loss; None: the labels are for the accuracy.
        y: the labels, (n,), or (n, C) for the squared loss of C outputs.
        n: number of samples.
        n_outputs: number of outputs of the network.

    Raises:
        ValueError: the numbers of labels and samples differ; labels do not fit the loss; or the loss is for one output
            and the network has several.
    """
    y = finite_array("y", y)
    classes = loss is CROSS_ENTROPY or (loss is None and n_outputs > 1)
    signs = loss is LOGISTIC or (loss is None and n_outputs == 1)
    name = "the accuracy" if loss is None else f"the {loss.name} loss"
    shape = (n, n_outputs) if loss is SQUARED and n_outputs > 1 else (n,)
    if loss in (ABSOLUTE, LOGISTIC) and n_outputs > 1:
        raise ValueError(f"{name} is for one output, the networks have {n_outputs}; use squared or cross-entropy")
    if loss is CROSS_ENTROPY and n_outputs == 1:
        raise ValueError("the cross-entropy loss needs two outputs or more; use logistic for one output")
    if y.shape != shape:
        way_out = ": for class labels use cross-entropy" if loss is SQUARED and y.shape == (n,) else ""
        raise ValueError(
            f"the labels have shape {y.shape}; {name} of {n} samples, {n_outputs} outputs, needs {shape}{way_out}"
        )
    if signs and not np.isin(y, (-1, 1)).all():
        raise ValueError(f"label {y[~np.isin(y, (-1, 1))][0]} is neither -1 nor 1; {name} of one output needs ±1")
    if classes and not np.isin(y, np.arange(n_outputs)).all():
        wrong = y[~np.isin(y, np.arange(n_outputs))][0]
        raise ValueError(f"label {wrong} is no class; {name} of {n_outputs} outputs needs 0..{n_outputs - 1}")
    return y.astype(int) if classes else y
