"""Quadratic forms x' f(A) x of a large symmetric matrix, enclosed by Lanczos's method and Gauss's quadrature."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal

from ntkfl import interruption
from ntkfl.memory import require

EXHAUSTED = 1e-12  # a step below this times |T| means that the space is exhausted


@dataclass(frozen=True)
class Lanczos:
    """A V = V T + last v e' + R from a unit vector, with V's columns orthonormal up to `skew`."""

    diagonal: Float[np.ndarray, " k"]
    beside: Float[np.ndarray, " k-1"]
    last: float
    residual: float  # |R|
    skew: float
    basis: Float[np.ndarray, "n k"]  # V

    @classmethod
    def of(
        cls, product: Callable[[np.ndarray], np.ndarray], starts: Float[np.ndarray, "n C"], steps: int
    ) -> "list[Lanczos]":
        """A run from each start; the runs share products, and a run ends early if its space is exhausted.

        Every vector is made orthogonal to all earlier vectors, twice.
        """
        count, n = starts.shape[1], len(starts)
        steps = min(steps, n)
        require("the Krylov space", lambda n, steps: 8 * n * (count * (2 * steps + 1) + 2 * steps), n=n, steps=steps)
        bases, images = np.zeros((count, n, steps + 1)), np.zeros((count, n, steps))
        bases[:, :, 0] = (starts / np.linalg.norm(starts, axis=0)).T
        tridiagonals, ends = np.zeros((count, steps + 1, steps + 1)), np.full(count, steps)
        for k in range(steps):
            interruption.check()
            images[:, :, k] = product(bases[:, :, k].T).T
            for number in np.flatnonzero(ends == steps):
                basis, t = bases[number], tridiagonals[number]
                t[k, k] = basis[:, k] @ images[number, :, k]
                rest = images[number, :, k].copy()
                for _ in range(2):
                    rest -= basis[:, : k + 1] @ (basis[:, : k + 1].T @ rest)
                length = float(np.linalg.norm(rest))
                if length <= EXHAUSTED * np.abs(t).max() or k + 1 == n:
                    ends[number] = k + 1
                else:
                    t[k, k + 1] = t[k + 1, k] = length
                    basis[:, k + 1] = rest / length
        runs = []
        for basis, image, t, end in zip(bases, images, tridiagonals, ends.tolist(), strict=True):
            last = float(t[end, end - 1])
            kept = end + (last > 0)
            residual = image[:, :end] - basis[:, :kept] @ t[:kept, :end]
            skew = float(np.linalg.norm(basis[:, :kept].T @ basis[:, :kept] - np.eye(kept)))
            beside = np.diagonal(t, 1)[: end - 1]
            runs.append(cls(np.diagonal(t)[:end], beside, last, float(np.linalg.norm(residual)), skew, basis[:, :end]))
        return runs

    @property
    def pairs(self) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k k"]]:
        """The eigenvalues of T, ascending, and its eigenvectors as columns."""
        return eigh_tridiagonal(self.diagonal, self.beside)

    def rules(self, low: float, high: float) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Nodes and weights of Gauss's rule, and of Lobatto's, which has low and high as nodes.

        All eigenvalues of T lie between low and high. If the even derivatives of the function are at least 0, the
        integral is at least Gauss's value and at most Lobatto's.

        Source: docs/proofs/linear_methods.md#what-is-left-by-quadrature.
        """
        gauss = _rule(self.diagonal, self.beside)
        if self.last == 0:
            return gauss, gauss
        at_low, at_high = (_last_of_inverse(self.diagonal - end, self.beside) for end in (low, high))
        squared = (high - low) / (at_low - at_high)
        corner = low + squared * at_low
        return gauss, _rule(np.append(self.diagonal, corner), np.append(self.beside, np.sqrt(squared)))


def _rule(diagonal: np.ndarray, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nodes, vectors = eigh_tridiagonal(diagonal, beside)
    return nodes, vectors[0] ** 2


def _last_of_inverse(diagonal: np.ndarray, beside: np.ndarray) -> float:
    """The last entry of the last column of the inverse of a definite tridiagonal matrix."""
    pivot = diagonal[0]
    for entry, off in zip(diagonal[1:], beside, strict=True):
        pivot = entry - off**2 / pivot
    return float(1 / pivot)
