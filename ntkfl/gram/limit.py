"""The infinite-width Gram matrix H_inf, accurate also at angles near 0 and pi, where arccos loses half the digits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl.compiled_once import machine_code
from ntkfl.estimate import Estimate, Rigour
from ntkfl.gram.mirror import mirrored
from ntkfl.gram.threads import worker_threads
from ntkfl.memory import require
from ntkfl.problem import checked_inputs, checked_rows
from ntkfl.rounding import (
    SMALLEST,
    halves,
    product_error,
    products_scaled_back,
    row_exponents,
    row_norms,
    scaled_rows,
)

ROUNDOFF = 2.0**-53
STEEP = 0.9  # above this |cosine| the slope of arccos multiplies the rounding error of a dot product by more than 2.3
COARSE = 1 - 2.0**-17  # the |cosine| used in place of STEEP for entries that are stored in float32
COARSER = 28  # COARSE in place of STEEP multiplies the error bound of `infinite_estimate` by less than this
_BLOCK = 2**17  # number of entries of a block of angles; temporary arrays of this size stay in cache
# from this number of entries on, compiling the pass over tiles, which takes a second and a half, saves time
TILED = 2**23
FAR = 200  # range of the binary exponents of the rows for which no square of a norm overflows or vanishes
_GATHER = 2**15  # number of values gathered at a time to recompute inaccurate entries of a block; they stay in cache
# number of rows and of columns of a tile; a tile and its dot products, a megabyte together, stay in cache; a row of a
# tile takes 33 cache lines
TILE = 264
# degree of the polynomial Q in asin(s) = s + s^3 Q(8 s^2 - 1), s <= 1/2; the error is less than 2^-52 of asin(s)
DEGREE = 12
Repair = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fill(out: np.ndarray, left: np.ndarray, right: np.ndarray, alone: bool, steep: float, repair: Repair) -> None:
    """Write out[i, j] = x_i.z_j (pi - angle_ij) / (2 pi) in place; if z is x, the caller must write the diagonal.

    The squares of the rows' norms must neither overflow nor vanish. With `alone`, z is x, and only one triangle is
    computed and then mirrored. Where |cosine| is above `steep`, arccos would lose digits, and `repair(i, j)` computes
    the entries.
    """
    one_pass, scales = entries(), [1 / np.sqrt(np.einsum("ij,ij->i", rows, rows)) for rows in (left, right)]
    tiles = iter([(i, j) for i in _parts(left) for j in _parts(right) if j.start >= i.start or not alone])

    def work() -> None:
        room = np.empty((2, TILE * TILE)), np.empty((TILE * TILE, 2), np.int64)
        for rows, columns in tiles:  # the tiles that no thread has taken yet
            tile(rows, columns, *room)

    def tile(rows: slice, columns: slice, numbers: np.ndarray, far: np.ndarray) -> None:
        shape = rows.stop - rows.start, columns.stop - columns.start
        dot, value = (some[: shape[0] * shape[1]].reshape(shape) for some in numbers)
        diagonal = alone and rows == columns
        np.matmul(left[rows], right[columns].T, out=dot)
        count = one_pass(dot, scales[0][rows], scales[1][columns], steep, diagonal, value, far)
        if count:
            p, q = far[:count].T
            value[p, q] = repaired = repair(p + rows.start, q + columns.start)
            if diagonal:
                value[q, p] = repaired
        out[rows, columns] = value
        if alone and not diagonal:
            out[columns, rows] = value.T

    with worker_threads() as threads:
        if threads == 1:
            work()
            return
        with ThreadPoolExecutor(threads) as pool:
            try:
                for done in [pool.submit(work) for _ in range(threads)]:
                    done.result()
            finally:
                deque(tiles, maxlen=0)  # so that after an interrupt or an error the threads find no tile left


def _parts(rows: np.ndarray) -> Iterator[slice]:
    return (slice(start, min(start + TILE, len(rows))) for start in range(0, len(rows), TILE))


@cache
def entries() -> Callable[..., int]:
    """The compiled function that computes a tile; it releases the interpreter's lock.

    The function is compiled in about a second, or read from machine code kept on disk.

    entries()(dot, left, right, steep, diagonal, value, far): computes the entries from dot products and reciprocal
    norms into `value`; writes the indices with |cosine| > steep into `far`; returns their number. With `diagonal` the
    entries above the diagonal are copied below it, and `far` has only indices above it.
    """
    coefficients, top = _coefficients(), DEGREE
    quarter, half, turn = np.pi / 2, np.pi, 1 / (2 * np.pi)
    table, row = "float64[:,::1]", "float64[::1]"

    # The compiler may fuse a product and a sum into one instruction; it may change nothing else of the arithmetic.
    @machine_code(f"int64({table}, {row}, {row}, float64, boolean, {table}, int64[:,::1])", fastmath={"contract"})
    def one_pass(dot, left, right, steep, diagonal, value, far):
        count = 0
        for i in range(len(dot)):
            hit = 0
            for j in range(len(right)):  # no branch, so that the compiler vectorises the loop
                cosine = dot[i, j] * (left[i] * right[j])
                size = abs(cosine)
                hit += size > steep
                low = size <= 0.5  # asin of the cosine, or of the sine of half the angle where the cosine is above .5
                square = size * size if low else abs(0.5 - 0.5 * size)  # because of rounding the size may exceed 1
                t, q = 8.0 * square - 1.0, coefficients[top]
                for k in range(top):
                    q = q * t + coefficients[top - 1 - k]
                s = size if low else np.sqrt(square)
                arc = s + s * square * q
                ahead = quarter + arc if low else half - 2.0 * arc  # pi - angle, where the cosine is positive
                behind = quarter - arc if low else 2.0 * arc
                value[i, j] = dot[i, j] * ((ahead if cosine >= 0.0 else behind) * turn)
            if hit:
                for j in range(i + 1 if diagonal else 0, len(right)):
                    if abs(dot[i, j] * (left[i] * right[j])) > steep:
                        far[count, 0], far[count, 1] = i, j
                        count += 1
            if diagonal:
                for j in range(i):
                    value[i, j] = value[j, i]
        return count

    return one_pass


def _coefficients() -> np.ndarray:
    """The coefficients of Q in powers of t in [-1, 1], from the Taylor series of asin rewritten as a truncated
    Chebyshev series.
    """
    term, taylor = 1.0, []
    # The coefficient of s^(2k+1) in asin is (2k)! / (4^k k!^2 (2k+1)). 60 terms suffice, since .25^60 is 1e-36.
    for k in range(1, 60):
        term *= (2 * k - 1) / (2 * k)
        taylor.append(term / (2 * k + 1))
    polynomial = np.polynomial.Polynomial(taylor)
    series = np.polynomial.Chebyshev.interpolate(lambda t: polynomial((t + 1) / 8), DEGREE)
    return series.convert(kind=np.polynomial.Polynomial).coef


def infinite(
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "p d"] | None = None,
    out: Float[np.ndarray, "n p"] | None = None,
) -> Float[np.ndarray, "n p"]:
    """First-layer NTK of f(x) = a . relu(U x) / sqrt(m) at infinite width: x_i.z_j (pi - angle_ij) / (2 pi).

    Rows may have any nonzero norm; the kernel is homogeneous in each of them, and entries below 2^-1022 are rounded to
    multiples of 2^-1074. When z is None, the result is exactly symmetric with the diagonal |x_i|^2 / 2. The computation
    takes the memory of the result and of blocks of 2^17 entries.

    Args:
        x: samples, shape (n, d).
        z: other samples, shape (p, d); default: `x`.
        out: the array to fill and return, such as an `np.memmap` for results larger than memory; default a new array.

    Raises:
        ValueError: an entry that is not finite, a zero row, x and z of different numbers of features, an `out` of
            another shape or type, or rows whose products are beyond float64.
    Source: FL-NTK, Definition of H^infinity; fl-ntk/H-inf.

    Example:
        >>> from ntkfl.gram import infinite
        >>> infinite([[1.0, 0.0], [0.0, 1.0]])
        array([[0.5, 0. ],
               [0. , 0.5]])
    """
    x, z, alone = pair_of_inputs(x, z)
    if out is None:
        require("the Gram matrix", matrix_bytes(1, x, z), n=len(x))
        out = np.empty((len(x), len(z)))
    elif out.shape != (len(x), len(z)) or out.dtype != np.float64:
        raise ValueError(f"out is {out.dtype} of shape {out.shape}; it must be float64 of shape {(len(x), len(z))}")
    if _far(x) or _far(z):
        infinite(scaled_rows(x), None if alone else scaled_rows(z), out)
        return products_scaled_back(out, row_exponents(x), row_exponents(z))
    if len(x) * len(z) < TILED:
        return _kernel(x, z, alone, lambda dot, _, to_pi: dot * (to_pi / (2 * np.pi)), out)
    fill_infinite(out, x, z, alone)
    return out


def compiles(x: Float[np.ndarray, "n d"]) -> bool:
    """Whether `fill_infinite` is used for these rows: there are many rows, and no exponent is extreme."""
    return len(x) ** 2 >= TILED and not _far(x)


def _far(x: np.ndarray) -> bool:
    return bool(np.abs(row_exponents(x)).max() > FAR)


def fill_infinite(
    out: Float[np.ndarray, "n p"],
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "p d"],
    alone: bool,
    steep: float = STEEP,
) -> None:
    """Write the result of `infinite` into any array of floats, with compiled code, for checked rows that `compiles`
    allows.
    """
    exponents = [row_exponents(rows) for rows in (x, z)]

    def repair(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        values, step = np.empty(len(i)), max(1, _GATHER // x.shape[1])
        for pairs in (slice(s, s + step) for s in range(0, len(i), step)):
            p, q = i[pairs], j[pairs]
            sine, dot = _sine_and_dot(_Rows.of(x[p]), scaled_rows(z[q]))
            values[pairs] = np.ldexp(dot * (np.arctan2(sine, -dot) / (2 * np.pi)), exponents[0][p] + exponents[1][q])
        return values

    fill(out, x, z, alone, steep, repair)
    if alone:
        np.fill_diagonal(out, np.einsum("ij,ij->i", x, x) / 2)


def angles(x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "p d"] | None = None) -> Float[np.ndarray, "n p"]:
    """Angles between rows, in radians from 0 to pi.

    The relative error is below 1e-14 for up to a thousand features, at any angle down to 1e-16, for rows of any norm.

    Args:
        x: samples, shape (n, d).
        z: other samples, shape (p, d); default: `x`.

    Raises:
        ValueError: as `infinite`.

    Example:
        >>> from ntkfl.gram import angles
        >>> angles([[1.0, 0.0]], [[0.0, 2.0]]).round(4)
        array([[1.5708]])
    """
    x, z, alone = pair_of_inputs(x, z)
    require("the angles between all rows", matrix_bytes(1.4, x, z), n=len(x))
    x, z = scaled_rows(x), scaled_rows(z)  # so that the dot products do not overflow
    return _kernel(x, z, alone, lambda _, angle, __: angle, np.empty((len(x), len(z))))


def signed_angles(x: np.ndarray, z: np.ndarray | None) -> Float[np.ndarray, "n p"]:
    """The angle if it is at most pi/2, otherwise the angle minus pi. The difference is accurate also near pi."""

    def entry(_: np.ndarray, angle: np.ndarray, to_pi: np.ndarray) -> np.ndarray:
        # an angle of pi gives the negative float nearest to 0, since 0 itself means an angle of 0
        return np.where(angle <= to_pi, angle, -np.maximum(to_pi, SMALLEST))

    return _kernel(x, x if z is None else z, z is None, entry, np.empty((len(x), len(x if z is None else z))))


def infinite_estimate(x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "p d"] | None = None) -> Estimate:
    """As `infinite`, with a bound on the rounding error of each entry: (3 d + 24) 2^-53 |x_i| |z_j| + 2^-1074.

    Args:
        x: samples, shape (n, d).
        z: other samples, shape (p, d); default: `x`.

    Raises:
        ValueError: as `infinite`.
    """
    # Let u = 2^-53, and let entries be in units of |x||z|. The dot product is off by at most d u / (1 - d u) in any
    # order of summation (Higham, Accuracy and Stability, Sec. 3.1), and each norm by (d/2 + 2) u. Hence the cosine is
    # off by (2d + 7) u (three u more in tiles, which multiply by reciprocal norms). Where |cos| <= .9, arccos
    # multiplies this error by at most 2.3 and adds 4 ulp (8 u). Elsewhere atan2 of the sine and the dot product has the
    # error sin cos (relative error of the sine: (2d + 12) u) + sin (d u) <= (1.4 d + 6) u. In both cases the angle is
    # off by at most (4.6 d + 25) u. Then |dH| <= |dot error| / 2 + |angle error| / (2 pi) + 4 roundings <= (1.24 d + 8)
    # u, less than half of what is claimed. Rows with extreme exponents are scaled before, and the entries are scaled
    # back, so underflow causes one rounding of the value and one of the bound, by at most half of 2^-1074 each. With
    # COARSE in place of .9 the slope of arccos is at most 258, the angle is off by at most (516 d + 2588) u, and the
    # entry by at most (83 d + 417) u, which is less than COARSER times what is claimed here.
    x, z, alone = pair_of_inputs(x, z)
    require("the Gram matrix with its error", matrix_bytes(5.2, x, z), n=len(x))
    value = infinite(x, None if alone else z)
    bound = (3 * x.shape[1] + 24) * ROUNDOFF * np.outer(row_norms(scaled_rows(x)), row_norms(scaled_rows(z)))
    error = products_scaled_back(bound, row_exponents(x), row_exponents(z)) + SMALLEST
    return Estimate(value, error, "rounding bound", Rigour.ENCLOSED)


def matrix_bytes(count: float, x: np.ndarray, z: np.ndarray) -> Callable[[int], float]:
    """Bytes of `count` matrices with a row for each of n samples x and a column for each z; n columns if z is x."""
    return lambda n: 8 * count * n * (n if x is z else len(z))


class _Rows(NamedTuple):
    """Rows scaled by powers of two, with their squared norms and with their entries split into high and low bits.

    The largest entry of each row is in [1/2, 1).
    """

    value: np.ndarray
    square: np.ndarray
    high: np.ndarray
    low: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> _Rows:
        value = scaled_rows(x)
        return cls(value, np.einsum("ij,ij->i", value, value), *halves(value))


def pair_of_inputs(x, z, *, zeros: bool = False) -> tuple[np.ndarray, np.ndarray, bool]:
    """The checked x; the checked z, or x if z is None; and whether z is None.

    Raises:
        ValueError: as `infinite`.
    """
    checked = checked_rows if zeros else checked_inputs
    x = checked("x", x)
    if z is None:
        return x, x, True
    z = checked("z", z)
    if x.shape[1] != z.shape[1]:
        raise ValueError(f"z has {z.shape[1]} features, x has {x.shape[1]}: they must agree")
    return x, z, False


def _kernel(x: np.ndarray, z: np.ndarray, alone: bool, entry, out: np.ndarray) -> np.ndarray:
    """The values entry(dot, angle, pi - angle) for all pairs, computed block by block; only one triangle is computed if
    z is x.
    """
    left = _Rows.of(x)
    right = left if alone else _Rows.of(z)
    step = max(1, _BLOCK // len(z))
    for start in range(0, len(x), step):
        rows, columns = slice(start, start + step), slice(start if alone else 0, None)
        a, b = _Rows(*(f[rows] for f in left)), _Rows(*(f[columns] for f in right))
        dot = x[rows] @ z[columns].T
        angle, to_pi = _angles(a, b, alone)
        if alone:
            np.fill_diagonal(dot, np.einsum("ij,ij->i", x[rows], x[rows]))
            np.fill_diagonal(angle, 0.0)
            np.fill_diagonal(to_pi, np.pi)
        block = entry(dot, angle, to_pi)
        out[rows, columns] = block
        if alone:
            k = len(block)
            mirrored(out[rows, rows])
            out[start + k :, rows] = block[:, k:].T
    return out


def _angles(a: _Rows, b: _Rows, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """The angle and its distance to pi, both with a small relative error; with `upper` only entries above the diagonal
    are meaningful.
    """
    cosine = a.value @ b.value.T / np.sqrt(a.square[:, None] * b.square)
    steep = np.abs(cosine) > STEEP
    if upper:
        steep = np.triu(steep, 1)
    angle = np.arccos(np.clip(cosine, -1, 1))
    to_pi = np.pi - angle
    i, j = np.nonzero(steep)
    step = max(1, _GATHER // a.value.shape[1])
    for pairs in (slice(s, s + step) for s in range(0, len(i), step)):
        p, q = i[pairs], j[pairs]
        sine, dot = _sine_and_dot(_Rows(*(f[p] for f in a)), b.value[q])
        angle[p, q], to_pi[p, q] = np.arctan2(sine, dot), np.arctan2(sine, -dot)
    return angle, to_pi


def _sine_and_dot(x: _Rows, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|x||y| sin and |x||y| cos of the angles between matching rows that are nearly parallel or antipodal.

    The difference y - c x takes the exact rounding error of c x into account (Dekker's product), so that the
    cancellation loses no digits. A second projection removes the component along x that remains because c is rounded.
    """
    dot = np.einsum("ij,ij->i", x.value, y)
    c = (dot / x.square)[:, None]
    product = c * x.value
    across = (y - product) - product_error(product, halves(c), (x.high, x.low))
    across -= x.value * (np.einsum("ij,ij->i", x.value, across) / x.square)[:, None]
    return np.sqrt(np.einsum("ij,ij->i", across, across) * x.square), dot
