"""The barrier and the integral of a loss that is convex and Lipschitz in the outputs, with proved error bounds.

The barrier. On an interval of width w, the outputs of a sample differ from their chord by at most w/4 times the total
variation V of their slope. (If the slope changes only at a kink in the middle, the difference reaches w V/4.) Along
this chord a convex loss is at most the straight line between its values at the two ends. Let the excess be the loss
less the straight line between its values at alpha = 0 and 1. On the interval, the excess is at most the larger excess
at the interval's two ends plus L w mean(V)/4. L is the Lipschitz constant, and the mean is over samples. Intervals on
which the excess could be larger than the largest value found are halved.

The integral of a logistic or cross-entropy loss, with a proved error bound.

On a piece of half-width H the loss is g = log(1 + sum_k exp d_k), where d_k is f_k - f_y or, for one output, -y f. All
d_k are quadratics in alpha. In the Bernstein ellipse of radius r about the piece, each d_k differs from its value at
the centre by at most B r + K r^2, with B = H max |d'| and K = H^2 max |d''|/2. The imaginary part of d_k is at most
half of this bound, so the imaginary part is at most pi/3 if B r + K r^2 <= 2 pi/3. Then 1 + sum_k exp d_k has at least
half the size of 1 + sum_k |exp d_k|, so that the differential of g is at most twice the largest differential of the
d_k. Hence g differs from its value at the centre by at most M = 4 pi/3. The Chebyshev coefficients of g are then below
2 M r^-k. A Gauss rule of q >= 2 points is exact for the Chebyshev polynomials of degree k < 2 q and of odd degree. For
every other Chebyshev polynomial the error of the rule is at most 2 + 2/15. So for g the error of the rule is at most H
(64/15) M r^(-2q) / (1 - r^-2).
"""

from collections.abc import Callable

import numpy as np

from ntkfl import interruption
from ntkfl.connectivity.losses import Loss
from ntkfl.connectivity.paths.piecewise import Supremum
from ntkfl.connectivity.paths.segment import EPS, Segment, located, places, values_at

NODES, SHARES = np.polynomial.legendre.leggauss(8)
WITHIN, CHANGE = 2 * np.pi / 3, 4 * np.pi / 3
# pieces are cut into parts until r is this large; 8 points then have an error below 6.2e-11 times the width
RADIUS = 5.0
MOST_PARTS = 2**22  # largest number of parts of all pieces of all samples
PARTS_AT_ONCE = 2**17  # number of parts that are evaluated at once


def convex_integral(segment: Segment, y: np.ndarray, loss: Loss) -> tuple[float, float]:
    """The integral over alpha of the mean of a logistic or cross-entropy loss, and a bound on its error.

    The bound does not contain the rounding of the outputs and of the losses at single points.
    """
    count, total, error = len(segment.x), 0.0, 0.0
    for part, labels in segment.chunks(y, heavy=5 * segment.first.n_outputs):
        outputs = np.stack(part.all_coefficients)
        half = np.diff(part.edges, axis=1) / 2
        sample, piece = np.nonzero(half > 0)
        outputs, half, left = outputs[:, sample, piece], half[sample, piece], part.edges[sample, piece]
        own = labels[sample]
        steep, bend = _steepest(outputs, own, left, half)
        reach, curve = half * steep, half**2 * bend
        with np.errstate(divide="ignore"):
            radius = 2 * WITHIN / (reach + np.sqrt(reach**2 + 4 * curve * WITHIN))  # radius r if the piece is not cut
        parts = _counts(RADIUS / radius, max(len(half), MOST_PARTS * len(labels) // count))
        error += float((half * _relative_error(parts * radius, reach / parts)).sum() + 8 * EPS * reach.sum())
        total += _sum(outputs, own, left, half, parts, loss)
    return total / count, (error + 64 * EPS * total) / count


def _steepest(outputs: np.ndarray, labels: np.ndarray, left: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, ...]:
    """The largest |d_k'| on each piece, and the largest |d_k''|/2, over all d_k of the piece's sample."""
    if len(outputs) > 1:
        outputs = outputs - outputs[labels, np.arange(len(labels))]
    slope, bend = np.asarray(outputs[..., 1], float), np.asarray(outputs[..., 2], float)
    ends = [np.abs(slope + 2 * bend * at).max(axis=0) for at in (left, left + 2 * half)]
    return np.maximum(*ends), np.abs(bend).max(axis=0)


def _counts(wanted: np.ndarray, most: int) -> np.ndarray:
    """The number of parts into which each piece is cut: the wanted number, or proportionally fewer."""
    parts = np.maximum(np.ceil(wanted), 1)
    return np.maximum(np.floor(parts * min(1.0, most / parts.sum())), 1).astype(int)


def _relative_error(radius: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """A bound on each piece's error, divided by its half-width.

    If the radius is too small, the bound follows from the slope of g, which is at most the largest slope of the d_k.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        sure = 64 / 15 * CHANGE * radius ** (-2.0 * len(NODES)) / (1 - radius**-2.0)
    return np.fmin(np.where(radius > 1, sure, np.inf), 4 * reach)


def _sum(
    outputs: np.ndarray, labels: np.ndarray, left: np.ndarray, half: np.ndarray, parts: np.ndarray, loss: Loss
) -> float:
    """The sum over all pieces of the results of the Gauss rule on their parts."""
    total, first = 0.0, np.concatenate([[0], np.cumsum(parts)])
    for begin in range(0, int(first[-1]), PARTS_AT_ONCE):
        part = np.arange(begin, min(begin + PARTS_AT_ONCE, int(first[-1])))
        piece = np.searchsorted(first, part, side="right") - 1
        size = half[piece] / parts[piece]
        points = left[piece] + (2 * (part - first[piece]) + 1 + NODES[:, None]) * size
        at = np.asarray(values_at(outputs[:, None, piece], points), float)
        losses = loss.value(np.moveaxis(at, 0, -1) if len(outputs) > 1 else at[0], labels[piece])
        # sum() adds pairwise; the rounding of a dot product would grow with PARTS_AT_ONCE
        total += float(((SHARES @ losses) * size).sum())
    return total


MOST_POINTS = 200_000  # default of the largest number of points at which the loss is evaluated
START = 65  # number of points of the first grid
BLOCK = 2**20  # number of outputs that are evaluated at once

Parts = list[tuple[Segment, np.ndarray]]


def convex_supremum(
    segment: Segment, y: np.ndarray, loss: Loss, tolerance: float, most_points: int = MOST_POINTS
) -> tuple[Supremum, float]:
    """sup over alpha of the mean loss less the line between its values at 0 and 1, and an upper bound of this sup.

    The bound is at most `tolerance` above the value, unless such a bound needs more than `most_points` points or
    intervals that are too short for float64.

    Raises:
        ValueError: the loss is not Lipschitz.
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
    """The mean loss at points of the segment, (p,)."""
    total = np.zeros(len(points))
    for part, labels in parts:
        for block in np.array_split(np.arange(len(points)), 1 + len(points) * len(labels) // BLOCK):
            at = np.broadcast_to(points[block], (len(labels), len(block)))
            place = places(part.edges, at)
            outputs = [values_at(located(q, place), at) for q in part.all_coefficients]
            stacked = np.asarray(np.stack(outputs, axis=-1), float).swapaxes(0, 1)  # (p, n, C)
            losses = loss.value(stacked if part.first.n_outputs > 1 else stacked[..., 0], labels)
            total[block] += np.ascontiguousarray(losses).sum(axis=1)  # numpy adds pairwise if the array is contiguous
    return total / sum(len(labels) for _, labels in parts)


def _slope_variation(parts: Parts) -> Callable[[np.ndarray], np.ndarray]:
    """The mean over samples of the total variation of the outputs' slope f' on [0, alpha), as a function of alpha."""
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
