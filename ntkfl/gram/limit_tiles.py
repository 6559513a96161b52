"""The infinite-width Gram matrix of many rows, tile by tile: one compiled pass a tile, whose triangle is mirrored."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ntkfl.gram.threads import worker_threads

TILE = 512  # rows and columns: four megabytes with all that is held of one
DEGREE = 12  # of Q in asin(s) = s + s^3 Q(8 s^2 - 1), s <= 1/2: the sum errs by less than 2^-52 of asin(s)
Repair = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fill(out: np.ndarray, left: np.ndarray, right: np.ndarray, alone: bool, steep: float, repair: Repair) -> None:
    """out[i, j] = x_i.z_j (pi - angle) / (2 pi), in place; the diagonal is left to the caller where z is x.

    Args:
        left, right: rows x_i and z_j, whose norms neither overflow nor vanish when they are squared. alone: right is
            left; one triangle is computed and mirrored.
        steep: where |cosine| is above this, arccos loses digits and the entries are those of `repair(i, j)`.
    """
    a, b = _padded(left), _padded(right)

    def tile(place: tuple[int, int]) -> None:
        i, j = (TILE * k for k in place)
        rows, columns = slice(i, i + TILE), slice(j, j + TILE)
        value, far = (np.asarray(part) for part in _tile(a[rows], b[columns], steep))
        target = out[rows, columns]
        value, far = value[: target.shape[0], : target.shape[1]], far[: target.shape[0], : target.shape[1]]
        target[...] = value
        if alone and i == j:
            far = np.triu(far, 1)
        if far.any():
            p, q = np.nonzero(far)
            target[p, q] = repair(p + i, q + j)
        if alone:
            out[columns, rows] = np.triu(target) + np.triu(target, 1).T if i == j else target.T

    rows, columns = len(a) // TILE, len(b) // TILE
    places = [(i, j) for i in range(rows) for j in range(i if alone else 0, columns)]
    with ThreadPoolExecutor(worker_threads()) as pool:
        for _ in pool.map(tile, places):
            pass


def _padded(rows: np.ndarray) -> np.ndarray:
    """Whole tiles of rows; those added are zero."""
    return np.concatenate([rows, np.zeros((-len(rows) % TILE, rows.shape[1]))])


@partial(jax.jit, static_argnames="steep")
def _tile(a: jax.Array, b: jax.Array, steep: float) -> tuple[jax.Array, jax.Array]:
    """The entries of one tile, and where |cosine| is above `steep`."""
    dot, norms = a @ b.T, [jnp.sqrt((rows * rows).sum(axis=1)) for rows in (a, b)]
    left, right = (1 / jnp.where(norm > 0, norm, 1.0) for norm in norms)
    cosine = dot * left[:, None] * right
    size = jnp.abs(cosine)
    low = size <= 0.5  # asin of the cosine itself; beyond, of the sine of half the angle
    square = jnp.where(low, size * size, jnp.maximum(0.5 - 0.5 * size, 0.0))
    t, q = 8 * square - 1, jnp.zeros_like(square)
    for coefficient in _coefficients()[::-1]:
        q = q * t + coefficient
    s = jnp.where(low, size, jnp.sqrt(square))
    arc = s + s * square * q
    ahead = jnp.where(low, np.pi / 2 + arc, np.pi - 2 * arc)  # pi - angle, where the cosine is positive
    behind = jnp.where(low, np.pi / 2 - arc, 2 * arc)
    return dot * (jnp.where(cosine >= 0, ahead, behind) / (2 * np.pi)), size > steep


def _coefficients() -> list[float]:
    """Q in powers of t in [-1, 1]: the Taylor series of asin as a Chebyshev series, cut off."""
    term, taylor = 1.0, []
    for k in range(1, 60):  # that of s^(2k+1) is (2k)! / (4^k k!^2 (2k+1)); .25^60 is 1e-36
        term *= (2 * k - 1) / (2 * k)
        taylor.append(term / (2 * k + 1))
    polynomial = np.polynomial.Polynomial(taylor)
    series = np.polynomial.Chebyshev.interpolate(lambda t: polynomial((t + 1) / 8), DEGREE)
    return series.convert(kind=np.polynomial.Polynomial).coef.tolist()
