"""Outputs along the segment between two networks. For each sample the outputs are quadratic between kinks.

At alpha w_1 + (1 - alpha) w_2 unit i has the pre-activation g_i = alpha a_i + (1 - alpha) c_i with a = U_1 x and c =
U_2 x, and adds (alpha v_1i + (1 - alpha) v_2i) relu(g_i) to the output. So f is a quadratic in alpha between the points
-c_i / (a_i - c_i) at which some g_i changes its sign. These points are called the crossings of the sample, and the
intervals between them its pieces. A unit is on where g_i > 0.

Source: fedgucci/X1, after FedGuCci, Definition 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ntkfl.connectivity.network import TwoLayer, check_shapes, checked_inputs
from ntkfl.connectivity.paths.piecewise import PiecewisePolynomial, summed
from ntkfl.rounding import LONG, SMALLEST, long_product, long_product_error, running_sum, running_sum_error

INTERVALS = 32
# allowance for rounding, relative to the terms of a loss; the rounding error of sums of some hundred terms is smaller
ROUNDING = 1e-12


def absolute_loss_bounds(
    start: TwoLayer, ends: Float[np.ndarray, "N S"], x: Float[np.ndarray, "n l"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """A lower and an upper bound of the largest mean absolute loss on each of N segments that start at one network.

    The lower bound is the largest loss on a grid. Between two neighbouring grid points, the loss exceeds the larger of
    its values at these points by at most the outputs' distance from their chord. A neuron with pre-activation z and
    readout weight v adds |change of z| / 4 times |change of v| to this distance and, if z changes its sign, also
    |change of z| / 4 times max |v|.

    `ends` holds the parameters in the order of `TwoLayer.vector`.
    """
    hidden, readout = np.split(np.asarray(ends, float), [start.hidden.size], axis=1)
    hidden, readout = hidden.reshape(-1, *start.hidden.shape), readout[:, None]
    alpha = np.linspace(0, 1, INTERVALS + 1)[:, None, None, None]
    z_change, v_change = x @ (hidden - start.hidden).swapaxes(1, 2), readout - start.readout
    z, v = x @ start.hidden.T + alpha * z_change, start.readout + alpha * v_change
    losses = np.abs((v * np.maximum(z, 0)).sum(axis=-1) - y).mean(axis=-1)
    active = np.maximum(z[:-1], z[1:]) > 0
    turning = active & (np.minimum(z[:-1], z[1:]) < 0)
    bends = active * np.abs(v_change) / INTERVALS + turning * np.maximum(np.abs(v[:-1]), np.abs(v[1:]))
    off_chord = (bends * np.abs(z_change)).sum(axis=-1).mean(axis=-1) / (4 * INTERVALS)
    largest = np.maximum(np.abs(hidden), np.abs(start.hidden)), np.maximum(np.abs(readout), np.abs(start.readout))
    size = ((np.abs(x) @ largest[0].swapaxes(1, 2)) * largest[1]).sum(axis=-1).mean(axis=-1) + np.abs(y).mean()
    above = (np.maximum(losses[:-1], losses[1:]) + off_chord).max(axis=0)
    return losses.max(axis=0) - ROUNDING * size, above + ROUNDING * size


EPS = np.finfo(float).eps
BELOW_ONE = 1 - EPS / 2  # the largest float below 1
# number of pairs of unit and sample whose pieces are in memory at once in long precision, some 200 bytes each
CHUNK = 2**20
MOST_EXPONENT = 150.0  # for outputs beyond 10 to this power, norms overflow
HELD = 2**24  # largest number of pairs of unit and sample whose products U x are kept, 32 bytes each


@dataclass(frozen=True, eq=False)
class Segment:
    """The segment alpha w_1 + (1 - alpha) w_2, with the networks' outputs on inputs x (n, l).

    Raises:
        ValueError: the networks have different shapes, or the inputs do not fit them.
    """

    first: TwoLayer
    second: TwoLayer
    x: Float[np.ndarray, "n l"]

    def __post_init__(self) -> None:
        check_shapes((self.first, self.second))
        object.__setattr__(self, "x", checked_inputs(self.first, self.x))
        if self.size_exponent > MOST_EXPONENT:
            raise ValueError(f"outputs reach 1e{self.size_exponent:.0f}: their squares overflow; rescale the network")

    @cached_property
    def size_exponent(self) -> float:
        """The decimal logarithm of a bound of the outputs and of all intermediate numbers."""
        nets = (self.first, self.second)
        with np.errstate(divide="ignore"):
            x, u, v = (
                float(np.log10(max(float(np.abs(part).max()) for part in parts)))
                for parts in ((self.x,), [net.hidden for net in nets], [net.readout for net in nets])
            )
        units, features = self.first.hidden.shape
        return max(x, u, v, x + u + float(np.log10(features)), x + u + v + float(np.log10(features * units)))

    @property
    def crossings_in_all(self) -> int:
        """The number of crossings of all samples, up to rounding. Crossings are counted for a few samples at a time."""
        rows = max(1, CHUNK // len(self.first.hidden))
        return sum(
            int(np.count_nonzero((part @ self.first.hidden.T >= 0) != (part @ self.second.hidden.T >= 0)))
            for part in (self.x[begin : begin + rows] for begin in range(0, len(self.x), rows))
        )

    def sliced(self, rows: slice) -> Segment:
        """The same segment on some of the inputs."""
        part = Segment(self.first, self.second, self.x[rows])
        if "_sides" in self.__dict__:
            part.__dict__["_sides"] = (self._sides[0][rows], self._sides[1][rows])
        return part

    def chunks(self, labels: np.ndarray, heavy: int = 1) -> Iterator[tuple[Segment, np.ndarray]]:
        """Yields the segment on a few inputs at a time, and their labels. The pieces of these inputs fit into memory.

        `heavy` is the memory that an input needs, as a multiple of the memory for its pieces.
        """
        width = self.first.hidden.shape[0]
        if len(self.x) * width <= HELD:
            _ = self._sides  # computed here once, for all chunks and for all later calls
        rows = max(1, CHUNK // ((width + 1) * heavy))
        for begin in range(0, len(self.x), rows):
            yield self.sliced(slice(begin, begin + rows)), labels[begin : begin + rows]

    @cached_property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The products a = U_1 x and c = U_2 x, (n, h), in long precision."""
        return long_product(self.x, self.first.hidden), long_product(self.x, self.second.hidden)

    @cached_property
    def _readouts(self) -> tuple[np.ndarray, np.ndarray]:
        """The readouts v_1 and v_2, (C, h)."""
        return np.atleast_2d(self.first.readout), np.atleast_2d(self.second.readout)

    @cached_property
    def crossings(self) -> tuple[np.ndarray, np.ndarray]:
        """The crossings of each sample, ascending, (n, k), and the units that change there.

        k is the largest number of crossings of a sample. Samples with fewer crossings have 1 in the remaining places.
        """
        a, c = self._sides
        crosses = np.where(c >= 0, a < 0, a > 0) & (c != 0)  # if c = 0, the unit is on, or off, on the whole segment
        points = np.ones(c.shape)
        points[crosses] = np.minimum(c[crosses] / (c[crosses] - a[crosses]), BELOW_ONE)
        most = int((points < 1).sum(axis=1).max())
        unit = np.argsort(points, axis=1, kind="stable")[:, :most]
        return np.take_along_axis(points, unit, axis=1), unit

    def coefficients(self, channel: int) -> np.ndarray:
        """The coefficients of one output on each sample's pieces, (n, k + 1, 3), in long precision.

        The constant term comes first. Piece p of a sample lies between its crossings p - 1 and p. The piece after a
        sample's last crossing ends at 1; all further pieces are empty.
        """
        (a, c), (v1, v2) = self._sides, self._readouts
        one, two = v1[channel].astype(LONG), v2[channel].astype(LONG)
        on = self._on
        points, unit = self.crossings
        flat = unit + np.arange(len(c))[:, None] * c.shape[1]
        sign = np.where(on.ravel()[flat], -1.0, 1.0) * (points < 1)
        pieces = np.empty((3, len(c), unit.shape[1] + 1), LONG)
        for power, term in enumerate(_terms(a * on, c * on, one, two)):
            pieces[power, :, 0] = term.sum(axis=1)
        for power, term in enumerate(_terms(a.ravel()[flat], c.ravel()[flat], one[unit], two[unit])):
            pieces[power, :, 1:] = term * sign
        sums = np.moveaxis(running_sum(pieces), 0, -1)
        sums[self.active == 0] = 0  # if no unit is on, the sums are only rounding errors
        return sums

    @cached_property
    def active(self) -> np.ndarray:
        """The number of units that are on, for each piece of each sample, (n, k + 1)."""
        on = self._on
        points, unit = self.crossings
        turns = np.where(np.take_along_axis(on, unit, axis=1), -1, 1) * (points < 1)
        return np.cumsum(np.concatenate([on.sum(axis=1, keepdims=True), turns], axis=1), axis=1)

    @cached_property
    def _on(self) -> np.ndarray:
        """Whether each unit is on at the beginning of the first piece of each sample, (n, h)."""
        a, c = self._sides
        return np.asarray((c > 0) | ((c == 0) & (a > 0)))

    @cached_property
    def crossing_error(self) -> np.ndarray:
        """A bound of the error of each sample's crossings before they are rounded to float64, (n,)."""
        a, c = self._sides
        near_zero = np.minimum(np.abs(a), np.abs(c)) < self._product_error  # the pre-activation may be 0 at an end
        may_cross = (np.sign(a) * np.sign(c) < 0) | near_zero
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(may_cross, 4 * self._product_error / np.abs(a - c), 0)
        return np.asarray(np.minimum(np.nan_to_num(far.max(axis=1), nan=1.0), 1.0), float)

    @cached_property
    def certainly_dead(self) -> np.ndarray:
        """Whether f = 0 for certain at the points of each piece that are farther than `crossing_error` from its edges,
        (n, k + 1).
        """
        a, c = self._sides
        loose = (np.maximum(np.abs(a), np.abs(c)) < self._product_error).any(axis=1)
        return np.asarray((self.active == 0) & ~loose[:, None])

    @cached_property
    def all_coefficients(self) -> list[np.ndarray]:
        """The `coefficients` of every output, computed only once."""
        return [self.coefficients(channel) for channel in range(self.first.n_outputs)]

    @cached_property
    def edges(self) -> np.ndarray:
        """The edges of the pieces of each sample, (n, k + 2), from 0 to 1."""
        return np.pad(self.crossings[0], ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))

    def outputs_at(self, end: int) -> np.ndarray:
        """The outputs at alpha = 0 (the second network) or alpha = 1 (the first), (n, C), in long precision."""
        v = self._readouts[1 - end].astype(LONG)
        active = np.maximum(self._sides[1 - end], 0)
        return np.stack([(active * row).sum(axis=1) for row in v], axis=1)

    @cached_property
    def absolute_terms(self) -> np.ndarray:
        """A bound of |f| on the whole segment, (n, C).

        The bound is a sum over the units that may be on. A unit's term is the larger |v| of both networks times the
        larger |U x| of both networks.
        """
        (a, c), (v1, v2) = self._sides, self._readouts
        may_be_on = np.maximum(a, c) > -self._product_error
        sizes = np.asarray(np.maximum(np.abs(a), np.abs(c)) * may_be_on, float)
        return sizes @ np.maximum(np.abs(v1), np.abs(v2)).T * (1 + 1e-12)

    @cached_property
    def output_error(self) -> np.ndarray:
        """A bound of the error of the outputs at any alpha, if they are computed from the pieces, (n, C).

        Three roundings contribute: of the products U x, of the sums over the units, and of the edges to float64.
        Between an edge and the true crossing the wrong piece is used; the error of the wrong piece is at most
        |v| |a - c| times the distance of edge and crossing.
        """
        largest = np.maximum(*(np.abs(v) for v in self._readouts))
        (a, c) = self._sides
        may_be_on = np.maximum(a, c) > -self._product_error
        products = 4 * (self._product_error * may_be_on) @ largest.T
        sums = 16 * running_sum_error(a.shape[1])
        # these bounds themselves are float64 and may underflow
        underflow = 8 * SMALLEST * may_be_on.sum(axis=1)[:, None]
        return np.asarray(products + (sums + 2 * EPS) * self.absolute_terms + underflow, float)

    @cached_property
    def _product_error(self) -> np.ndarray:
        """A bound of the rounding errors of a and c, (n, h)."""
        return np.maximum(*(long_product_error(self.x, net.hidden) for net in (self.first, self.second)))


def _terms(a: np.ndarray, c: np.ndarray, one: np.ndarray, two: np.ndarray) -> Iterator[np.ndarray]:
    """The coefficients of alpha^0, alpha^1, alpha^2 in (alpha one + (1 - alpha) two)(alpha a + (1 - alpha) c)."""
    rise, more = a - c, one - two
    yield two * c
    yield two * rise + more * c
    yield more * rise


def squared_error(segment: Segment, y: np.ndarray) -> PiecewisePolynomial:
    """The mean over samples of |f - y|^2, summed over the outputs, with y (n,) or (n, C). Its pieces have degree 4."""
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
    """The mean over samples of |f - y| of a scalar network, with y (n,). Its pieces have degree 2."""
    return _absolute(segment, np.stack([y, np.zeros(len(y))], axis=1))


def absolute_gap(segment: Segment) -> PiecewisePolynomial:
    """The mean of |f - alpha f_1 - (1 - alpha) f_2| of a scalar network (z in FedGuCci's proof of Theorem 3.5)."""
    parts = [part for part, _ in segment.chunks(segment.x)]
    zero, one = (np.concatenate([part.outputs_at(end)[:, 0] for part in parts]) for end in (0, 1))
    return _absolute(segment, np.stack([zero, one - zero], axis=1))


def _absolute(segment: Segment, lines: np.ndarray) -> PiecewisePolynomial:
    """The mean over samples of |f - constant - slope alpha|, with a constant and a slope for each sample, (n, 2)."""
    start, where, change = np.zeros(3, LONG), [], []
    for part, line in segment.chunks(lines):
        residual = part.coefficients(0)
        residual[:, :, :2] -= line[:, None]
        edges, pieces = refined(part.edges, residual)
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        signed = pieces * np.sign(values_at(pieces, middle))[..., None]
        inside = (edges[:, 1:-1] < 1) & (edges[:, 1:-1] > 0)
        first = np.argmax(edges[:, 1:] > 0, axis=1)  # the first piece of positive length
        start += signed[np.arange(len(signed)), first].sum(axis=0)
        where.append(edges[:, 1:-1][inside])
        change.append((signed[:, 1:] - signed[:, :-1])[inside])
    n = len(segment.x)
    return summed(start / n, np.concatenate(where), np.concatenate(change) / n)


def refined(edges: np.ndarray, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same quadratics, with their roots as further edges, so that no quadratic changes its sign within a piece."""
    both = np.concatenate([edges, roots(edges, pieces).reshape(len(edges), -1)], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    piece = np.clip(np.cumsum(order < edges.shape[1], axis=1)[:, :-1] - 1, 0, pieces.shape[1] - 1)
    return np.take_along_axis(both, order, axis=1), np.take_along_axis(pieces, piece[:, :, None], axis=1)


def places(edges: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The number of the piece that contains each point of each sample, (n, q)."""
    right = [row.searchsorted(at, side="right") for row, at in zip(edges, points, strict=True)]
    return np.clip(np.stack(right) - 1, 0, edges.shape[1] - 2)


def located(pieces: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The quadratics of the pieces with the numbers `place`, (n, q, 3)."""
    return np.take_along_axis(pieces, place[:, :, None], axis=1)


def roots(edges: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """The roots of each quadratic inside its own piece, (n, p, 2), with 1 in place of a missing root."""
    constant, slope, bend = (pieces[..., power] for power in range(3))
    discriminant = slope**2 - 4 * bend * constant
    root = np.sqrt(np.maximum(discriminant, 0))
    half = -(slope + np.where(slope >= 0, root, -root)) / 2  # the root of larger absolute value has no cancellation
    with np.errstate(divide="ignore", invalid="ignore"):
        real_roots = np.stack([half / bend, constant / half], axis=-1)
    inside = (real_roots > edges[:, :-1, None]) & (real_roots < edges[:, 1:, None]) & (discriminant >= 0)[..., None]
    return np.asarray(np.where(inside, real_roots, 1.0), float)


def values_at(pieces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The values of quadratics (..., 3), constant term first, at points that broadcast to (...)."""
    return pieces[..., 0] + points * (pieces[..., 1] + points * pieces[..., 2])


def _square(q: np.ndarray) -> Iterator[np.ndarray]:
    """The coefficients of the squares of quadratics, from the constant term on."""
    c, b, a = q[..., 0], q[..., 1], q[..., 2]
    yield c * c
    yield 2 * b * c
    yield b * b + 2 * a * c
    yield 2 * a * b
    yield a * a
