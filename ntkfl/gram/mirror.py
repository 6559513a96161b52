"""Completes a symmetric matrix from its upper triangle."""

import numpy as np

_ROWS = 256  # rows of a block, small enough for the cache


def mirrored(upper: np.ndarray) -> np.ndarray:
    """Overwrite the entries below the diagonal of a matrix (n, n) by the entries above it, and return the matrix."""
    for start in range(0, len(upper), _ROWS):
        rows, rest = slice(start, start + _ROWS), slice(start + _ROWS, None)
        upper[rows, rows] = np.triu(upper[rows, rows]) + np.triu(upper[rows, rows], 1).T
        upper[rest, rows] = upper[rows, rest].T
    return upper
