"""The infinite-width Gram matrix of many rows, tile by tile: one compiled pass a tile, whose triangle is mirrored."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from ntkfl.gram.threads import worker_threads

TILE = 264  # rows and columns: with its dot products a megabyte, which stays in a core's cache; 33 of its lines a row
DEGREE = 12  # of Q in asin(s) = s + s^3 Q(8 s^2 - 1), s <= 1/2: the sum errs by less than 2^-52 of asin(s)
Repair = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fill(out: np.ndarray, left: np.ndarray, right: np.ndarray, alone: bool, steep: float, repair: Repair) -> None:
    """out[i, j] = x_i.z_j (pi - angle) / (2 pi), in place; the diagonal is left to the caller where z is x.

    The squares of the rows' norms must neither overflow nor vanish. With `alone` both sides are one set of rows, and
    one triangle is computed and mirrored. Where |cosine| is above `steep`, arccos loses digits, and `repair(i, j)`
    gives the entries.
    """
    one_pass, scales = entries(), [1 / np.sqrt(np.einsum("ij,ij->i", rows, rows)) for rows in (left, right)]
    tiles = iter([(i, j) for i in _parts(left) for j in _parts(right) if j.start >= i.start or not alone])

    def work() -> None:
        room = np.empty((2, TILE * TILE)), np.empty((TILE * TILE, 2), np.int64)
        for rows, columns in tiles:  # whichever is next, of those that no thread has taken
            tile(rows, columns, *room)

    def tile(rows: slice, columns: slice, numbers: np.ndarray, far: np.ndarray) -> None:
        shape = rows.stop - rows.start, columns.stop - columns.start
        dot, value = (some[: shape[0] * shape[1]].reshape(shape) for some in numbers)
        mirrored = alone and rows == columns
        np.matmul(left[rows], right[columns].T, out=dot)
        count = one_pass(dot, scales[0][rows], scales[1][columns], steep, mirrored, value, far)
        if count:
            p, q = far[:count].T
            value[p, q] = repaired = repair(p + rows.start, q + columns.start)
            if mirrored:
                value[q, p] = repaired
        out[rows, columns] = value
        if alone and not mirrored:
            out[columns, rows] = value.T

    with worker_threads() as threads, ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result()


def _parts(rows: np.ndarray) -> Iterator[slice]:
    return (slice(start, min(start + TILE, len(rows))) for start in range(0, len(rows), TILE))


@cache
def entries() -> Callable[..., int]:
    """Compile (about a second, once a process) the pass over a tile; it releases the interpreter.

    entries()(dot, left, right, steep, mirrored, value, far): from dot products and reciprocal norms the entries into
    `value`; the places with |cosine| > steep into `far`; returns how many there are. If `mirrored`, what is below the
    diagonal is what is above, and `far` has the places above alone.
    """
    from numba import njit

    coefficients, top = _coefficients(), DEGREE
    quarter, half, turn = np.pi / 2, np.pi, 1 / (2 * np.pi)
    table, row = "float64[:,::1]", "float64[::1]"

    # A product and a sum may be one instruction; no other liberty is taken.
    @njit(f"int64({table}, {row}, {row}, float64, boolean, {table}, int64[:,::1])", nogil=True, fastmath={"contract"})
    def one_pass(dot, left, right, steep, mirrored, value, far):
        count = 0
        for i in range(len(dot)):
            hit = 0
            for j in range(len(right)):  # without a branch, so that the compiler vectorises it
                cosine = dot[i, j] * (left[i] * right[j])
                size = abs(cosine)
                hit += size > steep
                low = size <= 0.5  # asin of the cosine itself; beyond, of the sine of half the angle
                square = size * size if low else abs(0.5 - 0.5 * size)  # rounding may take the size beyond 1
                t, q = 8.0 * square - 1.0, coefficients[top]
                for k in range(top):
                    q = q * t + coefficients[top - 1 - k]
                s = size if low else np.sqrt(square)
                arc = s + s * square * q
                ahead = quarter + arc if low else half - 2.0 * arc  # pi - angle, where the cosine is positive
                behind = quarter - arc if low else 2.0 * arc
                value[i, j] = dot[i, j] * ((ahead if cosine >= 0.0 else behind) * turn)
            if hit:
                for j in range(i + 1 if mirrored else 0, len(right)):
                    if abs(dot[i, j] * (left[i] * right[j])) > steep:
                        far[count, 0], far[count, 1] = i, j
                        count += 1
            if mirrored:
                for j in range(i):
                    value[i, j] = value[j, i]
        return count

    return one_pass


def _coefficients() -> np.ndarray:
    """Q in powers of t in [-1, 1]: the Taylor series of asin as a Chebyshev series, cut off."""
    term, taylor = 1.0, []
    for k in range(1, 60):  # that of s^(2k+1) is (2k)! / (4^k k!^2 (2k+1)); .25^60 is 1e-36
        term *= (2 * k - 1) / (2 * k)
        taylor.append(term / (2 * k + 1))
    polynomial = np.polynomial.Polynomial(taylor)
    series = np.polynomial.Chebyshev.interpolate(lambda t: polynomial((t + 1) / 8), DEGREE)
    return series.convert(kind=np.polynomial.Polynomial).coef
