"""How sums in float64 are bounded here: errors of products, and bounds that are sums of nonnegative numbers."""

import numpy as np

UNIT = 2.0**-53  # relative error of one operation
TINY = 1e-290  # more than underflow can lose: numbers are at most about 1e50, sums have fewer than 2^30 terms
LOST = 1e-148  # at least the root of the sum of 2^30 squares that all underflow
_BOUND = 1e-9  # relative error of at most 2^22 operations on nonnegative numbers, with room


def gamma(terms: int) -> float:
    """Bound of the error of a sum of `terms` products, in any order, relative to the sum of their absolute values."""
    return 1.01 * (terms + 2) * UNIT


def above(bound):
    """At least the exact value of a bound that float64 computed from nonnegative numbers, without cancellation."""
    return bound * (1 + _BOUND) + TINY


def length(vectors, axis=None):
    """At least the Euclidean norms, even if squares underflow."""
    return above(np.linalg.norm(vectors, axis=axis)) + LOST


def below(bound):
    """At most the exact value of a bound as in `above`, and at least 0."""
    return np.maximum(bound * (1 - _BOUND) - TINY, 0.0)
