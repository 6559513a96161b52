"""Error bounds of float64 operations, rounded outward, and products without error (Dekker 1971).

The functions that return a `Pair` take enclosures of numbers. An enclosure is given in one of two ways: by a value and
its error (an elementwise half-width), or by its ends, to which the value may be added. These functions return a value
and its error; `logarithms` returns the two ends. A result beyond float64 has an infinite error. A result without a
value (infinity minus infinity) is a NaN, which `Estimate` refuses.

Some functions compute the rounding errors of products exactly, so that the sign of a dot product is exact. Others
compute products and running sums in long precision. The rounding bound of a running sum, relative to the sum of the
absolute values of the terms, grows only with the logarithm of the number of terms.
"""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float

UNIT = 2.0**-53  # largest relative rounding error of one operation
LEAST = 5e-324  # the smallest positive number, which is twice the largest error of an underflowing operation
UNDERFLOWS = 2.0**-960  # the rounding error of a product below this number may underflow

Pair = tuple[np.ndarray, np.ndarray]


def added(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray) -> Pair:
    """The sum a + b; sums do not underflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = a + b
        return value, _outward(a_error + b_error + UNIT * np.abs(value), 3)


def multiplied(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray) -> Pair:
    """The product a * b, elementwise.

    A factor of exactly 0, 1 or -1, such as an entry of a mask, causes no rounding error.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = a * b
        error = np.abs(a) * b_error + np.abs(b) * a_error + a_error * b_error + UNIT * np.abs(value)
        error = _outward(error, 7) + 4 * LEAST
    zero = ((a == 0) & (a_error == 0)) | ((b == 0) & (b_error == 0))
    error = np.where((np.abs(b) == 1) & (b_error == 0), a_error, error)
    error = np.where((np.abs(a) == 1) & (a_error == 0), b_error, error)
    return value, np.where(zero & (value == 0), 0.0, error)


def product(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray) -> Pair:
    """The matrix product a @ b, whose sums may be taken in any order, as a BLAS does.

    `a` is (..., n, k) and `b` is (..., k, p), or both are vectors. The errors are bounds, in the same shapes.
    """
    terms = a.shape[-1]
    share = 1.01 * (terms + 2) * UNIT
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value, size = a @ b, np.abs(b)
        if b_error.any():
            error = np.abs(a) @ (b_error + _scaled(size, share))
            if a_error.any():
                error = error + a_error @ (size + b_error)
        else:
            error = (a_error + _scaled(np.abs(a), share)) @ size
        error = _outward(error, 2 * terms + 8) + 8 * (terms + 1) * LEAST
        if (value == 0).any():
            some = ((a != 0) | (a_error != 0)).astype(float) @ ((b != 0) | (b_error != 0)).astype(float)
            error = np.where((some == 0) & (value == 0), 0.0, error)
    return value, np.where(np.isinf(value), np.inf, error)


def _scaled(size: np.ndarray, share: float) -> np.ndarray:
    """An upper bound, up to a relative rounding error, of `share` times each size; 0 only if the size is 0."""
    return np.where(size == 0, 0.0, size * share + LEAST)


def root(value: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> Pair:
    """The square root of a number that is known not to be negative; the part of its enclosure below 0 is cut off.

    Raises:
        ValueError: the whole enclosure is negative.
    """
    if (hi < 0).any():
        raise ValueError(f"a square root of at most {hi.min():g}; it must be of a number that may be 0 or more")
    middle = np.sqrt(np.maximum(value, 0))
    with np.errstate(invalid="ignore", over="ignore"):
        above = np.nextafter(np.sqrt(hi), np.inf) - middle
        below = middle - np.nextafter(np.sqrt(np.maximum(lo, 0)), -np.inf)
        return middle, np.where(hi == 0, 0.0, _outward(np.maximum(above, below), 2))


def logarithms(lo: np.ndarray, hi: np.ndarray) -> Pair:
    """A lower bound of log lo and an upper bound of log hi.

    The bounds assume that the library's logarithm is within two units in the last place.

    Raises:
        ValueError: the upper end is 0 or less.
    """
    if (hi <= 0).any():
        raise ValueError(f"the logarithm of at most {hi.min():g}; it must be of a number that may be positive")
    with np.errstate(divide="ignore"):
        low, high = np.log(np.maximum(lo, 0)), np.log(hi)
        return low - np.where(np.isfinite(low), 8 * UNIT * np.abs(low), 0), high + 8 * UNIT * np.abs(high)


def norm(value: np.ndarray, error: np.ndarray, axis: int | None) -> Pair:
    """The Euclidean norm, computed from entries scaled by a power of 2, so that no square is lost or too large."""
    terms = value.size if axis is None else value.shape[axis]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        largest = np.max(np.maximum(np.abs(value), error), axis=axis, keepdims=True, initial=0.0)
        _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))
        length, off = (np.sqrt((np.ldexp(part, -exponent) ** 2).sum(axis=axis)) for part in (value, error))
        # squares of small entries underflow
        off = _outward(off + (terms + 4) * UNIT * length, terms + 8) + terms * 1e-160
        back = np.squeeze(exponent, axis) if axis is not None else exponent.reshape(())
        length, off = np.ldexp(length, back), np.ldexp(off, back) + LEAST
        length, off = np.where(np.isfinite(length), length, np.inf), np.where(np.isfinite(off), off, np.inf)
    return length, np.where(np.squeeze(largest, axis) == 0 if axis is not None else largest.reshape(()) == 0, 0.0, off)


def _outward(error: np.ndarray, roundings: int) -> np.ndarray:
    """An upper bound of an error that was computed with this many roundings; 0 stays 0, and NaN becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.where(error == 0, error, np.nextafter(error * (1 + 2 * (roundings + 1) * UNIT), np.inf))
    return np.where(np.isnan(error), np.inf, error)


SMALLEST = 2.0**-1074  # the least positive float64; a result below 2^-1022 errs by at most half of this number
_BLOCK = 2**14  # number of products that are scaled back at a time


def scaled_rows(x: np.ndarray) -> np.ndarray:
    """The rows, scaled by powers of two so that their largest entries are in [1/2, 1).

    No product of scaled rows overflows. The scaling is exact, unless an entry is smaller than the largest entry of its
    row by a factor of 2^1022 or more.
    """
    return np.ldexp(x, -np.frexp(np.abs(x).max(axis=-1, keepdims=True))[1])


def row_norms(x: np.ndarray) -> np.ndarray:
    """Euclidean norms of the rows, (n, d) -> (n,); the squares of the entries may lie far beyond the range of
    float64.
    """
    exponents = row_exponents(x)
    return np.ldexp(np.linalg.norm(np.ldexp(x, -exponents[:, None]), axis=1), exponents)


def row_exponents(x: np.ndarray) -> np.ndarray:
    """For each row, the e for which its largest entry is in [2^(e-1), 2^e), (n,); 0 for a row of zeros."""
    return np.frexp(np.abs(x).max(axis=-1))[1]


def products_scaled_back(out: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Turn products of scaled rows into products of the rows themselves: out[i, j] 2^(left_i + right_j), in place.

    `out` is (n, p). `left`, (n,), and `right`, (p,), are integers.

    Raises:
        ValueError: a product is beyond the largest float64.
    """
    step = max(1, _BLOCK // max(1, len(right)))
    for start in range(0, len(left), step):
        entries, exponents = out[start : start + step], left[start : start + step, None] + right
        with np.errstate(over="ignore", under="ignore"):
            np.ldexp(entries, exponents, out=entries)
        finite = np.isfinite(entries)
        if not finite.all():
            i, j = np.argwhere(~finite)[0]
            raise ValueError(
                f"rows with entries up to 2^{left[start + i]} and 2^{right[j]} have a product beyond float64; "
                "rescale them"
            )
    return out


def halves(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each value, two numbers of 26 bits that sum to it (Veltkamp); products of such halves are exact.

    The values must be below 2^996.
    """
    shifted = (2.0**27 + 1) * value
    high = shifted - (shifted - value)
    return high, value - high


def product_error(
    product: np.ndarray, a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """The exact error a b - product, where `product` is a b in float64, and a and b are given by their halves.

    The result is exact unless a product underflows.
    """
    return ((a[0] * b[0] - product) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]


def dot_product(a: np.ndarray, b: np.ndarray) -> float:
    """The product a . b of two vectors times a positive power of two, rounded once.

    So the sign of the result is exact, and a result of 0 means that a . b = 0.
    """
    if not (a.any() and b.any()):
        return 0.0
    left, right = scaled_rows(a), scaled_rows(b)
    product = left * right
    # If the scaling rounds an entry, the entry's product is below this number. The sum is then taken over the entries
    # before scaling, in fractions.
    if (np.abs(product[(a != 0) & (b != 0)]) < UNDERFLOWS).any():
        terms = zip(map(Fraction, a.tolist()), map(Fraction, b.tolist()), strict=True)
        total = sum((x * y for x, y in terms), Fraction())
        return float(total * Fraction(2) ** (total.denominator.bit_length() - total.numerator.bit_length()))
    return math.fsum([*product.tolist(), *product_error(product, halves(left), halves(right)).tolist()])


# a type with 64 bits of mantissa on machines that have it; every bound reads its precision from the type
LONG = np.longdouble
LONG_EPS = float(np.finfo(LONG).eps)
BLOCK = 128
TINY = float(np.finfo(float).tiny)


def long_product(x: Float[np.ndarray, "n l"], rows: Float[np.ndarray, "h l"]) -> Float[np.ndarray, "n h"]:
    """x rows^T of float64 matrices in long precision, with an error of at most `long_product_error`.

    Each factor is cut into slices of so few bits that the products of the leading slices are exact in float64.
    """
    bits = _bits(x.shape[1])
    (x1, x2, x3), (u1, u2, u3) = _slices(x, bits), _slices(rows, bits)
    small = x2 @ u2.T + x1 @ u3.T + x3 @ u1.T
    return (x1 @ u1.T).astype(LONG) + (x1 @ u2.T) + (x2 @ u1.T) + small


def long_product_error(x: Float[np.ndarray, "n l"], rows: Float[np.ndarray, "h l"]) -> Float[np.ndarray, "n h"]:
    """A bound of the error of `long_product`, from the largest entries and from underflow."""
    left, right = np.abs(x).max(axis=1)[:, None], np.abs(rows).max(axis=1)
    terms = (x != 0).astype(float) @ (rows != 0).T.astype(float)  # a term with a factor 0 is exactly 0
    relative = max(16 * LONG_EPS, 5 * 2.0 ** (-3 * _bits(x.shape[1])))  # four of the products of slices are left out
    return terms * (relative * left * right + 1e-300 * (left + right) + TINY)


def running_sum(terms: np.ndarray) -> np.ndarray:
    """The cumulative sums along the last axis, in long precision, computed in blocks."""
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
    """A bound of the rounding error of `running_sum` over this many terms, if the absolute values of the terms sum to
    1.
    """
    levels = max(1, math.ceil(math.log(length + 1) / math.log(BLOCK)))
    return (levels * (BLOCK + 1) + 8) * LONG_EPS


def _bits(length: int) -> int:
    """The number of bits of a slice.

    The number is so small that sums of `length` products of two slices are exact in float64.
    """
    return (53 - math.ceil(math.log2(length + 1))) // 2


def _slices(matrix: np.ndarray, bits: int) -> list[np.ndarray]:
    """Three matrices that sum to this matrix, up to 2^(-3 bits) of each row's largest entry."""
    _, exponent = np.frexp(np.abs(matrix).max(axis=1, keepdims=True))
    parts, rest = [], matrix
    for slice_number in (1, 2, 3):
        # underflow is included in the error bound
        unit = np.ldexp(1.0, np.maximum(exponent - slice_number * bits, -1000))
        parts.append(np.rint(rest / unit) * unit)
        rest = rest - parts[-1]
    return parts
