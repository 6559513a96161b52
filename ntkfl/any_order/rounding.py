"""Bounds of the rounding errors of sums in float64: of sums of products, and of bounds that are themselves sums of
nonnegative numbers.
"""

import numpy as np

UNIT = 2.0**-53  # relative error of one operation
TINY = 1e-290  # more than underflow can lose, since numbers are at most about 1e50 and sums have fewer than 2^30 terms
LOST = 1e-148  # at least the root of the sum of 2^30 squares that all underflow
_BOUND = 1e-9  # more than the relative error of 2^22 operations on nonnegative numbers


def gamma(terms: int) -> float:
    """A bound of the error of a sum of `terms` products, in any order, relative to the sum of the products' absolute
    values.
    """
    return 1.01 * (terms + 2) * UNIT


def above(bound):
    """A number that is at least the exact value of `bound`, which float64 computed from nonnegative numbers without
    cancellation.
    """
    return bound * (1 + _BOUND) + TINY


def length(vectors, axis=None):
    """Upper bounds of the Euclidean norms, even if squares underflow."""
    return above(np.linalg.norm(vectors, axis=axis)) + LOST


def below(bound):
    """A number from 0 to the exact value of `bound`, which is computed as in `above`."""
    return np.maximum(bound * (1 - _BOUND) - TINY, 0.0)
