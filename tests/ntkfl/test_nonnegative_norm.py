"""The bound on the norm of a nonnegative matrix, against mpmath."""

import mpmath
import numpy as np
from flint import arb_mat
from hypothesis import given, settings, strategies as st

from ntkfl.balls import ball_matrix, nonnegative_norm, precision


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(0, 1))
def test_nonnegative_norm_is_a_sharp_upper_bound(seed, n, density):
    """The draws include reducible matrices and the zero matrix."""
    rng = np.random.default_rng(seed)
    a = rng.exponential(size=(n, n)) * (rng.random((n, n)) < density) * 10.0 ** rng.integers(-8, 9)
    a = np.triu(a) + np.triu(a, 1).T
    with precision():
        bound = nonnegative_norm(ball_matrix(a))
        with mpmath.workdps(40):
            exact = max(mpmath.eigsy(mpmath.matrix(a.tolist()), eigvals_only=True))
            assert mpmath.mpf(float(bound)) >= exact * (1 - mpmath.mpf(2) ** -53)
        assert float(bound) <= float(exact) * (1 + 1e-5)


def test_nonnegative_norm_covers_the_radii_of_zeros():
    with precision():
        assert nonnegative_norm(ball_matrix(np.zeros((2, 2)), 0.25)) >= 0.5
        assert nonnegative_norm(arb_mat([[0, 0], [0, 0]])) == 0
