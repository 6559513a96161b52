"""Error-free transformations of float64 products (Dekker 1971): no rounding error is lost, so signs can be exact."""

from __future__ import annotations

import math

import numpy as np


def scaled_rows(x: np.ndarray) -> np.ndarray:
    """Rows times powers of two, their largest entries in [1/2, 1): exact, and no product of theirs overflows."""
    return np.ldexp(x, -np.frexp(np.abs(x).max(axis=-1, keepdims=True))[1])


def halves(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of 26 bits that sum to each value, below 2^996 (Veltkamp); products of such halves are exact."""
    shifted = (2.0**27 + 1) * value
    high = shifted - (shifted - value)
    return high, value - high


def product_error(
    product: np.ndarray, a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """a b - product exactly, where product is a b in float64 and a, b are given by their halves (barring underflow)."""
    return ((a[0] * b[0] - product) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]


def dot_product(a: np.ndarray, b: np.ndarray) -> float:
    """A positive power of two times a . b of two vectors, rounded once: the sign is exact, and 0 only if a . b is."""
    if not (a.any() and b.any()):
        return 0.0
    a, b = scaled_rows(a), scaled_rows(b)
    product = a * b
    return math.fsum([*product.tolist(), *product_error(product, halves(a), halves(b)).tolist()])
