"""Kernels phi(x) . phi(z): products, blocks and norms come from the features phi, without the Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ntkfl import interruption
from ntkfl.double_precision import in_float64, jax_in_float64
from ntkfl.gram.limit import infinite
from ntkfl.gram.tiles import SLAB, UNIT, Expansion, HeldGram, Kernel
from ntkfl.memory import require
from ntkfl.problem import finite_array

NULL = 1e-12  # eigenvalues of the landmarks' matrix below this share of the largest are rounding


@dataclass(frozen=True, eq=False)
class Features:
    """The kernel phi(x) . phi(z). With `kernel_regime(..., matrix_free=True)` rounds need 8 n m bytes.

    Args:
        of: phi, samples (p, d) -> (p, m).
        count: m.
    """

    of: Callable[[np.ndarray], np.ndarray]
    count: int

    def __call__(self, x: Float[np.ndarray, "p d"], z: Float[np.ndarray, "q d"] | None = None) -> np.ndarray:
        """The kernel of all pairs, (p, q); with z None the pairs of x with itself."""
        left = self.features(x)
        return left @ (left if z is None else self.features(z)).T

    def features(self, x: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "p m"]:
        """phi of samples.

        Args:
            x: samples, shape (p, d).

        Raises:
            ValueError: features of another shape, or that are not finite.
        """
        with jax_in_float64():
            values = finite_array("of(x)", self.of(x))
        if values.shape != (len(x), self.count):
            raise ValueError(f"of gives features of shape {values.shape}; they must be {(len(x), self.count)}")
        return values


def kernel_of(given: Kernel | None) -> Kernel:
    """The given kernel, converted to float64, or the infinite-width kernel where none is given."""
    if given is not None and not callable(given):
        raise ValueError(f"gram is {type(given).__name__}; tiles take a kernel, a function (x, z) -> (p, n)")
    return infinite if given is None else given if isinstance(given, Features) else in_float64(given)


def nystroem(x: Float[np.ndarray, "n d"], landmarks: int, kernel: Kernel = infinite, seed: int = 0) -> Features:
    """Nystroem's kernel k(x, L) k(L, L)^+ k(L, z), of low rank, in place of k; the landmarks L are some of the samples.

    Args:
        x: samples, shape (n, d).
        landmarks: the number of landmarks, drawn without replacement.
        kernel: k, (x, z) -> (p, q). Default: `ntkfl.gram.infinite`.
        seed: the seed of the draw; default 0.

    Raises:
        ValueError: landmarks outside 1 to n; a kernel that is 0, complex or not finite on the landmarks.

    Source: arXiv:1303.1849.
    """
    x, kernel = finite_array("x", x), in_float64(kernel)
    if not 1 <= landmarks <= len(x):
        raise ValueError(f"landmarks is {landmarks}; it must be from 1 to the number of samples, {len(x)}")
    require("the landmarks' matrix", lambda landmarks: 8 * 3 * landmarks**2, landmarks=landmarks)
    chosen = x[np.sort(np.random.default_rng(seed).choice(len(x), landmarks, replace=False))]
    values, vectors = np.linalg.eigh(finite_array("kernel", kernel(chosen, None)))
    kept = values > NULL * values[-1]
    if not kept.any():
        raise ValueError(f"the kernel's largest eigenvalue on the landmarks is {values[-1]:.3g}; it must be positive")
    root = vectors[:, kept] / np.sqrt(values[kept])
    return Features(lambda z: kernel(z, chosen) @ root, root.shape[1])


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureGram(HeldGram):
    """H = F F' of features F."""

    kernel: Features
    held: Float[np.ndarray, "n m"]  # F

    @classmethod
    def by(cls, kernel: Features, x: Float[np.ndarray, "n d"]) -> FeatureGram:
        """Compute the features of all samples, few samples at a time."""
        require("the features of all samples", lambda n: features_bytes(n, kernel.count), n=len(x))
        held = np.empty((len(x), kernel.count))
        for start in range(0, len(x), SLAB):
            interruption.check()
            held[start : start + SLAB] = kernel.features(x[start : start + SLAB])
        return cls(kernel=kernel, held=held, rounding=0.0, of_kernel=np.zeros(len(x)))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the stored features."""
        return self.held.dtype

    @cached_property
    def norm(self) -> float:
        """|H|_F = |F' F|_F, rounded upward."""
        thin = self.held if self.held.shape[0] > self.held.shape[1] else self.held.T
        return float(np.linalg.norm(thin.T @ thin)) + self.product_rounding

    @property
    def work(self) -> float:
        """The operations of a product with a vector."""
        return 4.0 * self.held.size

    @property
    def largest_own(self) -> float:
        """The largest entry of the diagonal."""
        return float(self._own.max())

    @property
    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(self._own.sum())

    @property
    def product_rounding(self) -> float:
        """A bound of |fl(F (F' v)) - H v|_F over |v|_F, of fl(F' F) and of a block's entries: sums of n and m terms."""
        return 1.01 * (sum(self.held.shape) + 8) * UNIT * self.trace

    @cached_property
    def _own(self) -> Float[np.ndarray, " n"]:
        return np.einsum("ij,ij->i", self.held, self.held)

    def block_error(self, owned: np.ndarray, block: Float[np.ndarray, "p p"]) -> float:
        """A bound of the error of a block's entries in Frobenius' norm: they are sums of m terms."""
        return 1.01 * (self.held.shape[1] + 8) * UNIT * float(self._own[owned].sum())

    def __matmul__(self, v: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        return self.held @ (self.held.T @ v)

    def __getitem__(self, at: np.ndarray | tuple[np.ndarray, ...]) -> Float[np.ndarray, "p q"]:
        rows, columns = (np.ravel(part) for part in (at if isinstance(at, tuple) else (at, np.arange(len(self)))))
        left = self.held[rows]
        return left @ (left if np.array_equal(rows, columns) else self.held[columns]).T

    def cross(self, kernel: Kernel, x: Float[np.ndarray, "p d"], samples: np.ndarray) -> Float[np.ndarray, "p n"]:
        """The kernel between new points and the samples; the samples' features are not computed again."""
        return self.kernel.features(x) @ self.held.T

    def expansion(self, cross: Callable[[np.ndarray], np.ndarray], c: Float[np.ndarray, "T n C"]) -> Expansion:
        """The sums h(x) c at new points x, as phi(x) times F' c."""
        return Expansion(self.kernel.features, self.held.T @ c, sum(self.held.shape))


def features_bytes(n: int, count: int) -> float:
    """Bytes of the features of n samples, and of one slab's features while they are computed."""
    return 8.0 * count * (n + 2 * min(n, SLAB))
