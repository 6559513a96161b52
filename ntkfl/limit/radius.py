"""Lower and upper bounds of the spectral radius of a matrix, rounding included, by squaring the matrix again and again.

For k = 1, 2, 4, ..., rho(M)^k is at most |M^k| and at least |tr M^k| / n. Such bounds are needed because computed
eigenvalues are useless where eigenvectors nearly depend on each other. For example, rounding of size e moves the
eigenvalue of a Jordan chain of length 14 by the 14th root of e.

Source: docs/proofs/random_rounds.md#both-sides-of-a-radius.
"""

import warnings
from contextlib import suppress

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, solve_discrete_lyapunov

from ntkfl import interruption

EPSILON = np.finfo(float).eps  # twice `UNIT`, the rounding error of one operation
SQUARINGS = 60
WRITTEN_OUT = 4  # for up to this many rows a Lyapunov equation is solved as a general linear system
ROUNDED = 16  # the number of rounded terms in a sum is this times the number of rows


def radius_bounds(
    matrix: Float[np.ndarray, "*k n n"], error: Float[np.ndarray, "*k"] | None = None
) -> tuple[Float[np.ndarray, "*k"], Float[np.ndarray, "*k"]]:
    """For each matrix, a lower and an upper bound of the spectral radius of every matrix near it.

    A matrix is near if it differs by at most `error` in the Frobenius norm. The default error is the rounding of sums
    with as many terms as a row has. Let B have norm 1 and error e, and let the computed square of B have norm s. The
    square divided by s then has the error (2 e + e^2 + n eps) / s.
    """
    n = matrix.shape[-1]
    size = np.linalg.norm(matrix, axis=(-2, -1))
    if error is None:
        error = n * EPSILON * size
    scale = np.where(size > 0, size, 1.0)
    power, off, log = matrix / scale[..., None, None], error / scale, np.log(scale)
    low, high = np.zeros_like(scale), np.full_like(scale, np.inf)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for squared in range(SQUARINGS):
            interruption.check()
            trace = np.abs(np.trace(power, axis1=-2, axis2=-1)) - n**0.5 * off
            size = np.linalg.norm(power, axis=(-2, -1)) + off
            slack = 8 * EPSILON * (1 + np.abs(log))  # rounding of the logarithms; each squaring halves its effect
            low = np.fmax(low, np.exp(log + np.log(np.maximum(trace, 0) / n) / 2**squared - slack))
            high = np.fmin(high, np.exp(log + np.log(size) / 2**squared + slack))
            if not (off < 1).any():
                break
            power, off = power @ power, 2 * off + off**2 + 2 * n * EPSILON
            size = np.linalg.norm(power, axis=(-2, -1))
            scale = np.where(size > 0, size, 1.0)
            power, off, log = power / scale[..., None, None], off / scale, log + np.log(scale) / 2 ** (squared + 1)
    return low, high


def side_of_one(
    matrix: Float[np.ndarray, "*k n n"], error: Float[np.ndarray, "*k"] | float = 0.0
) -> Float[np.ndarray, "*k"]:
    """-1 if every matrix near the given one has a spectral radius below 1, 1 if none has, and 0 if neither is known.

    A matrix is near if it differs by at most `error` in the Frobenius norm. `radius_bounds` may decide. Otherwise let X
    solve the equation X - M X M^T = D with a positive definite D. If X is positive definite, the radius is below 1. If
    X is not, the radius is at least 1, since otherwise X would be the sum of M^k D M^kT.
    """
    n, unit = matrix.shape[-1], np.eye(matrix.shape[-1])
    solved = np.full(matrix.shape, np.nan)
    # the warnings say that X is inexact; the checks below decide whether X proves anything
    with suppress(LinAlgError, ValueError), np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        if n <= WRITTEN_OUT:
            pairs = np.einsum("...ab,...cd->...acbd", matrix, matrix).reshape(*matrix.shape[:-2], n**2, n**2)
            right = np.broadcast_to(unit.reshape(-1, 1), (*matrix.shape[:-2], n**2, 1))
            # one exactly singular matrix would spoil the whole batch
            solved = np.linalg.solve((1 + 4 * EPSILON) * np.eye(n**2) - pairs, right).reshape(matrix.shape)
        else:
            solved = solve_discrete_lyapunov(matrix, unit)
    solved = (solved + np.swapaxes(solved, -1, -2)) / 2
    size, length = np.linalg.norm(solved, axis=(-2, -1)), np.linalg.norm(matrix, axis=(-2, -1))
    known = np.isfinite(size)
    solved = np.where(known[..., None, None], solved, unit)
    left = solved - matrix @ solved @ np.swapaxes(matrix, -1, -2)
    off = (ROUNDED * n * EPSILON * (1 + length) ** 2 + (2 * length + error) * error) * size
    known &= np.linalg.eigvalsh((left + np.swapaxes(left, -1, -2)) / 2)[..., 0] > off
    least = np.linalg.eigvalsh(solved)[..., 0]
    side = np.where(known & (np.abs(least) > ROUNDED * n * EPSILON * size), -np.sign(least), 0.0)
    low, high = radius_bounds(matrix, n * EPSILON * length + error)
    return np.where(low > 1, 1.0, np.where(high < 1, -1.0, side))
