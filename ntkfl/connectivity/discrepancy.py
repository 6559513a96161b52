"""Measures of how much two sets of samples or outputs differ: maximum mean discrepancy, and linear CKA."""

import numpy as np
from jaxtyping import Float

from ntkfl.problem import finite_array


def mean_discrepancy(
    own: Float[np.ndarray, "a a"],
    other: Float[np.ndarray, "b b"],
    cross: Float[np.ndarray, "a b"],
    power: int = 1,
    unbiased: bool = True,
) -> float:
    """MMD^2, the squared maximum mean discrepancy of two samples, with the kernel K^power.

    Args:
        own: the kernel matrix K of the first sample, shape (a, a).
        other: the kernel matrix K of the second sample, shape (b, b).
        cross: the kernel matrix K between the two samples, shape (a, b).
        power: the power to which the kernel is raised entry by entry, at least 1; default 1.
        unbiased: True for the U-statistic, which leaves out the diagonals of `own` and `other` and may be negative;
            False for the V-statistic, which keeps them.

    Raises:
        ValueError: the shapes of the matrices do not fit; a sample has fewer than two points; the power is below 1; an
            entry is not finite.
    Source: IMA, Theorem 2; its terms are those of the U-statistic with K^2 (averaging/I7).
    """
    own, other = finite_array("own", own), finite_array("other", other)
    cross = finite_array("cross", cross)
    if own.ndim != 2 or other.ndim != 2 or cross.shape != (len(own), len(other)):
        raise ValueError(
            f"the kernel matrices have shapes {own.shape}, {other.shape} and {cross.shape}; "
            "they must be (a, a), (b, b) and (a, b)"
        )
    if power < 1:
        raise ValueError(f"the kernel's power is {power}; it must be 1 or more")
    return _within(own**power, unbiased) + _within(other**power, unbiased) - 2 * float((cross**power).mean())


def linear_cka(first: Float[np.ndarray, "n p"], second: Float[np.ndarray, "n q"]) -> float:
    """Linear centred kernel alignment of two sets of outputs or features on the same n samples, in [0, 1].

    Args:
        first: outputs or features, shape (n, p).
        second: outputs or features on the same samples, shape (n, q).

    Raises:
        ValueError: the numbers of samples differ or are below two; outputs are not finite, or are the same for all
            samples.
    Source: |Y'X|_F^2 / (|X'X|_F |Y'Y|_F) with centred columns, as in arXiv:1905.00414 (Kornblith et al. 2019). IMA uses
    linear CKA as a proxy for the covariance.

    Example:
        >>> import numpy as np
        >>> from ntkfl.connectivity.discrepancy import linear_cka
        >>> linear_cka(np.eye(3), 2 * np.eye(3))
        1.0
    """
    first, second = finite_array("first", first), finite_array("second", second)
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second) or len(first) < 2:
        raise ValueError(
            f"the outputs have shapes {first.shape} and {second.shape}; they must be (n, p), (n, q), n >= 2"
        )
    x, y = first - first.mean(axis=0), second - second.mean(axis=0)
    scale = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    if not scale > 0:
        raise ValueError("the outputs of one set are the same on all samples: the alignment is 0/0")
    return float(np.linalg.norm(y.T @ x) ** 2 / scale)


def _within(matrix: np.ndarray, unbiased: bool) -> float:
    count = len(matrix)
    if matrix.shape != (count, count) or count < 2:
        raise ValueError(
            f"a sample has a kernel matrix of shape {matrix.shape}; it must be square, of 2 points or more"
        )
    if not unbiased:
        return float(matrix.mean())
    return float((matrix.sum() - np.trace(matrix)) / (count * (count - 1)))
