"""Ball arithmetic (python-flint): rigorous enclosures of scalars, matrices and symmetric spectra.

A ball is a midpoint and a radius, and every operation returns a ball that contains the exact result. Floats are exactly
representable, so a ball made from a float has radius 0.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from math import inf, nextafter

import flint
import numpy as np
from flint import arb, arb_mat

from ntkfl.estimate import Estimate, NotFinite, Rigour

PRECISION = 128  # number of bits, so large that the rounding of an inequality's right side never decides a comparison

_CHANGING = threading.Lock()
_asked: dict[int, list[int]] = {}  # for each thread, the precisions of its open blocks, the innermost block last
_outside: list[int] = []  # flint's precision before the first block; it is kept here while a block is open


@contextmanager
def precision(bits: int = PRECISION) -> Iterator[None]:
    """Run a block with balls of this many bits, or more if another thread needs more.

    flint keeps one precision for the whole process. While several threads are in such blocks, flint has the largest of
    their precisions. When the last block ends, flint gets back the precision that it had before the first block.
    """
    thread = threading.get_ident()
    with _CHANGING:
        if not _asked:
            _outside.append(flint.ctx.prec)
        _asked.setdefault(thread, []).append(bits)
        flint.ctx.prec = _largest()
    try:
        yield
    finally:
        with _CHANGING:
            _asked[thread].pop()
            if not _asked[thread]:
                del _asked[thread]
            flint.ctx.prec = _largest() if _asked else _outside.pop()


def _largest() -> int:
    return max(innermost for *_, innermost in _asked.values())


def ball(value: float, error: float = 0.0) -> arb:
    """The ball with midpoint `value` and radius `error`, which are floats.

    The midpoint is exact, and the radius is rounded up.
    """
    return arb(float(value), float(error)) if error else arb(float(value))


def ball_matrix(value: np.ndarray, error: np.ndarray | float = 0.0) -> arb_mat:
    """The matrix of balls value ± error; a vector becomes a column."""
    value = np.atleast_2d(np.asarray(value, float).T).T
    error = np.broadcast_to(np.atleast_2d(np.asarray(error, float).T).T, value.shape)
    if not error.any():
        return arb_mat([[arb(v) for v in row] for row in value.tolist()])
    rows = zip(value.tolist(), error.tolist(), strict=True)
    return arb_mat([[arb(v, e) for v, e in zip(*row, strict=True)] for row in rows])


def enclosure(x: arb | list[arb] | np.ndarray | arb_mat) -> Estimate:
    """The Estimate that contains a ball, or a list, an array or a matrix of balls; its numbers are rounded outward to
    float64.

    Raises:
        ValueError: a ball that is not finite, because the formula could not be evaluated on its inputs.
    """
    balls = np.array(x.tolist() if isinstance(x, arb_mat) else x, object)
    pairs = np.array([_midpoint_and_radius(b) for b in balls.ravel()]).reshape(*balls.shape, 2)
    return Estimate(pairs[..., 0], pairs[..., 1], "ball", Rigour.ENCLOSED)


def _midpoint_and_radius(x: arb) -> tuple[float, float]:
    if not x.is_finite():
        raise NotFinite(f"a ball is not finite ({x}): a division by zero or a root of a negative number")
    middle = float(x)
    radius = (x - arb(middle)).abs_upper()
    return middle, 0.0 if radius.is_zero() else nextafter(float(radius), inf)


def norm_inf(matrix: arb_mat) -> arb:
    """The largest absolute row sum, which is an upper bound of the spectral norm of a symmetric matrix."""
    return reduce(arb.max, (sum((abs(b) for b in row), arb(0)).upper() for row in matrix.tolist()))


def nonnegative_norm(matrix: arb_mat) -> arb:
    """An upper bound of the spectral norm of a symmetric matrix with entries of at least 0, sharp to about 1e-6.

    By Collatz and Wielandt, max_i (A v)_i / v_i is such a bound for any positive vector v. For a number s slightly
    above the norm, v = (s - A)^-1 1 is positive, and (A v)_i / v_i is s - 1/v_i. This v is positive even if A is
    reducible and its Perron vector has zeros.
    """
    middle = np.array([[float(b) for b in row] for row in matrix.tolist()])
    scale = middle.max()
    if not scale > 0:
        return sum((b for row in matrix.tolist() for b in row), arb(0)).upper()  # no midpoint is positive
    middle = (middle + middle.T) / (2 * scale)
    shift = np.linalg.eigvalsh(middle)[-1] * (1 + 1e-6)
    v = np.linalg.solve(shift * np.eye(len(middle)) - middle, np.ones(len(middle)))
    v = np.maximum(v, 1 / (2 * shift))
    image = matrix * ball_matrix(v)
    ratios = [image[i, 0] / ball(v[i]) for i in range(len(v))]
    return reduce(arb.max, (ratio.upper() for ratio in ratios))


def symmetric_eigenvalues(matrix: arb_mat) -> list[arb]:
    """Rigorous enclosures of all eigenvalues of a symmetric matrix of balls, in ascending order.

    Let Q be the matrix of the eigenvectors that float64 gives, and let Q^T A Q = D + E and Q^T Q = I + F in balls. By
    Weyl's theorem the eigenvalues of Q^T A Q are within D ± |E|. By Ostrowski's theorem each of them is an eigenvalue
    of A times a factor within 1 ± |F|.

    Raises:
        ValueError: an entry that is not finite.
    """
    if not all(b.is_finite() for row in matrix.tolist() for b in row):
        raise ValueError("the matrix has an entry that is not finite: it has no eigenvalues")
    middle = np.array([[float(b) for b in row] for row in matrix.mid().tolist()])
    _, vectors = np.linalg.eigh((middle + middle.T) / 2)
    q = ball_matrix(vectors)
    congruent, gram = q.transpose() * matrix * q, q.transpose() * q
    n = matrix.nrows()
    diagonal = [congruent[i, i] for i in range(n)]
    for i in range(n):
        congruent[i, i], gram[i, i] = arb(0), gram[i, i] - 1
    # all enclosures have one radius, so the order of the enclosures is the order of the midpoints
    widest = reduce(arb.max, (b.rad() for b in diagonal))
    weyl, skew = norm_inf(congruent) + widest, norm_inf(gram)
    if not skew < 1:
        raise ValueError("the float eigenvectors are not independent: the entries are beyond the range of float64")
    spread, factor = arb(0, weyl.upper()), 1 / (1 + arb(0, skew.upper()))
    middles = sorted(b.mid() for b in diagonal)  # midpoints are exact, so `sorted` can compare them
    return [(middle + spread) * factor for middle in middles]
