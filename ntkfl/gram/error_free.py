"""Error-free transformations of float64 products (Dekker 1971): no rounding error is lost, so signs can be exact."""

import math

import numpy as np

SMALLEST = 2.0**-1074  # the least positive float64: a result below 2^-1022 errs by at most half of this number
_BLOCK = 2**14  # products that are scaled back at a time


def scaled_rows(x: np.ndarray) -> np.ndarray:
    """Rows scaled by powers of two so that their largest entries are in [1/2, 1): exact, and no product overflows."""
    return np.ldexp(x, -np.frexp(np.abs(x).max(axis=-1, keepdims=True))[1])


def row_norms(x: np.ndarray) -> np.ndarray:
    """Euclidean norms of the rows, whose squares may lie far beyond the range of float64; (n, d) -> (n,)."""
    exponents = row_exponents(x)
    return np.ldexp(np.linalg.norm(np.ldexp(x, -exponents[:, None]), axis=1), exponents)


def row_exponents(x: np.ndarray) -> np.ndarray:
    """The e for which the largest entry of a row is in [2^(e-1), 2^e), (n,); 0 for a row of zeros."""
    return np.frexp(np.abs(x).max(axis=-1))[1]


def products_scaled_back(out: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """out[i, j] 2^(left_i + right_j), in place: turn products of scaled rows into products of the rows themselves.

    `out` is (n, p); `left`, (n,), and `right`, (p,), are integers.

    Raises:
        ValueError: a number beyond the largest float64.
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
    """a . b of two vectors times a positive power of two, rounded once: the sign is exact, and 0 means a . b = 0."""
    if not (a.any() and b.any()):
        return 0.0
    a, b = scaled_rows(a), scaled_rows(b)
    product = a * b
    return math.fsum([*product.tolist(), *product_error(product, halves(a), halves(b)).tolist()])
