"""Certified extreme eigenvalues of symmetric matrices."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ntkfl.balls import ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate

ROUNDOFF = 2.0**-53
BALLS_UP_TO = 200  # rows; a fifth of a second in balls
LANCZOS_FROM = 2000  # rows; below, one eigenvector of a dense solver is as fast
_ROUNDING = 1e-12  # an asymmetry of this much of the largest entry is taken for rounding, and enters the error


def smallest_eigenvalue(h: np.ndarray | Estimate) -> Estimate:
    """An enclosure of the smallest eigenvalue of a symmetric matrix (n, n).

    Ball arithmetic up to 200 rows. Beyond, the lower end is certified by a Cholesky factorisation of h - s I that runs
    to completion, with its backward error, and the upper end is a Rayleigh quotient with its rounding error. The
    entry errors of an Estimate enter by Weyl's inequality.

    Raises:
        ValueError: not a square matrix, an entry that is not finite, or not symmetric beyond rounding.
    Source: S. M. Rump, Verification of positive definiteness, BIT 46 (2006) 433-452.
    """
    middle, radius = _symmetric(h)
    inner = _by_balls(middle) if len(middle) <= BALLS_UP_TO else _by_cholesky(middle)
    return Estimate(inner.value, np.nextafter(inner.error + radius, np.inf), inner.method)


def largest_eigenvalue(h: np.ndarray | Estimate) -> Estimate:
    """An enclosure of the largest eigenvalue of a symmetric matrix, that of h; see `smallest_eigenvalue`."""
    negative = Estimate(-h.value, h.error, h.method) if isinstance(h, Estimate) else -np.asarray(h, float)
    inner = smallest_eigenvalue(negative)
    return Estimate(-inner.value, inner.error, inner.method)


def _symmetric(h: np.ndarray | Estimate) -> tuple[np.ndarray, float]:
    """A symmetric matrix and a bound on the spectral norm of its difference to the one meant."""
    value, error = (h.value, h.error) if isinstance(h, Estimate) else (np.asarray(h, float), np.zeros(np.shape(h)))
    if value.ndim != 2 or value.shape[0] != value.shape[1] or not value.size:
        raise ValueError(f"the matrix has shape {value.shape}; eigenvalues need a square one, (n, n) with n at least 1")
    bad = np.argwhere(~(np.isfinite(value) & np.isfinite(error)))
    if len(bad):
        i, j = bad[0]
        raise ValueError(f"entry ({i}, {j}) of the matrix is {value[i, j]} ± {error[i, j]}; every entry must be finite")
    skew = np.abs(value - value.T)
    if (skew > _ROUNDING * np.abs(value).max() + error + error.T).any():
        raise ValueError(
            f"the matrix is not symmetric: entries differ from their mirror images by up to {skew.max():.3g}, "
            f"the largest entry being {np.abs(value).max():.3g}; give it symmetric, for example its symmetric part"
        )
    middle = np.where(skew == 0, value, value / 2 + value.T / 2)
    off = np.maximum(error, error.T) + skew / 2 + np.where(skew == 0, 0, 2 * ROUNDOFF * np.abs(middle))
    return middle, float(off.sum(axis=1).max()) * (1 + (len(middle) + 8) * ROUNDOFF)


def _by_balls(h: np.ndarray) -> Estimate:
    with precision():
        return enclosure(symmetric_eigenvalues(ball_matrix(h))[0])


def _by_cholesky(h: np.ndarray) -> Estimate:
    n, v = len(h), _lowest_vector(h)
    square, size = v @ v, np.abs(v) @ (np.abs(h) @ np.abs(v))
    # 2n roundings in v'Hv, n in v'v, a few for the quotient; the factor 1.01 covers their products and `size`.
    quotient = (v @ (h @ v)) / square
    upper = quotient + 1.01 * (3 * n + 10) * ROUNDOFF * size / square
    margin = _backward_error(h, np.diag(h) - quotient)
    if not np.isfinite(quotient - 4**64 * margin):
        raise ValueError(f"the entries reach {np.abs(h).max():.3g}; their products overflow: rescale the matrix")
    while True:
        shift = quotient - margin
        diagonal = np.diag(h) - shift
        shifted = h.T.copy(order="F")  # in LAPACK's order, so that it is factored in place
        np.fill_diagonal(shifted, diagonal)
        factor, failed = scipy.linalg.lapack.dpotrf(shifted, lower=True, clean=False, overwrite_a=True)
        if failed or not np.isfinite(factor.diagonal()).all():  # some LAPACKs run on through NaN
            margin *= 4
            continue
        lower = np.nextafter(shift - _backward_error(h, diagonal), -np.inf)
        return Estimate.between(lower, np.nextafter(upper, np.inf), "Cholesky with its backward error")


def _lowest_vector(h: np.ndarray) -> np.ndarray:
    """About an eigenvector of the smallest eigenvalue: what it is off by widens the enclosure and no more."""
    if len(h) > LANCZOS_FROM:
        factor, failed = scipy.linalg.lapack.dpotrf(h.T.copy(order="F"), lower=True, clean=False, overwrite_a=True)
        if not failed:
            solve = scipy.linalg.blas.dtrsv
            inverse = LinearOperator(
                h.shape, lambda b: solve(factor, solve(factor, b, lower=True), lower=True, trans=1), dtype=float
            )
            start = np.random.default_rng(0).standard_normal(len(h))
            with suppress(ArpackNoConvergence):
                return eigsh(inverse, k=1, which="LA", v0=start, tol=1e-8)[1][:, 0]
    return scipy.linalg.eigh(h, subset_by_index=[0, 0])[1][:, 0]


def _backward_error(h: np.ndarray, diagonal: np.ndarray) -> float:
    """If Cholesky runs to completion in float64 on h with this diagonal, no eigenvalue is below minus this.

    Demmel's bound, as in Rump: the factors are those of a matrix within gamma / (1 - gamma) d d^T entrywise,
    d_i^2 the diagonal, gamma of n + 1 roundings. Twice as many are allowed for here, for a BLAS that multiplies by
    reciprocals of the pivots instead of dividing. The rounding of the shifted diagonal and underflow are added.
    """
    n = len(h)
    gamma = 2 * (n + 2) * ROUNDOFF / (1 - 2 * (n + 2) * ROUNDOFF)
    largest = np.abs(diagonal).max()
    underflow = 4 * (n + 1) * (2 * (n + 2) + largest) * np.finfo(float).tiny
    return float(1.01 * (gamma / (1 - gamma) * np.abs(diagonal).sum() + ROUNDOFF * largest) + underflow)
