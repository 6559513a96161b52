"""The barrier of a loss that is convex and Lipschitz in the outputs: a computed value and a proved upper bound.

On an interval of width w the outputs of a sample leave their chord by at most w/4 times the total variation V of their
slope (a kink in the middle does exactly that). A convex loss lies below its own chord. So on the interval the loss less
the line is at most its larger end plus L w mean(V)/4. Intervals that could hold more than the best value found are
halved.
"""

from collections.abc import Callable

import numpy as np

from ntkfl import interruption
from ntkfl.connectivity.losses import Loss
from ntkfl.connectivity.paths.piecewise import Supremum
from ntkfl.connectivity.paths.segment import Segment, located, places, values_at

MOST_POINTS = 200_000  # most points at which the loss is evaluated, by default
START = 65  # points of the first grid
BLOCK = 2**20  # outputs that are evaluated at once

Parts = list[tuple[Segment, np.ndarray]]


def convex_supremum(
    segment: Segment, y: np.ndarray, loss: Loss, tolerance: float, most_points: int = MOST_POINTS
) -> tuple[Supremum, float]:
    """sup over alpha of the mean loss less its line, and an upper bound on it.

    The bound is at most `tolerance` above the value unless `most_points` points, or the shortest intervals of float64,
    do not suffice for that.

    Raises:
        ValueError: a loss that is not Lipschitz.
    """
    if loss.lipschitz is None:
        raise ValueError(f"the {loss.name} loss is not Lipschitz in the outputs; {loss.says}")
    parts = list(segment.chunks(y))
    variation = _slope_variation(parts)
    points = np.linspace(0, 1, START)
    heights = _means(parts, loss, points)
    line = heights[0], heights[-1]
    excess = heights - _line(points, *line)
    left, right, low, high = points[:-1], points[1:], excess[:-1], excess[1:]
    best = Supremum(float(excess.max()), float(points[np.argmax(excess)]))
    count, settled = START, -np.inf
    while True:
        reach = np.maximum(low, high) + loss.lipschitz * (right - left) / 4 * (variation(right) - variation(left))
        open_ones = reach > best.value + tolerance
        settled = max(settled, float(reach[~open_ones].max(initial=-np.inf)))
        left, right, low, high, reach = (part[open_ones] for part in (left, right, low, high, reach))
        middle = (left + right) / 2
        if not len(left) or count + len(left) > most_points or ((middle <= left) | (middle >= right)).any():
            return best, max(best.value, settled, float(reach.max(initial=-np.inf)))
        interruption.check()
        new = _means(parts, loss, middle) - _line(middle, *line)
        count += len(middle)
        if new.max() > best.value:
            best = Supremum(float(new.max()), float(middle[np.argmax(new)]))
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        low, high = np.concatenate([low, new]), np.concatenate([new, high])


def _line(points: np.ndarray, at_zero: float, at_one: float) -> np.ndarray:
    return at_zero + points * (at_one - at_zero)


def _means(parts: Parts, loss: Loss, points: np.ndarray) -> np.ndarray:
    """Mean loss at points of the segment, (p,)."""
    total = np.zeros(len(points))
    for part, labels in parts:
        blocks = np.array_split(np.arange(len(points)), 1 + len(points) * len(labels) // BLOCK)
        for block in blocks:
            at = np.broadcast_to(points[block], (len(labels), len(block)))
            place = places(part.edges, at)
            outputs = [values_at(located(q, place), at) for q in part.all_coefficients]
            stacked = np.asarray(np.stack(outputs, axis=-1), float).swapaxes(0, 1)  # (p, n, C)
            losses = loss.value(stacked if part.first.n_outputs > 1 else stacked[..., 0], labels)
            total[block] += np.ascontiguousarray(losses).sum(axis=1)  # pairwise sums: contiguous alone
    return total / sum(len(labels) for _, labels in parts)


def _slope_variation(parts: Parts) -> Callable[[np.ndarray], np.ndarray]:
    """The mean over samples of the total variation of f' on [0, alpha), as a function of alpha."""
    where, jumps, bends, rate = [], [], [], 0.0
    for part, _ in parts:
        q = np.asarray(np.stack(part.all_coefficients), float)  # (C, n, h + 1, 3)
        inside = part.edges[:, 1:-1] < 1
        change = np.diff(q, axis=2)
        slopes = np.linalg.norm(change[..., 1] + 2 * part.edges[:, 1:-1] * change[..., 2], axis=0)
        curvature = 2 * np.linalg.norm(q[..., 2], axis=0)
        where.append(part.edges[:, 1:-1][inside])
        jumps.append(slopes[inside])
        bends.append(np.diff(curvature, axis=1)[inside])
        rate += float(curvature[:, 0].sum())
    n = sum(len(labels) for _, labels in parts)
    points, order = np.concatenate(where), np.argsort(np.concatenate(where))
    points = points[order]
    jump = np.concatenate([[0.0], np.cumsum(np.concatenate(jumps)[order])]) / n
    rates = (rate + np.concatenate([[0.0], np.cumsum(np.concatenate(bends)[order])])) / n
    smooth = np.concatenate([[0.0], np.cumsum(rates * np.diff(np.concatenate([[0.0], points, [1.0]])))])
    starts = np.concatenate([[0.0], points])

    def variation(alpha: np.ndarray) -> np.ndarray:
        crossed = np.searchsorted(points, alpha, side="left")
        return jump[crossed] + smooth[crossed] + rates[crossed] * (alpha - starts[crossed])

    return variation
