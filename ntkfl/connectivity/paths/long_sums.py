"""Products and running sums in long precision: their rounding bounds do not grow with the number of terms."""

import math

import numpy as np
from jaxtyping import Float

LONG = np.longdouble  # 64 bits of mantissa where the machine has them; every bound reads its precision from the type
LONG_EPS = float(np.finfo(LONG).eps)
BLOCK = 128
TINY = float(np.finfo(float).tiny)


def long_product(x: Float[np.ndarray, "n l"], rows: Float[np.ndarray, "h l"]) -> Float[np.ndarray, "n h"]:
    """x rows^T of float64 matrices in long precision, to within `long_product_error`.

    Each factor is cut into slices of so few bits that the products of the leading slices are exact in float64.
    """
    bits = _bits(x.shape[1])
    (x1, x2, x3), (u1, u2, u3) = _slices(x, bits), _slices(rows, bits)
    small = x2 @ u2.T + x1 @ u3.T + x3 @ u1.T
    return (x1 @ u1.T).astype(LONG) + (x1 @ u2.T) + (x2 @ u1.T) + small


def long_product_error(x: Float[np.ndarray, "n l"], rows: Float[np.ndarray, "h l"]) -> Float[np.ndarray, "n h"]:
    """Bound on the error of `long_product` from the largest entries and from underflow."""
    left, right = np.abs(x).max(axis=1)[:, None], np.abs(rows).max(axis=1)
    terms = (x != 0).astype(float) @ (rows != 0).T.astype(float)  # other terms are exactly 0
    relative = max(16 * LONG_EPS, 5 * 2.0 ** (-3 * _bits(x.shape[1])))  # four products are left out
    return terms * (relative * left * right + 1e-300 * (left + right) + TINY)


def running_sum(terms: np.ndarray) -> np.ndarray:
    """The cumulative sums along the last axis, in long precision, by blocks."""
    terms = np.asarray(terms, LONG)
    length = terms.shape[-1]
    if length <= BLOCK:
        return np.cumsum(terms, axis=-1)
    padding = np.zeros((*terms.shape[:-1], -length % BLOCK), LONG)
    blocks = np.concatenate([terms, padding], axis=-1).reshape(*terms.shape[:-1], -1, BLOCK)
    within = np.cumsum(blocks, axis=-1)
    within[..., 1:, :] += running_sum(within[..., :-1, -1])[..., None]
    return within.reshape(*terms.shape[:-1], -1)[..., :length]


def running_sum_error(length: int) -> float:
    """Bound on the rounding of `running_sum` over this many terms, for terms whose absolute values sum to 1."""
    levels = max(1, math.ceil(math.log(length + 1) / math.log(BLOCK)))
    return (levels * (BLOCK + 1) + 8) * LONG_EPS


def _bits(length: int) -> int:
    """Bits of a slice, so few that sums of this many products of two of them are exact in float64."""
    return (53 - math.ceil(math.log2(length + 1))) // 2


def _slices(matrix: np.ndarray, bits: int) -> list[np.ndarray]:
    """Three matrices that sum to this one up to 2^(-3 bits) of each row's largest entry."""
    _, exponent = np.frexp(np.abs(matrix).max(axis=1, keepdims=True))
    parts, rest = [], matrix
    for slice_number in (1, 2, 3):
        unit = np.ldexp(1.0, np.maximum(exponent - slice_number * bits, -1000))  # underflow is in the error bound
        parts.append(np.rint(rest / unit) * unit)
        rest = rest - parts[-1]
    return parts
