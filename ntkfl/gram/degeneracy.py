"""Data that make the smallest eigenvalue of H_inf zero, recognised by their geometry, not by an eigenvalue."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ntkfl.gram.limit import angles
from ntkfl.problem import checked_inputs, checked_rows
from ntkfl.rounding import row_norms, scaled_rows

Pairs = tuple[tuple[int, int], ...]
Groups = tuple[tuple[int, ...], ...]
_SAME = 1e-15  # radians; rows that are parallel up to the rounding of their entries are closer than this
_SAME_NORM = 8 * np.finfo(float).eps  # relative difference of the norms of equal rows
_NAMED = 100  # the largest number of sets of rows in a message


class Degeneracy(NamedTuple):
    """Pairs (i, j), i < j, that make H_inf singular.

    They are pairs of parallel rows, and antipodal pairs of rows whose directions are linearly dependent.

    Antipodal pairs whose directions are linearly independent do not make H_inf singular and are not listed.
    """

    parallel: Pairs
    antipodal: Pairs


class ParallelRows(ValueError):
    """Raised if rows of x are parallel or equal; `groups` has the indices of the rows of each set of such rows."""

    def __init__(self, groups: Groups, message: str) -> None:
        super().__init__(message)
        self.groups = groups


def degenerate_pairs(x: Float[np.ndarray, "n d"]) -> Degeneracy:
    """The pairs that make lambda_min(H_inf) zero; both fields are empty exactly when H_inf is positive definite.

    For unit rows 4 H_inf = s + (2/pi) s arcsin(s) with s = x_i.x_j, a series of s and of all positive even powers. The
    even powers separate rows that are neither parallel nor antipodal. Only the first power separates x from -x. For a
    family of pairs (x, -x), the first power separates all pairs at once exactly if the directions x are linearly
    independent.

    Args:
        x: samples, shape (n, d).

    Raises:
        ValueError: an entry that is not finite, or a zero row.
    Source: FL-NTK, assumption lambda > 0; the antipodal case is the statement fl-ntk/X.7.

    Example:
        >>> from ntkfl.gram import degenerate_pairs
        >>> degenerate_pairs([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        Degeneracy(parallel=((0, 1),), antipodal=())
    """
    between = angles(x)
    parallel = _pairs(np.triu(between <= _SAME, 1))
    antipodal = np.triu(between >= np.pi - _SAME, 1)
    # Leave out rows that are parallel to earlier ones: they would repeat a direction, and `parallel` has them already.
    antipodal[[j for _, j in parallel]] = antipodal[:, [j for _, j in parallel]] = False
    return Degeneracy(parallel, _dependent(np.asarray(x, float), _pairs(antipodal)))


def equal_rows(x: Float[np.ndarray, "n d"]) -> Groups:
    """The sets of two or more rows that are equal up to the rounding of their entries; indices of a set are in
    increasing order.

    Args:
        x: samples, shape (n, d).

    Raises:
        ValueError: an entry that is not finite.
    """
    x = checked_rows("x", x)
    norms = row_norms(x)
    some = np.flatnonzero(norms)
    zero = tuple(int(i) for i in np.flatnonzero(norms == 0))
    same = _parallel(x[some]) & (np.abs(norms[some, None] - norms[some]) <= _SAME_NORM * norms[some])
    return tuple(sorted((*_groups(same, some), *((zero,) if len(zero) > 1 else ()))))


def require_distinct(x: Float[np.ndarray, "n d"]) -> None:
    """Raise if two rows are the same, since the smallest eigenvalue of any kernel is zero in this case.

    The message names all such rows.

    Args:
        x: samples, shape (n, d).

    Raises:
        ParallelRows: two rows are equal. ValueError: as `equal_rows`.
    """
    if same := equal_rows(x):
        raise ParallelRows(same, f"rows {said_groups(same)} of x are the same: lambda_min is 0; {_remove(same)}")


def require_unparallel(x: Float[np.ndarray, "n d"], kernel: str = "the kernel") -> None:
    """Raise if two rows are parallel.

    Kernels that are homogeneous in each row, such as the kernels of ReLU networks without biases, are singular in this
    case.

    Args:
        x: rows.
        kernel: the kernel's name in the message; default "the kernel".

    Raises:
        ParallelRows: two rows are parallel; the message names all such rows. ValueError: as `degenerate_pairs`.
    """
    x = checked_inputs("x", x)
    if groups := _groups(_parallel(x), np.arange(len(x))):
        message = f"rows {said_groups(groups)} of x are parallel: lambda_min({kernel}) is 0; {_remove(groups)}"
        more = "" if set(groups) <= set(equal_rows(x)) else " (a network with biases tells rows of two lengths apart)"
        raise ParallelRows(groups, message + more)


def require_positive(x: Float[np.ndarray, "n d"]) -> None:
    """Raise unless H_inf is positive definite on these rows; the message names the rows that make it singular.

    Args:
        x: samples, shape (n, d).

    Raises:
        ValueError: rows that `degenerate_pairs` finds or refuses.
    """
    require_unparallel(x, "H_inf")
    if antipodal := degenerate_pairs(x).antipodal:
        names = ", ".join(f"({i}, {j})" for i, j in antipodal)
        raise ValueError(
            f"the antipodal pairs {names} of rows of x have linearly dependent directions: lambda_min(H_inf) is 0; "
            "remove one row of one of these pairs"
        )


def said_groups(groups: Groups) -> str:
    """The sets of rows as text, such as "0 and 3; 1, 2 and 5"; if there are more than a hundred, the first hundred."""
    texts = [f"{', '.join(map(str, group[:-1]))} and {group[-1]}" for group in groups[:_NAMED]]
    return "; ".join(texts) + (f"; and {len(groups) - _NAMED} more sets" if len(groups) > _NAMED else "")


def _remove(groups: Groups) -> str:
    if len(groups) > 1:
        return "keep one of each set"
    return "remove one of them" if len(groups[0]) == 2 else "keep one of them"


def _parallel(x: np.ndarray) -> np.ndarray:
    return angles(x) <= _SAME if len(x) else np.zeros((0, 0), bool)


def _groups(same: np.ndarray, names: np.ndarray) -> Groups:
    """The sets of two or more rows that are the same, each as the `names` of its rows.

    `same` marks the pairs of rows that are the same: equal, or parallel. A set has a row and the later rows that are
    the same as it, unless they are in an earlier set.
    """
    np.fill_diagonal(same, True)
    groups, free = [], np.ones(len(same), bool)
    for row in np.flatnonzero(np.count_nonzero(same, axis=1) > 1):
        members = same[row] & free
        free &= ~members
        if members[row]:
            groups.append(tuple(int(name) for name in names[members]))
    return tuple(groups)


def _pairs(mask: np.ndarray) -> Pairs:
    return tuple((int(i), int(j)) for i, j in np.argwhere(mask))


def _dependent(x: np.ndarray, pairs: Pairs) -> Pairs:
    """The first pairs whose directions are linearly dependent, as few as possible: pairs with coefficient 0 in the
    linear relation are left out.
    """
    if not pairs:
        return ()
    directions = scaled_rows(x[[i for i, _ in pairs]])
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for k in range(1, len(pairs) + 1):
        left, values, _ = np.linalg.svd(directions[:k])
        if k > x.shape[1] or values[-1] <= 8 * k * np.finfo(float).eps:
            return tuple(pair for pair, c in zip(pairs[:k], left[:, -1], strict=True) if abs(c) > 1e-8)
    return ()
