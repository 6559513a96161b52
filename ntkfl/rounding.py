"""Error bounds of float64 operations on numbers with error bounds, rounded outward.

Each function takes values and errors, elementwise half-widths, and returns a value and its error. A result beyond
float64 has an infinite error; a result without a value (infinity minus infinity) is a NaN, which `Estimate` refuses.
"""

import numpy as np

UNIT = 2.0**-53  # largest relative rounding error of one operation
LEAST = 5e-324  # the smallest positive number: twice the largest error of an underflowing operation

Pair = tuple[np.ndarray, np.ndarray]


def added(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray) -> Pair:
    """a + b; sums do not underflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = a + b
        return value, _outward(a_error + b_error + UNIT * np.abs(value), 3)


def multiplied(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray) -> Pair:
    """a * b, elementwise; a factor of exactly 0, 1 or -1, such as an entry of a mask, causes no rounding error."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        value = a * b
        error = np.abs(a) * b_error + np.abs(b) * a_error + a_error * b_error + UNIT * np.abs(value)
        error = _outward(error, 7) + 4 * LEAST
    zero = ((a == 0) & (a_error == 0)) | ((b == 0) & (b_error == 0))
    error = np.where((np.abs(b) == 1) & (b_error == 0), a_error, error)
    error = np.where((np.abs(a) == 1) & (a_error == 0), b_error, error)
    return value, np.where(zero & (value == 0), 0.0, error)


def product(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray) -> Pair:
    """The matrix product a @ b; sums may be taken in any order, as a BLAS does.

    `a` is (..., n, k) and `b` (..., k, p), or they are vectors; the errors are bounds, in the same shapes.
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
    """An upper bound, up to a relative rounding error, of `share` times each size; 0 only where the size is 0."""
    return np.where(size == 0, 0.0, size * share + LEAST)


def root(value: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> Pair:
    """The square root of a number known not to be negative: the part of its enclosure below 0 is cut off.

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
    """A lower bound of log lo and an upper bound of log hi; a library's logarithm is within two units in the last
    place.

    Raises:
        ValueError: the upper end is 0 or less.
    """
    if (hi <= 0).any():
        raise ValueError(f"the logarithm of at most {hi.min():g}; it must be of a number that may be positive")
    with np.errstate(divide="ignore"):
        low, high = np.log(np.maximum(lo, 0)), np.log(hi)
        return low - np.where(np.isfinite(low), 8 * UNIT * np.abs(low), 0), high + 8 * UNIT * np.abs(high)


def norm(value: np.ndarray, error: np.ndarray, axis: int | None) -> Pair:
    """The Euclidean norm, scaled by a power of 2, so that no square is lost or too large."""
    terms = value.size if axis is None else value.shape[axis]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        largest = np.max(np.maximum(np.abs(value), error), axis=axis, keepdims=True, initial=0.0)
        _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))
        length, off = (np.sqrt((np.ldexp(part, -exponent) ** 2).sum(axis=axis)) for part in (value, error))
        off = _outward(off + (terms + 4) * UNIT * length, terms + 8) + terms * 1e-160  # small squares underflow
        back = np.squeeze(exponent, axis) if axis is not None else exponent.reshape(())
        length, off = np.ldexp(length, back), np.ldexp(off, back) + LEAST
        length, off = np.where(np.isfinite(length), length, np.inf), np.where(np.isfinite(off), off, np.inf)
    return length, np.where(np.squeeze(largest, axis) == 0 if axis is not None else largest.reshape(()) == 0, 0.0, off)


def _outward(error: np.ndarray, roundings: int) -> np.ndarray:
    """An upper bound of an error that was computed with this many roundings: 0 stays 0, and NaN becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.where(error == 0, error, np.nextafter(error * (1 + 2 * (roundings + 1) * UNIT), np.inf))
    return np.where(np.isnan(error), np.inf, error)
