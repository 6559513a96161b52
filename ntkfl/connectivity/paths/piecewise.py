"""Piecewise polynomials on [0, 1], with their exact supremum and integral."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.polynomial import polyroots, polyval

from ntkfl.rounding import LONG, running_sum, running_sum_error


@dataclass(frozen=True, eq=False)
class Supremum:
    """The largest value, and the point where it is taken. At a jump of the function the value may be a limit."""

    value: float
    at: float


@dataclass(frozen=True, eq=False)
class PiecewisePolynomial:
    """A function on [0, 1] that is a polynomial in alpha on each piece."""

    edges: np.ndarray  # (P + 1,), ascending
    coefficients: np.ndarray  # (P, degree + 1), constant term first
    error: float = 0.0  # a bound of the errors that rounding in the summation of the pieces causes in the values

    def at(self, alpha: np.ndarray | float) -> np.ndarray:
        """The values at points of [0, 1]. At an edge the value of the piece to the right is taken."""
        points = np.asarray(alpha, LONG)
        piece = np.clip(np.searchsorted(self.edges, points, side="right") - 1, 0, len(self.coefficients) - 1)
        return np.asarray(_horner(self.coefficients[piece], points), float)

    def integral(self) -> float:
        """The integral over [0, 1], by a Gauss rule of three points on each piece. The rule is exact up to degree 5."""
        middle, half = (self.edges[1:] + self.edges[:-1]) / 2, np.diff(self.edges) / 2
        offset = np.sqrt(LONG(3) / 5) * half
        ends = _horner(self.coefficients, middle - offset) + _horner(self.coefficients, middle + offset)
        return float((half * (5 * ends + 8 * _horner(self.coefficients, middle)) / 9).sum())

    def minus_line(self, at_zero: float, at_one: float) -> PiecewisePolynomial:
        """The function less the straight line that has these values at 0 and 1."""
        coefficients = np.zeros((len(self.coefficients), max(2, self.coefficients.shape[1])), LONG)
        coefficients[:, : self.coefficients.shape[1]] = self.coefficients
        coefficients[:, 0] -= at_zero
        coefficients[:, 1] -= LONG(at_one) - LONG(at_zero)
        return PiecewisePolynomial(self.edges, coefficients, self.error)

    def supremum(self) -> Supremum:
        """The supremum over [0, 1].

        Candidates are the ends of all pieces, and the stationary points of those pieces that could reach higher.
        """
        left, right = self.edges[:-1], self.edges[1:]
        side, piece = np.unravel_index(np.argmax(self._at_ends), self._at_ends.shape)
        best, where = self._at_ends[side, piece], self.edges[piece + side]
        for p in np.flatnonzero(self._reach > best):
            for point in _stationary(self.coefficients[p], left[p], right[p]):
                value = _horner(self.coefficients[p], point)
                if value > best:
                    best, where = value, point
        return Supremum(float(best), float(where))

    def upper_bound(self) -> float:
        """An upper bound of all values that needs no search."""
        return float(self._reach.max())

    @cached_property
    def _at_ends(self) -> np.ndarray:
        """The values at the two ends of each piece, (2, P)."""
        return np.stack([_horner(self.coefficients, self.edges[:-1]), _horner(self.coefficients, self.edges[1:])])

    @cached_property
    def _reach(self) -> np.ndarray:
        """An upper bound of each piece: the larger of the values at its ends plus a bound of |p''| (width)^2 / 8."""
        powers = np.arange(self.coefficients.shape[1])
        curvature = np.abs(self.coefficients) @ (powers * (powers - 1)).astype(LONG)
        return self._at_ends.max(axis=0) + curvature * np.diff(self.edges) ** 2 / 8


def summed(start: np.ndarray, where: np.ndarray, change: np.ndarray) -> PiecewisePolynomial:
    """The function whose coefficients are `start` (degree + 1,) at 0 and change by change[e] (degree + 1,) at where[e].

    `where` may have any order; the constant term of `start` and of each row of `change` comes first.
    """
    order = np.argsort(where, kind="stable")
    edges = np.concatenate([[0.0], where[order], [1.0]]).astype(LONG)
    terms = np.concatenate([start[None], change[order]]).astype(LONG).T
    error = running_sum_error(terms.shape[1]) * float(np.abs(terms).sum())
    return PiecewisePolynomial(edges, running_sum(terms).T, error)


def _horner(coefficients: np.ndarray, points: np.ndarray) -> np.ndarray:
    return polyval(points, np.moveaxis(coefficients, -1, 0), tensor=False)


def _stationary(coefficients: np.ndarray, low: float, high: float) -> np.ndarray:
    """The zeros of the derivative in (low, high), after one Newton step in long precision."""
    middle, half = (low + high) / 2, (high - low) / 2
    local = np.asarray(coefficients, LONG).copy()
    for first in range(len(local) - 1):  # Taylor coefficients in t = (alpha - middle) / half
        for power in range(len(local) - 2, first - 1, -1):
            local[power] += middle * local[power + 1]
    local *= half ** np.arange(len(local))
    slope = local[1:] * np.arange(1, len(local))
    roots: np.ndarray = np.empty(0)
    if slope.any():
        seen = np.abs(slope) > 2.0**-70 * np.abs(slope).max()  # smaller coefficients are within rounding
        scaled = np.asarray(np.where(seen, slope, 0) / np.abs(slope).max(), float)
        roots = polyroots(np.trim_zeros(scaled, "b"))
    points = np.real(roots).astype(LONG)
    bend = slope[1:] * np.arange(1, len(slope))
    if bend.any():
        rate = _horner(bend, points)
        points = points - _horner(slope, points) / np.where(rate == 0, np.inf, rate)
    # a point outside of the piece is moved to an end, which is a candidate anyway
    return middle + half * np.clip(points, -1, 1)
