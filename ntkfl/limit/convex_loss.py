"""Convex losses of an output and a label, with what the bound on their training needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

Entrywise = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ConvexLoss:
    """A loss l(f, y) >= 0 of one output, convex in f, with |l'|^2 <= 2 b l; functions of arrays, entry by entry.

    Args:
        name: of it.
        value: l(f, y).
        slope: l', its derivative in f.
        curvature: l'', used in Newton's method only.
        smoothness: b; a bound on l'' is one, as l is not negative.
        accepts: what labels must be, in words; `labels`: whether these are.
    """

    name: str
    value: Entrywise
    slope: Entrywise
    curvature: Entrywise
    smoothness: float
    accepts: str = "real numbers"
    labels: Callable[[np.ndarray], bool] = lambda y: True


LOGISTIC = ConvexLoss(
    "logistic",
    lambda f, y: np.logaddexp(0, -y * f),
    lambda f, y: -y * expit(-y * f),
    lambda f, y: expit(y * f) * expit(-y * f),
    0.25,
    "-1 and +1",
    lambda y: bool((np.abs(y) == 1).all()),
)
SQUARES = ConvexLoss(
    "squares", lambda f, y: (f - y) ** 2 / 2, lambda f, y: f - y, lambda f, y: np.ones(np.broadcast(f, y).shape), 1.0
)
LOSSES = {loss.name: loss for loss in (LOGISTIC, SQUARES)}
