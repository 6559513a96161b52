"""Rows of numbers with two error bounds: for each entry, and for the Euclidean length of a row's error.

A matrix multiplies the length of an error by its spectral norm. It multiplies a bound for entries by a row's sum of
absolute numbers, which in wide layers is far larger: docs/proofs/smooth_networks.md#the-certificate
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.any_order import rounding
from ntkfl.any_order.rounding import above, gamma
from ntkfl.estimate import Estimate, Rigour
from ntkfl.smooth_networks.layers import Smooth

BLOCK = 256  # most terms of one sum; longer sums are taken in blocks, with smaller rounding errors


@dataclass(frozen=True, eq=False)
class Rows:
    """Vectors of m numbers: an enclosure of every number, and bounds of the lengths of the vectors' errors."""

    entries: Estimate  # (..., m)
    off: Float[np.ndarray, "*batch"]  # at least the Euclidean lengths of the errors

    @classmethod
    def of(cls, entries: Estimate, off: float | Float[np.ndarray, "*batch"] = np.inf) -> Rows:
        """Rows whose length bound, which also bounds each entry, is the smaller of `off` and the entries' own."""
        off = np.fmin(off, np.where(entries.error.any(axis=-1), _length(entries.error), 0.0))
        error = np.fmin(entries.error, off[..., None])
        return cls(Estimate(entries.value, error, entries.method, entries.rigour), off)

    @property
    def value(self) -> Float[np.ndarray, "*batch m"]:
        """The computed numbers."""
        return self.entries.value

    @property
    def lengths(self) -> Float[np.ndarray, "*batch"]:
        """At least the Euclidean lengths of the exact vectors."""
        with np.errstate(over="ignore"):
            return above(_length(self.value) + self.off)

    def reshaped(self, shape: tuple[int, ...]) -> Rows:
        """The same vectors in an array of another shape."""
        entries = reshaped(self.entries, shape)
        return Rows(entries, self.off.reshape(entries.value.shape[:-1]))

    def through(
        self, matrix: Float[np.ndarray, "p m"], scale: float, norm: float, ended: Callable[[Estimate], Estimate]
    ) -> Rows:
        """The products of the vectors with the matrix's rows, after the function `ended`.

        `ended` multiplies the products by the scale and may add exact numbers; `norm` is the norm of scale times the
        matrix.
        """
        rows = _length(matrix)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite errors, and an infinite norm without an error
            sums = block_sums(self.value, matrix)
            terms = min(matrix.shape[1], BLOCK) + -(-matrix.shape[1] // BLOCK)
            rounded = above(gamma(terms) * _length(self.value)[..., None] * rows)
            alone = ended(Estimate(sums, _known(rounded), "rounding bound", max(self.entries.rigour, Rigour.ENCLOSED)))
            some = self.off > 0
            carried = np.where(some[..., None], self.off[..., None] * (scale * rows), 0.0)
            error = _known(above(alone.error + carried))
            off = above(np.where(some, norm * self.off, 0.0) + _length(alone.error))
        return Rows.of(Estimate(alone.value, error, alone.method, alone.rigour), _known(off))

    def activated(self, phi: Smooth) -> Rows:
        """phi of every number."""
        alone = phi.values(Estimate.exact(self.value))
        return Rows.of(phi.values(self.entries), above(phi.slope * self.off + _length(alone.error)))

    def times(self, factors: Estimate, most: float) -> Rows:
        """The products with these factors, entry by entry; the exact factors are at most `most`."""
        alone = Estimate.exact(self.value) * factors
        return Rows.of(self.entries * factors, above(most * self.off + _length(alone.error)))

    def plus(self, other: Rows) -> Rows:
        """The sums of the vectors."""
        entries = self.entries + other.entries
        return Rows.of(entries, above(self.off + other.off + rounding.UNIT * _length(entries.value)))

    def products(self) -> Estimate:
        """The inner products of the vectors of the last axis but one, (..., n, n)."""
        value, size = self.value, _length(self.value)
        with np.errstate(over="ignore", invalid="ignore"):
            inner = value @ np.swapaxes(value, -1, -2)
            mixed = size[..., :, None] * self.off[..., None, :]
            rounded = gamma(value.shape[-1]) * size[..., :, None] * size[..., None, :]
            both = self.off[..., :, None] * self.off[..., None, :]
            error = above(rounded + mixed + np.swapaxes(mixed, -1, -2) + both)
        return Estimate(inner, _known(error), "rounding bound", max(self.entries.rigour, Rigour.ENCLOSED))


def block_sums(a: Float[np.ndarray, "*batch m"], matrix: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "*batch p"]:
    """a @ matrix.T, the sum of products of blocks of columns."""
    flat, terms = a.reshape(-1, a.shape[-1]), a.shape[-1]
    total = flat[:, :BLOCK] @ matrix[:, :BLOCK].T
    for start in range(BLOCK, terms, BLOCK):
        total += flat[:, start : start + BLOCK] @ matrix[:, start : start + BLOCK].T
    return total.reshape(*a.shape[:-1], len(matrix))


def reshaped(h: Estimate, shape: tuple[int, ...]) -> Estimate:
    """The same numbers, in another shape."""
    return Estimate(h.value.reshape(shape), h.error.reshape(shape), h.method, h.rigour)


def _known(error: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(error), np.inf, error)


def _length(vectors: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # an infinite length
        return rounding.length(vectors, -1)
