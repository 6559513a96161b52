"""The integral of a logistic or cross-entropy loss along a segment, with a proved error bound.

On a piece of half-width H the loss is g = log(1 + sum_k exp d_k), where the d_k = f_k - f_y (for one output -y f) are
quadratics in alpha. In the Bernstein ellipse of radius r about the piece each d_k differs from its value at the centre
by at most B r + K r^2, with B = H max |d'| and K = H^2 max |d''|/2. Its imaginary part is at most half of this, below
pi/3 where B r + K r^2 <= 2 pi/3. There the sum is at least half the sum of the absolute values, so |dg| <= 2 max |dd|
and g leaves its value at the centre by at most M = 4 pi/3. The Chebyshev coefficients of g are then below 2 M r^-k. A
Gauss rule of q >= 2 points integrates the polynomials of k < 2 q and of odd k exactly, and each other one with an error
of at most 2 + 2/15: its error is at most H (64/15) M r^(-2q) / (1 - r^-2).
"""

import numpy as np

from ntkfl.connectivity.losses import Loss
from ntkfl.connectivity.paths.segment import EPS, Segment, values_at

NODES, SHARES = np.polynomial.legendre.leggauss(8)
WITHIN, CHANGE = 2 * np.pi / 3, 4 * np.pi / 3
RADIUS = 5.0  # pieces are cut until r is this large: 8 points then have an error below 6.2e-11 times the width
MOST_PARTS = 2**22  # most parts of all pieces of all samples
BLOCK = 2**17  # parts that are evaluated at once


def convex_integral(segment: Segment, y: np.ndarray, loss: Loss) -> tuple[float, float]:
    """The integral over alpha of the mean of a logistic or cross-entropy loss, and a bound on its error.

    The bound leaves out the rounding of the outputs and of the loss at a point.
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
            radius = 2 * WITHIN / (reach + np.sqrt(reach**2 + 4 * curve * WITHIN))  # radius of the whole piece
        parts = _counts(RADIUS / radius, max(len(half), MOST_PARTS * len(labels) // count))
        error += float((half * _relative_error(parts * radius, reach / parts)).sum() + 8 * EPS * reach.sum())
        total += _sum(outputs, own, left, half, parts, loss)
    return total / count, (error + 64 * EPS * total) / count


def _steepest(outputs: np.ndarray, labels: np.ndarray, left: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, ...]:
    """The largest |d'| on each piece, and |d''|/2, over the d of its sample."""
    if len(outputs) > 1:
        outputs = outputs - outputs[labels, np.arange(len(labels))]
    slope, bend = np.asarray(outputs[..., 1], float), np.asarray(outputs[..., 2], float)
    ends = [np.abs(slope + 2 * bend * at).max(axis=0) for at in (left, left + 2 * half)]
    return np.maximum(*ends), np.abs(bend).max(axis=0)


def _counts(wanted: np.ndarray, most: int) -> np.ndarray:
    """The number of parts of each piece: as many as wanted, or proportionally fewer."""
    parts = np.maximum(np.ceil(wanted), 1)
    scale = min(1.0, most / parts.sum())
    return np.maximum(np.floor(parts * scale), 1).astype(int)


def _relative_error(radius: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Bound on each piece's error over its half-width; for too small a radius it follows from |dg| <= max |dd|."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        sure = 64 / 15 * CHANGE * radius ** (-2.0 * len(NODES)) / (1 - radius**-2.0)
    return np.fmin(np.where(radius > 1, sure, np.inf), 4 * reach)


def _sum(
    outputs: np.ndarray, labels: np.ndarray, left: np.ndarray, half: np.ndarray, parts: np.ndarray, loss: Loss
) -> float:
    """The sum over the pieces of the Gauss rule on their parts."""
    total, first = 0.0, np.concatenate([[0], np.cumsum(parts)])
    for begin in range(0, int(first[-1]), BLOCK):
        part = np.arange(begin, min(begin + BLOCK, int(first[-1])))
        piece = np.searchsorted(first, part, side="right") - 1
        size = half[piece] / parts[piece]
        points = left[piece] + (2 * (part - first[piece]) + 1 + NODES[:, None]) * size
        at = np.asarray(values_at(outputs[:, None, piece], points), float)
        losses = loss.value(np.moveaxis(at, 0, -1) if len(outputs) > 1 else at[0], labels[piece])
        total += float(((SHARES @ losses) * size).sum())  # pairwise: a dot product's rounding grows with BLOCK
    return total
