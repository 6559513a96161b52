"""Certified extreme eigenvalues of symmetric matrices."""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from math import isqrt

import numpy as np

from ntkfl import interruption, lapack
from ntkfl.balls import ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate, NotFinite, Rigour
from ntkfl.memory import require
from ntkfl.problem import real_array
from ntkfl.rounding import SMALLEST

ROUNDOFF = 2.0**-53
# if the binary exponent of the largest entry is above 200 or below -200, the matrix is scaled so that squares neither
# vanish nor overflow
FAR = 200
# number of rows up to which ball arithmetic (intervals in long precision) is used; this many take a fifth of a second
BALL_ARITHMETIC_UP_TO = 200
# number of rows above which Lanczos's method is used; below, a dense solver finds one eigenvector as fast
LANCZOS_FROM = 2000
_ENTRIES = 2**17  # entries of a block of rows
# an asymmetry of at most this share of the largest entry is taken for rounding, and added to the error
_ROUNDING = 1e-12


def smallest_eigenvalue(h: np.ndarray | Estimate) -> Estimate:
    """An enclosure of the smallest eigenvalue of a symmetric matrix (n, n).

    For up to 200 rows the enclosure comes from ball arithmetic, that is from intervals in long precision. For more
    rows, the lower end follows from a number s for which a Cholesky factorisation of h - s I runs to completion, and
    from the backward error of this factorisation. The upper end is a Rayleigh quotient with its rounding error. The
    errors of the entries of an Estimate widen the enclosure by Weyl's inequality.

    Args:
        h: a symmetric matrix, shape (n, n), or an Estimate of one.

    Raises:
        ValueError: not a square matrix, an entry that is not finite, not symmetric beyond rounding, or an eigenvalue
            beyond float64.
    Source: S. M. Rump, Verification of positive definiteness, BIT 46 (2006), doi:10.1007/s10543-006-0056-1.

    Example:
        >>> from ntkfl.gram import smallest_eigenvalue
        >>> round(float(smallest_eigenvalue([[2.0, 1.0], [1.0, 2.0]]).value), 6)
        1.0
    """
    exponent = _exponent(h)
    if abs(exponent) > FAR:
        return _scaled_back(smallest_eigenvalue(_scaled(h, -exponent)), exponent)
    middle, radius = _symmetric(h)
    require("the smallest eigenvalue", lambda n: 8 * 1.1 * n * n, n=len(middle))
    inner = _by_ball_arithmetic(middle.tobytes()) if len(middle) <= BALL_ARITHMETIC_UP_TO else _by_cholesky(middle)
    rigour = max(inner.rigour, h.rigour) if isinstance(h, Estimate) else inner.rigour
    return Estimate(inner.value, np.nextafter(inner.error + radius, np.inf), inner.method, rigour)


def largest_eigenvalue(h: np.ndarray | Estimate) -> Estimate:
    """An enclosure of the largest eigenvalue of a symmetric matrix (n, n); see `smallest_eigenvalue`.

    Args:
        h: a symmetric matrix, shape (n, n), or an Estimate of one.

    Example:
        >>> from ntkfl.gram import largest_eigenvalue
        >>> round(float(largest_eigenvalue([[2.0, 1.0], [1.0, 2.0]]).value), 6)
        3.0
    """
    return -smallest_eigenvalue(-h if isinstance(h, Estimate) else -real_array("the matrix", h))


def _exponent(h: np.ndarray | Estimate) -> int:
    """The e for which the largest entry or error is in [2^(e-1), 2^e); 0 where an entry or error is not finite."""
    parts = (h.value, h.error) if isinstance(h, Estimate) else (real_array("the matrix", h),)
    largest = max((float(max(part.max(initial=0.0), -part.min(initial=0.0))) for part in parts), default=0.0)
    return int(np.frexp(largest)[1]) if np.isfinite(largest) else 0


def _scaled(h: np.ndarray | Estimate, exponent: int) -> Estimate:
    """2^exponent h, exact up to underflow; the error of the result includes the underflow."""
    value, error = (h.value, h.error) if isinstance(h, Estimate) else (real_array("the matrix", h), np.zeros(()))
    underflow = SMALLEST if exponent < 0 else 0.0
    with np.errstate(under="ignore"):
        return Estimate(np.ldexp(value, exponent), np.ldexp(error, exponent) + underflow, getattr(h, "method", "exact"))


def _scaled_back(estimate: Estimate, exponent: int) -> Estimate:
    with np.errstate(over="ignore", under="ignore"):
        value, error = np.ldexp(estimate.value, exponent), np.ldexp(estimate.error, exponent) + SMALLEST
    if not np.isfinite(value + error):
        raise NotFinite(f"the eigenvalue is {estimate} times 2^{exponent}, beyond float64; rescale the matrix")
    return Estimate(value, error, estimate.method)


def _symmetric(h: np.ndarray | Estimate) -> tuple[np.ndarray, float]:
    """A symmetric matrix (h itself if it is symmetric), and a bound on the spectral norm of its distance to the exact
    matrix."""
    value, error = (h.value, h.error) if isinstance(h, Estimate) else (real_array("the matrix", h), np.zeros(()))
    exact = not error.any()
    if value.ndim != 2 or value.shape[0] != value.shape[1] or not value.size:
        raise ValueError(f"the matrix has shape {value.shape}; eigenvalues need a square one, (n, n) with n at least 1")
    error, largest = np.broadcast_to(error, value.shape), 0.0
    for rows in _row_blocks(value):
        finite = np.isfinite(value[rows]) & np.isfinite(error[rows])
        if not finite.all():
            i, j = np.argwhere(~finite)[0] + (rows.start, 0)
            raise NotFinite(
                f"entry ({i}, {j}) of the matrix is {value[i, j]} ± {error[i, j]}; every entry must be finite"
            )
        largest = max(largest, np.abs(value[rows]).max())
    middle, radius, skewest, refused = value, 0.0, 0.0, False
    for rows in _row_blocks(value):
        mirrored = value[:, rows].T
        if exact and np.array_equal(value[rows], mirrored):
            continue
        skew, own, other = np.abs(value[rows] - mirrored), error[rows], error[:, rows].T
        off = np.maximum(own, other)
        if skew.any():
            skewest = max(skewest, skew.max())
            refused |= (skew > _ROUNDING * largest + own + other).any()
            middle = value.copy() if middle is value else middle
            middle[rows] = np.where(skew == 0, value[rows], value[rows] / 2 + mirrored / 2)
            off = off + skew / 2 + np.where(skew == 0, 0, 2 * ROUNDOFF * np.abs(middle[rows]))
        radius = max(radius, off.sum(axis=1).max())
    if refused:
        raise ValueError(
            f"the matrix is not symmetric: entries differ from their mirror images by up to {skewest:.3g}, "
            f"the largest entry being {largest:.3g}; make it symmetric, for example by its symmetric part"
        )
    return middle, float(radius) * (1 + (len(middle) + 8) * ROUNDOFF)


def _row_blocks(h: np.ndarray) -> Iterator[slice]:
    """Slices of few rows, so that results on a slice stay in cache."""
    step = max(1, _ENTRIES // len(h))
    return (slice(start, min(start + step, len(h))) for start in range(0, len(h), step))


@lru_cache(maxsize=16)
def _by_ball_arithmetic(entries: bytes) -> Estimate:
    """The smallest eigenvalue, by ball arithmetic, of the matrix with these entries.

    The result is cached, since several statements about a network need this eigenvalue.
    """
    h = np.frombuffer(entries)
    h = h.reshape(isqrt(h.size), -1)
    with precision():
        return enclosure(symmetric_eigenvalues(ball_matrix(h))[0])


def _by_cholesky(h: np.ndarray) -> Estimate:
    n, v = len(h), _lowest_vector(h)
    square, size = v @ v, sum(np.abs(v[rows]) @ (np.abs(h[rows]) @ np.abs(v)) for rows in _row_blocks(h))
    # There are 2n roundings in v'Hv, n in v'v, and a few in the quotient. The factor 1.01 covers the products of their
    # errors and the rounding of `size`.
    quotient = (v @ (h @ v)) / square
    upper = quotient + 1.01 * (3 * n + 10) * ROUNDOFF * size / square
    margin = _backward_error(h, np.diag(h) - quotient)
    while True:
        interruption.check()
        shift = quotient - margin
        diagonal = np.diag(h) - shift
        shifted = h.T.copy(order="F")  # stored by columns as LAPACK needs, so that it is factored in place
        np.fill_diagonal(shifted, diagonal)
        if not lapack.cholesky(shifted) or not np.isfinite(shifted.diagonal()).all():  # some LAPACKs do not stop at NaN
            margin *= 4
            continue
        lower = np.nextafter(shift - _backward_error(h, diagonal), -np.inf)
        return Estimate.between(lower, np.nextafter(upper, np.inf), "Cholesky with its backward error", Rigour.ENCLOSED)


def _lowest_vector(h: np.ndarray) -> np.ndarray:
    """An approximate eigenvector of the smallest eigenvalue.

    An error of this vector makes the enclosure wider, but not wrong.
    """
    if len(h) > LANCZOS_FROM:
        import scipy.linalg  # imported here since it is slow to import, and small matrices do not need it
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

        factor, of = h.T.copy(order="F"), {"k": 1, "v0": np.random.default_rng(0).standard_normal(len(h)), "tol": 1e-6}
        with suppress(ArpackError):
            if not lapack.cholesky(factor):
                return eigsh(h, which="SA", **of)[1][:, 0]
            solve = scipy.linalg.blas.dtrsv
            inverse = LinearOperator(
                h.shape, lambda b: solve(factor, solve(factor, b, lower=True), lower=True, trans=1), dtype=float
            )
            return eigsh(inverse, which="LA", **of)[1][:, 0]
    return lapack.lowest_vector(h.T.copy(order="F"))


def _backward_error(h: np.ndarray, diagonal: np.ndarray) -> float:
    """If Cholesky completes in float64 on h with this diagonal, no eigenvalue is below minus the returned bound.

    This is Demmel's bound, as in Rump's paper: the product of the computed factors differs from h entrywise by at most
    gamma / (1 - gamma) d d^T, with d_i^2 the diagonal and gamma the bound for n + 1 roundings. The bound here counts
    twice as many roundings, for a BLAS that multiplies by reciprocals of the pivots instead of dividing. The rounding
    of the shifted diagonal and underflow are added.
    """
    n = len(h)
    gamma = 2 * (n + 2) * ROUNDOFF / (1 - 2 * (n + 2) * ROUNDOFF)
    largest = np.abs(diagonal).max()
    underflow = 4 * (n + 1) * (2 * (n + 2) + largest) * np.finfo(float).tiny
    return float(1.01 * (gamma / (1 - gamma) * np.abs(diagonal).sum() + ROUNDOFF * largest) + underflow)
