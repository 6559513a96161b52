"""Dual kernels of ReLU: the map of a layer of an infinitely wide network on Gaussian pre-activations u, v.

An angle between pre-activations is kept as (h, g) = (sin^2, cos^2) of its half, since near 0 or pi its cosine would
lose digits. Every number comes with a bound of its error.
"""

from typing import NamedTuple, Protocol

import numpy as np

U = 2.0**-53
RELATIVE = 32 * U  # relative rounding of h and g, beside the stored error


class Rows(NamedTuple):
    """Root variances of the pre-activations of each sample, (n,), and a bound of their relative error."""

    norm: np.ndarray
    error: float


class Pairs(NamedTuple):
    """Squared sine and cosine of half the angles between samples, (n, p), and a number for their error.

    For ReLU the number is the error of the angle. For smooth activations it is an error of h and g, beside their
    relative error RELATIVE.
    """

    h: np.ndarray
    g: np.ndarray
    error: np.ndarray | float


class Dual(NamedTuple):
    """E[phi(u) phi(v)] and E[phi'(u) phi'(v)], each with a bound of its error, and the pairs phi(u), phi(v)."""

    covariance: np.ndarray
    covariance_error: np.ndarray
    slope: np.ndarray
    slope_error: np.ndarray
    pairs: Pairs


def halved(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared sine and cosine of half of `signed_angles`, both with all their digits."""
    near, far = np.sin(angle / 2) ** 2, np.cos(angle / 2) ** 2
    wide = angle < 0
    return np.where(wide, far, near), np.where(wide, near, far)


class Activation(Protocol):
    """phi; `gain`: c of a hidden layer's weights of variance c / fan-in. `homogeneous`: phi(s u) = s phi(u), s > 0."""

    gain: float
    homogeneous: bool

    def start(self, angle: np.ndarray, error: float) -> Pairs:
        """The pairs at these angles (`signed_angles`), each off by at most `error`."""

    def turned(self, pairs: Pairs, share: np.ndarray, angle: float) -> np.ndarray | float:
        """The error of pairs that are off by `share` of their error and by a rounding of `angle`."""

    def rows(self, rows: Rows) -> Rows:
        """The roots of E[phi(u)^2]."""

    def dual(self, pairs: Pairs, left: Rows, right: Rows) -> Dual:
        """The pairs after the layer."""


def biased(rows: Rows, bias: float) -> Rows:
    """Root variances of u + bias times a common Gaussian number."""
    return Rows(np.hypot(rows.norm, bias), rows.error + 4 * U)


def biased_pairs(pairs: Pairs, left: Rows, right: Rows, bias: float, activation: Activation) -> Pairs:
    """The angles after `biased`, by sums of positive terms alone."""
    ends = np.hypot(left.norm, bias), np.hypot(right.norm, bias)
    (s, t), (c, d) = (left.norm / ends[0], right.norm / ends[1]), (bias / ends[0], bias / ends[1])
    both, level = s * t, c * d
    # The sine of the angle that two parallel rows get; the larger end divides the norms, so that nothing overflows.
    apart = (left.norm - right.norm) / np.maximum(*ends) * (bias / np.minimum(*ends))
    h = apart * apart / (2 * (1 + level + both)) + both * pairs.h
    g = ((c * c + s * s * (d * d)) / (1 + both) + level) / 2 + both * pairs.g
    # The rows' relative errors turn an angle by no more than their sum; every step below adds a relative rounding.
    moved = Pairs(h, g, pairs.error)
    return Pairs(h, g, activation.turned(moved, both, left.error + right.error + 40 * U))


class Relu:
    """max(u, 0): E[phi phi] = |u||v| (sin + (pi - t) cos) / (2 pi), E[phi' phi'] = (pi - t) / (2 pi)."""

    gain, homogeneous = 2.0, True

    def start(self, angle: np.ndarray, error: float) -> Pairs:
        """The stored error is that of the angle."""
        return Pairs(*halved(angle), error + 20 * U)

    def turned(self, pairs: Pairs, share: np.ndarray, angle: float) -> np.ndarray | float:
        """A common bias does not widen an angle: the error is not multiplied by more than 1."""
        return pairs.error + angle

    def rows(self, rows: Rows) -> Rows:
        """Half the variance."""
        return Rows(rows.norm * np.sqrt(0.5), rows.error + 2 * U)

    def dual(self, pairs: Pairs, left: Rows, right: Rows) -> Dual:
        """The arc-cosine kernels of degree 0 and 1.

        Source: Cho and Saul 2009, Kernel methods for deep learning.
        """
        h, g, error = pairs
        angle, sine = 2 * np.arctan2(np.sqrt(h), np.sqrt(g)), 2 * np.sqrt(h * g)
        slope = 1 - angle / np.pi
        # F = cos t' has F' <= 0 <= F + F'' = 2 sin / pi, so F^2 + F'^2 falls from 1: t -> t' shrinks distances, and the
        # error of the angle does not grow. All terms of 1 - F are positive. Their rounding, divided by sin t', is at
        # most 50 u of angle, since sin t' is small only where they are small.
        new_h = np.maximum(h * slope + (angle - sine) / (2 * np.pi), 0)
        new = Pairs(new_h, 1 - new_h, error + 60 * U)
        size = left.norm * right.norm / 2
        covariance = size * (new.g - new.h)
        covariance_error = size * (new.error + 8 * U + left.error + right.error)
        return Dual(covariance, covariance_error, slope / 2, np.asarray(error / (2 * np.pi) + 16 * U), new)
