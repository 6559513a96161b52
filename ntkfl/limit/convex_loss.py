"""Convex losses of an output and a label, with the constants that `ConvexRegime.bound` needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

Entrywise = Callable[[np.ndarray, np.ndarray], np.ndarray]
Ends = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class ConvexLoss:
    """A loss l(f, y) >= 0 of one output f and its label y, convex in f, with |l'|^2 <= 2 b l.

    The functions below take arrays and act on each entry.

    Args:
        name: the name of the loss.
        value: the function l(f, y).
        slope: l', the derivative of l in f.
        curvature: l'', the second derivative, which is used in Newton's method only.
        smoothness: the constant b; a bound of l'' is large enough, since l is not negative.
        minimisers: the two ends, rounded inward, of the interval of f in which l is 0. None means that l is nowhere 0.
            If minimisers are given, b must be a Lipschitz constant of l'.
        accepts: the allowed labels, in words.
        labels: the function that tells whether given labels are allowed.
        halved: where f is at most this far from the minimisers, l is half the square of the distance; 0 means nowhere.
    """

    name: str
    value: Entrywise
    slope: Entrywise
    curvature: Entrywise
    smoothness: float
    minimisers: Ends | None = None
    accepts: str = "real numbers"
    labels: Callable[[np.ndarray], bool] = lambda y: True
    halved: float = 0.0


LOGISTIC = ConvexLoss(
    "logistic",
    lambda f, y: np.logaddexp(0, -y * f),
    lambda f, y: -y * expit(-y * f),
    lambda f, y: expit(y * f) * expit(-y * f),
    0.25,
    None,
    "-1 and +1",
    lambda y: bool((np.abs(y) == 1).all()),
)
SQUARES = ConvexLoss(
    "squares",
    lambda f, y: (f - y) ** 2 / 2,
    lambda f, y: f - y,
    lambda f, y: np.ones(np.broadcast(f, y).shape),
    1.0,
    lambda y: (y, y),
    halved=np.inf,
)
HINGE = ConvexLoss(
    "hinge",
    lambda f, y: np.maximum(1 - y * f, 0) ** 2 / 2,
    lambda f, y: -y * np.maximum(1 - y * f, 0),
    lambda f, y: 1.0 * (y * f < 1),
    1.0,
    lambda y: (np.where(y > 0, 1.0, -np.inf), np.where(y > 0, np.inf, -1.0)),
    LOGISTIC.accepts,
    LOGISTIC.labels,
    np.inf,
)
LOSSES = {loss.name: loss for loss in (LOGISTIC, SQUARES)}


def _named(kind: str, number: float) -> str:
    """The name of the loss with its parameter, written with as many digits as `loss_of` needs to make the same loss."""
    return f"{kind}:{float(number)!r}".removesuffix(".0")


def huber(delta: float) -> ConvexLoss:
    """Huber's loss: half the square of f - y up to |f - y| = delta, and linear beyond."""
    return ConvexLoss(
        _named("huber", delta),
        lambda f, y: np.where(np.abs(f - y) <= delta, (f - y) ** 2 / 2, delta * np.abs(f - y) - delta**2 / 2),
        lambda f, y: np.clip(f - y, -delta, delta),
        lambda f, y: 1.0 * (np.abs(f - y) <= delta),
        1.0,
        lambda y: (y, y),
        halved=delta,
    )


def band(width: float) -> ConvexLoss:
    """The loss (|f - y| - width)^2 / 2 where |f - y| exceeds the width, and 0 elsewhere."""

    def ends(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(np.nextafter(y - width, np.inf), y), np.maximum(np.nextafter(y + width, -np.inf), y)

    return ConvexLoss(
        _named("band", width),
        lambda f, y: np.maximum(np.abs(f - y) - width, 0) ** 2 / 2,
        lambda f, y: f - np.clip(f, y - width, y + width),
        lambda f, y: 1.0 * (np.abs(f - y) > width),
        1.0,
        ends,
        halved=np.inf,
    )


WITH_A_NUMBER = {"huber": huber, "band": band}


def loss_of(name: str) -> ConvexLoss:
    """Returns the loss of a name: squares, logistic, hinge (the squared hinge), huber:DELTA or band:WIDTH.

    Raises:
        ValueError: another name, or a number that is not positive and finite.
    """
    kind, colon, number = name.partition(":")
    if kind in WITH_A_NUMBER:
        try:
            size = float(number)
        except ValueError:
            size = np.nan
        if not (colon and 0 < size < np.inf):
            raise ValueError(f"the loss is {name!r}; {kind} needs a positive number, such as {kind}:0.1")
        return WITH_A_NUMBER[kind](size)
    if name in (known := LOSSES | {HINGE.name: HINGE}):
        return known[name]
    raise ValueError(f"the loss is {name!r}; it must be squares, hinge, huber:DELTA or band:WIDTH")
