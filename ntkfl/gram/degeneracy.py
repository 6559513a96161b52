"""Which data make the smallest eigenvalue of H_inf zero, decided from the geometry and not from an eigenvalue."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl.gram.limit import angles

Pairs = tuple[tuple[int, int], ...]
_SAME = 1e-15  # radians; rows parallel but for the rounding of their entries are closer than this


class Degeneracy(NamedTuple):
    """Pairs (i, j), i < j, that make H_inf singular: parallel rows, and a linearly dependent family of antipodal pairs.

    One antipodal pair, or several whose directions are linearly independent, is no degeneracy and is not listed.
    """

    parallel: Pairs
    antipodal: Pairs


class ParallelRows(ValueError):
    """Rows i and j of x are parallel: the message says so, and `pair` is (i, j)."""

    def __init__(self, pair: tuple[int, int], message: str) -> None:
        super().__init__(message)
        self.pair = pair


def degenerate_pairs(x: Float[np.ndarray, "n d"]) -> Degeneracy:
    """What makes lambda_min(H_inf) zero; both fields are empty exactly when H_inf is positive definite.

    For unit rows 4 H_inf = s + (2/pi) s arcsin(s), s = x_i.x_j: all positive even powers and the first. Even powers
    separate rows that are neither parallel nor antipodal; only the first power separates x from -x, and it does so
    for all pairs of a family at once exactly when their directions are linearly independent.

    Raises:
        ValueError: an entry that is not finite, or a zero row.
    Source: FL-NTK, assumption lambda > 0; the antipodal case is fl-ntk/X.7.
    """
    between = angles(x)
    parallel = _pairs(np.triu(between <= _SAME, 1))
    antipodal = np.triu(between >= np.pi - _SAME, 1)
    # Rows parallel to one another would repeat a direction; they are reported already.
    antipodal[[j for _, j in parallel]] = antipodal[:, [j for _, j in parallel]] = False
    return Degeneracy(parallel, _dependent(np.asarray(x, float), _pairs(antipodal)))


def require_positive(x: Float[np.ndarray, "n d"]) -> None:
    """Raise unless H_inf is positive definite on these rows; the message names the rows to blame.

    Raises:
        ValueError: parallel rows or linearly dependent antipodal pairs, and as `degenerate_pairs`.
    """
    parallel, antipodal = degenerate_pairs(x)
    if parallel:
        i, j = parallel[0]
        more = f" ({len(parallel)} such pairs in all)" if len(parallel) > 1 else ""
        said = f"rows {i} and {j} of x are parallel{more}: lambda_min(H_inf) is 0; remove one of them"
        raise ParallelRows((i, j), said)
    if antipodal:
        names = ", ".join(f"({i}, {j})" for i, j in antipodal)
        raise ValueError(
            f"the antipodal pairs {names} of rows of x have linearly dependent directions: lambda_min(H_inf) is 0; "
            "remove one row of one of these pairs"
        )


def _pairs(mask: np.ndarray) -> Pairs:
    return tuple((int(i), int(j)) for i, j in np.argwhere(mask))


def _dependent(x: np.ndarray, pairs: Pairs) -> Pairs:
    """The shortest initial part of the pairs whose directions are dependent, less those that take no part in it."""
    if not pairs:
        return ()
    directions = x[[i for i, _ in pairs]]
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for k in range(1, len(pairs) + 1):
        left, values, _ = np.linalg.svd(directions[:k])
        if k > x.shape[1] or values[-1] <= 8 * k * np.finfo(float).eps:
            return tuple(pair for pair, c in zip(pairs[:k], left[:, -1], strict=True) if abs(c) > 1e-8)
    return ()
