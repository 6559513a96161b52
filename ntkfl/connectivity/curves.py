"""Losses on a grid of points of the line through any two models: curves, and lower bounds of barriers.

For torch modules, `TorchNetwork` makes the models on the line: `lambda alpha: loss(between(first, second, alpha))`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.problem import finite_array


@dataclass(frozen=True, eq=False)
class GridBarrier:
    """The largest excess on a grid.

    The largest excess on a grid is a lower bound of the barrier, since the excess may be larger between the points.

    Args:
        value: the largest excess over the straight line between the values at the ends.
        at: the alpha of this excess.
        points: the number of points of the grid.
    """

    value: float
    at: float
    points: int

    def __str__(self) -> str:
        return f"{self.value:.6g} at alpha = {self.at:.6g}, the largest of {self.points} grid points (a lower bound)"


@dataclass(frozen=True, eq=False)
class GridMean:
    """A mean over the segment by the trapezoidal rule on a grid. Its error is not bounded."""

    value: float
    points: int

    def __str__(self) -> str:
        return f"{self.value:.6g}, by the trapezoidal rule on {self.points} grid points (no error bound)"


def interpolation_curve(
    evaluate: Callable[[np.ndarray], float],
    first: Float[np.ndarray, " S"],
    second: Float[np.ndarray, " S"],
    alphas: Float[np.ndarray, " p"],
) -> Float[np.ndarray, " p"]:
    """The values evaluate(alpha first + (1 - alpha) second) for every alpha. Alphas may lie outside of [0, 1].

    Args:
        evaluate: the function of one vector of weights.
        first: the point at alpha = 1, shape (S,).
        second: the point at alpha = 0, shape (S,).
        alphas: the values of alpha, shape (p,).

    Raises:
        ValueError: the two points have different shapes.
    """
    first, second, alphas = finite_array("first", first), finite_array("second", second), finite_array("alphas", alphas)
    if first.shape != second.shape:
        raise ValueError(f"the ends have shapes {first.shape} and {second.shape}; they must agree")
    return np.array([float(evaluate(alpha * first + (1 - alpha) * second)) for alpha in alphas])


def grid_barrier(evaluate: Callable[[float], float], points: int = 51) -> GridBarrier:
    """The largest of evaluate(alpha) - alpha evaluate(1) - (1 - alpha) evaluate(0) on equally spaced alphas.

    Args:
        evaluate: the function of alpha that is evaluated.
        points: number of values of alpha, both ends included; default 51.

    Raises:
        ValueError: there are fewer than three points, or a value is not finite.

    Example:
        >>> from ntkfl.connectivity.curves import grid_barrier
        >>> grid_barrier(lambda alpha: alpha * (1 - alpha)).value
        0.25
    """
    alphas, values = _grid(evaluate, points)
    excess = values - (1 - alphas) * values[0] - alphas * values[-1]
    excess[[0, -1]] = 0.0
    best = int(np.argmax(excess))
    return GridBarrier(float(excess[best]), float(alphas[best]), points)


def grid_connectivity_loss(evaluate: Callable[[float], float], points: int = 51) -> GridMean:
    """The integral of evaluate(alpha) over [0, 1], from equally spaced alphas (FedGuCci, Eq (7)).

    Args:
        evaluate: the function of alpha that is evaluated.
        points: number of values of alpha, both ends included; default 51.

    Raises:
        ValueError: as `grid_barrier`.
    """
    alphas, values = _grid(evaluate, points)
    return GridMean(float(np.trapezoid(values, alphas)), points)


def grid_accuracy_barrier(evaluate: Callable[[float], float], points: int = 51) -> GridBarrier:
    """The largest of 1 - evaluate(alpha) / (alpha evaluate(1) + (1 - alpha) evaluate(0)) on equally spaced alphas.

    Args:
        evaluate: the function of alpha that is evaluated.
        points: number of values of alpha, both ends included; default 51.

    Raises:
        ValueError: as `grid_barrier`; or the accuracy at an end is 0, so that the ratio is not defined there.
    """
    alphas, values = _grid(evaluate, points)
    for name, accuracy in (("alpha = 0", values[0]), ("alpha = 1", values[-1])):
        if not accuracy > 0:
            raise ValueError(f"the accuracy at {name} is {accuracy:g}: the barrier's ratio is undefined there")
    drops = 1 - values / ((1 - alphas) * values[0] + alphas * values[-1])
    drops[[0, -1]] = 0.0
    best = int(np.argmax(drops))
    return GridBarrier(float(drops[best]), float(alphas[best]), points)


def _grid(evaluate: Callable[[float], float], points: int) -> tuple[np.ndarray, np.ndarray]:
    if points < 3:
        raise ValueError(f"the grid has {points} points; it needs its two ends and at least one point between")
    alphas = np.linspace(0, 1, points)
    values = np.array([float(evaluate(float(alpha))) for alpha in alphas])
    if not np.isfinite(values).all():
        worst = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"the value at alpha = {alphas[worst]:g} is {values[worst]}; every value must be finite")
    return alphas, values
