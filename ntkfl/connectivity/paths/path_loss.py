"""Mean losses along a segment, exactly: polynomials in alpha between the points where a unit or a sign changes."""

from collections.abc import Iterator

import numpy as np

from ntkfl.connectivity.paths.long_sums import LONG
from ntkfl.connectivity.paths.piecewise import PiecewisePolynomial, summed
from ntkfl.connectivity.paths.segment import Segment


def squared_error(segment: Segment, y: np.ndarray) -> PiecewisePolynomial:
    """Mean of |f - y|^2 (summed over the outputs), of degree 4; y (n,) or (n, C)."""
    y = np.asarray(y, float)
    start, where, change = np.zeros(5, LONG), [], []
    for part, labels in segment.chunks(y.reshape(len(y), -1)):
        crossing = part.edges[:, 1:-1] < 1
        where.append(part.edges[:, 1:-1][crossing])
        changes = np.zeros((5, int(crossing.sum())), LONG)
        for channel in range(labels.shape[1]):
            residual = part.coefficients(channel)
            residual[:, :, 0] -= labels[:, channel, None]
            for power, square in enumerate(_square(residual)):
                start[power] += square[:, 0].sum()
                changes[power] += np.diff(square, axis=1)[crossing]
        change.append(changes.T)
    n = len(segment.x)
    return summed(start / n, np.concatenate(where), np.concatenate(change) / n)


def absolute_error(segment: Segment, y: np.ndarray) -> PiecewisePolynomial:
    """Mean of |f - y| of a scalar network, of degree 2; y (n,)."""
    return _absolute(segment, np.stack([y, np.zeros(len(y))], axis=1))


def absolute_gap(segment: Segment) -> PiecewisePolynomial:
    """Mean of |z|, z = f - alpha f_1 - (1 - alpha) f_2 of a scalar network (FedGuCci, proof of Theorem 3.5)."""
    parts = [part for part, _ in segment.chunks(segment.x)]
    zero, one = (np.concatenate([part.outputs_at(end)[:, 0] for part in parts]) for end in (0, 1))
    return _absolute(segment, np.stack([zero, one - zero], axis=1))


def _absolute(segment: Segment, lines: np.ndarray) -> PiecewisePolynomial:
    """Mean of |f - line| with a line (constant, slope) for each sample, (n, 2)."""
    start, where, change = np.zeros(3, LONG), [], []
    for part, line in segment.chunks(lines):
        residual = part.coefficients(0)
        residual[:, :, :2] -= line[:, None]
        edges, pieces = refined(part.edges, residual)
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        signed = pieces * np.sign(values_at(pieces, middle))[..., None]
        inside = (edges[:, 1:-1] < 1) & (edges[:, 1:-1] > 0)
        first = np.argmax(edges[:, 1:] > 0, axis=1)  # a root at 0 leaves an empty piece before the first
        start += signed[np.arange(len(signed)), first].sum(axis=0)
        where.append(edges[:, 1:-1][inside])
        change.append((signed[:, 1:] - signed[:, :-1])[inside])
    n = len(segment.x)
    return summed(start / n, np.concatenate(where), np.concatenate(change) / n)


def refined(edges: np.ndarray, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same quadratics, with their roots added to the edges: no quadratic changes its sign within a piece."""
    both = np.concatenate([edges, roots(edges, pieces).reshape(len(edges), -1)], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    piece = np.clip(np.cumsum(order < edges.shape[1], axis=1)[:, :-1] - 1, 0, pieces.shape[1] - 1)
    return np.take_along_axis(both, order, axis=1), np.take_along_axis(pieces, piece[:, :, None], axis=1)


def places(edges: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For each sample and each of its points, the piece that contains the point, (n, q)."""
    right = [row.searchsorted(at, side="right") for row, at in zip(edges, points, strict=True)]
    return np.clip(np.stack(right) - 1, 0, edges.shape[1] - 2)


def located(pieces: np.ndarray, place: np.ndarray) -> np.ndarray:
    """For each sample, the quadratics of the pieces in which its points lie, (n, q, 3)."""
    return np.take_along_axis(pieces, place[:, :, None], axis=1)


def roots(edges: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """The roots of each quadratic inside its own piece, (n, p, 2); 1 in place of a missing one."""
    constant, slope, bend = (pieces[..., power] for power in range(3))
    discriminant = slope**2 - 4 * bend * constant
    root = np.sqrt(np.maximum(discriminant, 0))
    half = -(slope + np.where(slope >= 0, root, -root)) / 2  # root of larger size, no cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        real_roots = np.stack([half / bend, constant / half], axis=-1)
    inside = (real_roots > edges[:, :-1, None]) & (real_roots < edges[:, 1:, None]) & (discriminant >= 0)[..., None]
    return np.asarray(np.where(inside, real_roots, 1.0), float)


def values_at(pieces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Quadratics (..., 3), constant term first, at points that broadcast to (...)."""
    return pieces[..., 0] + points * (pieces[..., 1] + points * pieces[..., 2])


def _square(q: np.ndarray) -> Iterator[np.ndarray]:
    """The coefficients of the squares of quadratics, power by power."""
    c, b, a = q[..., 0], q[..., 1], q[..., 2]
    yield c * c
    yield 2 * b * c
    yield b * b + 2 * a * c
    yield 2 * a * b
    yield a * a
