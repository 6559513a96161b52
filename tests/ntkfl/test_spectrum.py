"""Tests of certified eigenvalues against known spectra, or of two methods against each other.

The Gram matrices of some data have the least eigenvalue 0.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ntkfl.estimate import Estimate
from ntkfl.gram import (
    ParallelRows,
    degenerate_pairs,
    equal_rows,
    infinite,
    infinite_estimate,
    largest_eigenvalue,
    require_distinct,
    require_positive,
    require_unparallel,
    smallest_eigenvalue,
    spectrum,
)

seeds = st.integers(0, 2**32 - 1)


def second_differences(n):
    """Returns the matrix with 2 on the diagonal and -1 beside it, whose eigenvalues are 2 - 2 cos(k pi / (n + 1))."""
    return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


@pytest.mark.parametrize(
    ("n", "method"), [(1, "ball"), (5, "ball"), (200, "ball"), (201, "Cholesky"), (320, "Cholesky")]
)
def test_known_spectrum_is_enclosed(n, method):
    lowest, highest = smallest_eigenvalue(second_differences(n)), largest_eigenvalue(second_differences(n))
    half = np.pi / (2 * (n + 1))
    for estimate, exact in ((lowest, 4 * np.sin(half) ** 2), (highest, 4 * np.cos(half) ** 2)):
        assert estimate.lo <= exact * (1 + 1e-15)
        assert estimate.hi >= exact * (1 - 1e-15)
        assert estimate.error < 1e-10
        assert estimate.method.startswith(method)


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_the_eigenvector_of_large_matrices_comes_from_iteration(shift, monkeypatch):
    """The eigenvector of a large matrix comes from an iteration.

    A matrix with a negative eigenvalue has no Cholesky factor for inverse iteration, so the matrix itself is iterated.
    """
    h = second_differences(300) + shift * np.eye(300)
    dense = smallest_eigenvalue(h)
    monkeypatch.setattr(spectrum, "LANCZOS_FROM", 0)
    eigenvalue = smallest_eigenvalue(h)
    exact = 4 * np.sin(np.pi / 602) ** 2 + shift
    assert eigenvalue.lo <= exact * (1 + 1e-15) + 1e-15
    assert eigenvalue.hi >= exact - 1e-15
    assert eigenvalue.error < 1.5 * dense.error


@settings(deadline=None, max_examples=20)
@given(seed=seeds, n=st.integers(1, 25), shift=st.floats(-3, 3), scale=st.integers(-40, 40))
def test_cholesky_and_balls_agree(seed, n, shift, scale):
    a = np.random.default_rng(seed).normal(size=(n, n))
    h = np.ldexp(a @ a.T / n + shift * np.eye(n), scale)
    h = np.triu(h) + np.triu(h, 1).T
    by_balls, by_cholesky = smallest_eigenvalue(h), spectrum._by_cholesky(h)
    assert by_balls.lo <= by_cholesky.hi
    assert by_cholesky.lo <= by_balls.hi
    assert by_cholesky.error <= 1e-11 * np.abs(h).sum()


def test_a_singular_matrix_is_not_certified_positive():
    # The entries are integers, so that a a^T is exact.
    a = np.random.default_rng(0).integers(-3, 4, (250, 249)).astype(float)
    for part in (a @ a.T, a[:20, :19] @ a[:20, :19].T, np.ones((3, 3)), np.zeros((4, 4)), np.zeros((230, 230))):
        lowest = smallest_eigenvalue(part)
        assert lowest.lo <= 0 <= lowest.hi
        assert abs(lowest.value) <= 1e-12 * max(np.trace(part), 1)  # Cholesky's bound grows with n times the trace.


@settings(deadline=None, max_examples=20)
@given(seed=seeds, n=st.integers(2, 8), error=st.floats(1e-9, 1e-1))
def test_entry_errors_enter(seed, n, error):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, n))
    h = Estimate((a + a.T) / 2, np.full((n, n), error), "by construction")
    noise = rng.choice([-error, error], (n, n))
    inside = h.value + np.triu(noise) + np.triu(noise, 1).T
    constant = h.value - error  # This perturbation E has the largest possible norm, |E| = n error.
    for matrix in (inside, constant):
        assert smallest_eigenvalue(h).lo <= smallest_eigenvalue(matrix).hi
        assert smallest_eigenvalue(h).hi >= smallest_eigenvalue(matrix).lo
        assert largest_eigenvalue(h).lo <= largest_eigenvalue(matrix).hi
        assert largest_eigenvalue(h).hi >= largest_eigenvalue(matrix).lo
    assert n * error <= smallest_eigenvalue(h).error < n * error * (1 + 1e-3) + 1e-12


def test_an_asymmetry_of_rounding_is_counted_and_a_larger_one_refused():
    h = second_differences(4)
    h[0, 1] += 1e-13
    assert 5e-14 < smallest_eigenvalue(h).error < 1e-12
    h[0, 1] += 0.25
    with pytest.raises(ValueError, match=r"not symmetric: entries differ from their mirror images by up to 0\.25"):
        smallest_eigenvalue(h)


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (np.ones((2, 3)), r"the matrix has shape \(2, 3\); eigenvalues need a square one"),
        (np.ones((0, 0)), r"the matrix has shape \(0, 0\)"),
        (np.array([[1, 0], [np.nan, 1]]), r"entry \(1, 0\) of the matrix is nan"),
        (Estimate(np.eye(2), np.full((2, 2), np.inf)), r"entry \(0, 0\) of the matrix is 1\.0 ± inf"),
    ],
)
def test_bad_matrices_are_named(h, message):
    for function in (smallest_eigenvalue, largest_eigenvalue):
        with pytest.raises(ValueError, match=message.replace("is 1", "is -?1")):
            function(h)


def test_entries_whose_products_would_overflow_are_scaled_first():
    diagonal = np.arange(1.0, 1 + spectrum.BALL_ARITHMETIC_UP_TO + 1) / 256
    plain, far = (smallest_eigenvalue(np.diag(np.ldexp(diagonal, e))) for e in (0, 1017))
    assert far.value == np.ldexp(plain.value, 1017)
    assert far.error == np.ldexp(plain.error, 1017)


def test_a_matrix_is_the_same_in_blocks_of_any_number_of_rows(monkeypatch):
    rng = np.random.default_rng(4)
    a = rng.normal(size=(230, 230))
    exact = a @ a.T / 230
    exact = np.triu(exact) + np.triu(exact, 1).T
    rounded = exact * (1 + 1e-15 * rng.choice([-1, 1], exact.shape))
    matrices = (exact, rounded, Estimate(exact, 1e-9 * np.abs(a)))
    wanted = [smallest_eigenvalue(h) for h in matrices]
    broken = exact.copy()
    broken[200, 3], broken[7, 210] = np.inf, 1e3
    for rows in (1, 7, 64):
        monkeypatch.setattr(spectrum, "_ENTRIES", rows * 230)
        for eigenvalue, expected in zip(map(smallest_eigenvalue, matrices), wanted, strict=True):
            assert np.isclose(eigenvalue.value, expected.value, rtol=0, atol=1e-13)
            assert np.isclose(eigenvalue.error, expected.error, rtol=1e-9, atol=0)
        with pytest.raises(ValueError, match=r"entry \(200, 3\) of the matrix is inf"):
            smallest_eigenvalue(broken)
    broken[200, 3] = exact[200, 3]
    with pytest.raises(ValueError, match=r"from their mirror images by up to 1e\+03"):
        smallest_eigenvalue(broken)


@settings(deadline=None, max_examples=25)
@given(seed=seeds, n=st.integers(2, 8), d=st.integers(2, 6), factor=st.floats(0.01, 100))
def test_parallel_rows_are_named_and_lambda_is_zero(seed, n, d, factor):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    i, j = sorted(rng.choice(n, 2, replace=False))
    assert degenerate_pairs(x) == ((), ())
    require_positive(x)
    x[j] = x[i] * factor
    assert degenerate_pairs(x).parallel == ((i, j),)
    with pytest.raises(ValueError, match=rf"rows {i} and {j} of x are parallel: lambda_min\(H_inf\) is 0"):
        require_positive(x)
    lowest = smallest_eigenvalue(infinite_estimate(x))
    assert lowest.lo <= 0 <= lowest.hi


@settings(deadline=None, max_examples=25)
@given(seed=seeds, pairs=st.integers(1, 5), d=st.integers(2, 4))
def test_antipodal_pairs_are_degenerate_when_there_are_more_than_dimensions(seed, pairs, d):
    x = np.random.default_rng(seed).normal(size=(pairs, d))
    assume(np.linalg.svd(x / np.linalg.norm(x, axis=1)[:, None])[1][-1] > 1e-2)
    rows = np.concatenate([x, -x * 2.5])
    lowest = smallest_eigenvalue(infinite_estimate(rows))
    if pairs <= d:
        assert degenerate_pairs(rows) == ((), ())
        assert lowest.lo > 0
    else:
        assert len(degenerate_pairs(rows).antipodal) == d + 1
        assert lowest.lo <= 0 <= lowest.hi
        with pytest.raises(ValueError, match=r"antipodal pairs \(0, \d+\).* have linearly dependent directions"):
            require_positive(rows)


def test_only_the_antipodal_pairs_that_take_part_are_named():
    plane = np.array([[1.0, 0, 0], [0.0, 0, 1.0], [0.0, 1.0, 0], [0.6, 0.8, 0]])
    rows = np.concatenate([plane, -plane])
    assert degenerate_pairs(rows) == ((), ((0, 4), (2, 6), (3, 7)))


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**600])  # The squares of these numbers are beyond float64.
def test_antipodal_pairs_of_any_size_are_degenerate_where_their_directions_are_dependent(size):
    plane = np.array([[1.0, 0, 0], [0.0, 0, 1.0], [0.0, 1.0, 0]])
    rows = np.concatenate([plane, -plane])
    assert degenerate_pairs(size * rows) == ((), ())
    rows = np.concatenate([rows, [[0.75, 1.0, 0], [-0.75, -1.0, 0]]])
    assert degenerate_pairs(size * rows) == ((), ((0, 3), (2, 5), (6, 7)))


def test_nearly_parallel_rows_are_positive_definite_though_only_just():
    x = np.array([[1.0, 0.0], [1.0, 1e-7]])
    assert degenerate_pairs(x) == ((), ())
    exact = 1e-7 / (2 * np.pi)  # The eigenvalue is angle / (2 pi), to first order.
    lowest = smallest_eigenvalue(infinite_estimate(x))
    assert lowest.lo > 0
    assert abs(lowest.value / exact - 1) < 1e-6


@settings(deadline=None, max_examples=30)
@given(
    seed=seeds,
    of=st.lists(st.integers(0, 4), min_size=2, max_size=10),
    scaled=st.booleans(),
    zeros=st.booleans(),
)
def test_all_rows_that_are_the_same_or_parallel_are_named(seed, of, scaled, zeros):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(5, 3))
    directions[0] *= not zeros
    x = directions[of] * (2.0 ** np.arange(len(of))[:, None] if scaled else 1.0)
    sets = {k: tuple(i for i, row in enumerate(of) if row == k) for k in of}
    repeated = tuple(sorted(rows for k, rows in sets.items() if len(rows) > 1))
    same = tuple(rows for rows in repeated if not scaled or (zeros and of[rows[0]] == 0))
    assert equal_rows(x) == same
    if same:
        with pytest.raises(ParallelRows, match="are the same: lambda_min is 0") as error:
            require_distinct(x)
        assert error.value.groups == same
    else:
        require_distinct(x)
    if zeros and 0 in of:
        with pytest.raises(ValueError, match=f"row {sets[0][0]} of x is zero"):
            require_unparallel(x)
    elif repeated:
        with pytest.raises(ParallelRows) as error:
            require_unparallel(x)
        assert error.value.groups == repeated
        assert ("a network with biases" in str(error.value)) == scaled
    else:
        require_unparallel(x)


def test_the_message_names_every_set_of_rows():
    x = np.eye(3)[[0, 1, 0, 2, 1, 0]]
    with pytest.raises(ValueError, match=r"rows 0, 2 and 5; 1 and 4 of x are parallel.*; keep one of each set$"):
        require_positive(x)
    with pytest.raises(ValueError, match=r"rows 0, 1 and 2 of x are the same: lambda_min is 0; keep one of them$"):
        require_distinct(np.ones((3, 2)))
    many = np.repeat(np.random.default_rng(0).normal(size=(102, 2)), 2, axis=0)
    with pytest.raises(ValueError, match="198 and 199; and 2 more sets of x are the same"):
        require_distinct(many)


def test_equal_matrices_give_equal_estimates():
    h = infinite(np.random.default_rng(1).normal(size=(220, 6)))
    first, second = smallest_eigenvalue(h), smallest_eigenvalue(h.copy())
    assert (first.value, first.error) == (second.value, second.error)
