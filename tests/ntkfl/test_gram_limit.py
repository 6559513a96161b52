"""Tests of H_inf against arithmetic with 60 digits, against finite networks, and of the symmetries of its
definition.
"""

from contextlib import nullcontext
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ntkfl.gram import angles, infinite, infinite_estimate, initial, limit, smallest_eigenvalue


@pytest.fixture(autouse=True, scope="module", params=["blocks of rows", "tiles"])
def way(request):
    """Small matrices are computed in blocks of rows, large ones in tiles; every test holds for both ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit, "TILED", 0 if request.param == "tiles" else float("inf"))
        patch.setattr(limit, "TILE", 200)
        yield


def exact_angle_and_entry(x, y):
    """Returns the angle and H_inf(x, y) of the given float64 numbers, to about 50 digits."""
    return exactly(tuple(x.tolist()), tuple(y.tolist()))


@cache
def exactly(x, y):
    """Returns exact values, computed once for blocks of rows and for tiles."""
    with mpmath.workdps(60):
        x, y = ([mpmath.mpf(v) for v in row] for row in (x, y))
        dot, square = mpmath.fdot(x, y), mpmath.fdot(x, x)
        across = [b - a * dot / square for a, b in zip(x, y, strict=True)]
        angle = mpmath.atan2(mpmath.sqrt(mpmath.fdot(across, across) * square), dot)
        return angle, dot * (mpmath.pi - angle) / (2 * mpmath.pi)


def pair_at_angle(rng, d, angle, antipodal):
    """Returns two rows of unit norm up to rounding, with about this angle, or pi minus it, between them."""
    x, e = rng.normal(size=(2, d))
    x /= np.linalg.norm(x)
    e -= x * (x @ e)
    y = np.cos(angle) * x + np.sin(angle) * e / np.linalg.norm(e)
    return np.array([x, (-1 if antipodal else 1) * y / np.linalg.norm(y)])


@pytest.mark.parametrize("antipodal", [False, True])
@pytest.mark.parametrize("d", [2, 3, 10, 100])
def test_relative_error_of_the_angle(d, antipodal):
    rng = np.random.default_rng(d)
    for exponent in np.linspace(0, 11, 23):
        for scale in (np.ones((2, 1)), 10 ** rng.uniform(-9, 9, (2, 1))):
            rows = pair_at_angle(rng, d, 10**-exponent, antipodal) * scale
            angle, entry = exact_angle_and_entry(*rows)
            assert abs(angles(rows)[0, 1] / angle - 1) < 1e-14
            # The entry is accurate too, although near pi it is tiny.
            assert abs(infinite(rows)[0, 1] / entry - 1) < 2e-14


def test_arccos_would_fail_the_test_above():
    rows = pair_at_angle(np.random.default_rng(0), 10, 1e-9, False)
    angle, _ = exact_angle_and_entry(*rows)
    assert abs(np.arccos(min(rows[0] @ rows[1], 1.0)) / angle - 1) > 1e-3


def test_the_error_bound_holds_and_is_not_vacuous():
    rng = np.random.default_rng(3)
    for d in (1, 2, 5, 40, 300):
        x = rng.normal(size=(4, d)) * 10 ** rng.uniform(-3, 3, (4, 1))
        z = np.concatenate([x[:2] * (1 + 1e-13), -x[:2] + 1e-9, rng.normal(size=(2, d))])
        estimate = infinite_estimate(x, z)
        assert (estimate.error < 1e-12 * np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(z, axis=1))).all()
        for i, j in np.ndindex(4, 6):
            _, entry = exact_angle_and_entry(x[i], z[j])
            assert abs(entry - float(estimate.value[i, j])) <= estimate.error[i, j]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (1500, 2)])
def test_exactly_symmetric_with_half_the_squared_norm_on_the_diagonal(n, d):
    x = np.random.default_rng(n).normal(size=(n, d))
    h = infinite(x)
    assert np.array_equal(h, h.T)
    assert np.array_equal(np.diag(h), np.einsum("ij,ij->i", x, x) / 2)
    assert np.array_equal(angles(x), angles(x).T)
    assert (np.diag(angles(x)) == 0).all()


def test_blocks_of_rows_join_into_one_matrix():
    x = np.random.default_rng(8).normal(size=(1500, 2))
    chosen = [0, 5, 698, 699, 700, 1398, 1499]
    bound = infinite_estimate(x).error[np.ix_(chosen, chosen)]
    assert (np.abs(infinite(x)[np.ix_(chosen, chosen)] - infinite(x[chosen])) <= 2 * bound).all()
    rectangle = infinite(x, x[chosen])
    assert (np.abs(rectangle[chosen] - infinite(x[chosen])) <= 2 * bound).all()
    assert np.abs(rectangle - infinite(x[chosen], x).T).max() < 1e-14


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), d=st.integers(1, 8))
def test_symmetries(seed, n, d):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    estimate = infinite_estimate(x)
    order, rotation = rng.permutation(n), np.linalg.qr(rng.normal(size=(d, d)))[0]
    assert (np.abs(infinite(x[order]) - estimate.value[np.ix_(order, order)]) <= 2 * estimate.error.max()).all()
    turned = x @ rotation.T  # The product is rounded by up to d units in the last place.
    assert (np.abs(infinite(turned) - estimate.value) <= 4 * estimate.error.max()).all()
    scales = 2.0 ** rng.integers(-30, 30, n)
    assert np.array_equal(infinite(x * scales[:, None]), estimate.value * np.outer(scales, scales))
    stretched = infinite(x * 3.0)
    assert np.allclose(stretched, 9 * estimate.value, rtol=0, atol=18 * estimate.error.max())


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 10), d=st.integers(2, 8))
def test_positive_semidefinite_and_definite_on_points_in_general_position(seed, n, d):
    x = np.random.default_rng(seed).normal(size=(n, d))
    x = np.concatenate([x, -x[:1]])  # With one antipodal pair H_inf is still positive definite.
    assert smallest_eigenvalue(infinite_estimate(x)).hi > 0
    repeated = infinite_estimate(np.concatenate([x, x[:1]]))
    lowest = smallest_eigenvalue(repeated)
    assert lowest.lo <= 0 <= lowest.hi


def test_the_limit_of_wide_networks_within_six_standard_errors():
    x = np.random.default_rng(2).normal(size=(12, 4))
    width = 2**18
    probability = (np.pi - angles(x)) / (2 * np.pi)
    standard_error = np.abs(x @ x.T) * np.sqrt(probability * (1 - probability) / width)
    assert (np.abs(initial(x, width, seed=9) - infinite(x)) < 6 * standard_error).all()


@pytest.mark.parametrize(
    ("x", "z", "message"),
    [
        ([[1.0, np.nan]], None, r"x\[0, 1\] is nan; every entry must be finite"),
        ([[1.0, 0.0], [0.0, 0.0]], None, "row 1 of x is zero"),
        ([[1.0, 0.0]], [[1.0, 0.0, 0.0]], "z has 3 features, x has 2: they must agree"),
        ([[1.0, 0.0]], [[0.0, 0.0]], "row 0 of z is zero"),
        ([1.0, 0.0], None, r"x has shape \(2,\); it must be \(n, d\)"),
    ],
)
@pytest.mark.parametrize("function", [infinite, angles, infinite_estimate])
def test_bad_input_is_named(function, x, z, message):
    with pytest.raises(ValueError, match=message):
        function(np.array(x), None if z is None else np.array(z))


def test_the_result_may_be_written_where_the_caller_says(tmp_path):
    x, z = (np.random.default_rng(k).normal(size=(k, 3)) for k in (450, 230))
    kept = np.memmap(tmp_path / "gram", dtype=float, mode="w+", shape=(450, 230))
    assert infinite(x, z, out=kept) is kept
    assert np.array_equal(kept, infinite(x, z))
    with pytest.raises(ValueError, match=r"out is float32 of shape \(450, 230\); it must be float64 of shape"):
        infinite(x, z, out=np.empty((450, 230), np.float32))


def test_rows_of_extreme_norms_are_scaled_first():
    x = np.random.default_rng(5).normal(size=(20, 3))
    scales = np.where(np.arange(20) % 2, 2.0**-400, 2.0**400)
    assert np.array_equal(infinite(x * scales[:, None]), infinite(x) * np.outer(scales, scales))


def test_pairs_are_repaired_alike_however_many_are_taken_at_a_time(monkeypatch):
    rng = np.random.default_rng(11)
    rows = np.concatenate([pair_at_angle(rng, 5, angle, False) for angle in (1e-3, 1e-7)] * 3)
    x = np.concatenate([rows, rows + 1e-9])
    whole = infinite(x)
    monkeypatch.setattr(limit, "_GATHER", 7)  # Pairs are computed one at a time.
    assert np.array_equal(infinite(x), whole)


@pytest.mark.parametrize("threads", [1, 3])
def test_tiles_are_the_same_whoever_computes_them(threads, monkeypatch):
    x = np.random.default_rng(12).normal(size=(900, 4))
    monkeypatch.setattr(limit, "worker_threads", lambda: nullcontext(2))
    whole = infinite(x)
    monkeypatch.setattr(limit, "worker_threads", lambda: nullcontext(threads))
    assert np.array_equal(infinite(x), whole)


def test_an_error_within_a_tile_is_not_lost(monkeypatch):
    def broken(*_):
        raise ArithmeticError("a tile")

    monkeypatch.setattr(limit, "entries", lambda: broken)
    with pytest.raises(ArithmeticError, match="a tile"):
        limit.fill(np.empty((3, 3)), *[np.eye(3)] * 2, True, 0.9, broken)


def test_the_polynomial_of_a_tile_is_arccos_to_a_few_roundings():
    cosine = np.linspace(-0.9, 0.9, 100_001).reshape(1, -1)
    value, far, ones = np.empty_like(cosine), np.empty((cosine.size, 2), np.int64), np.ones(cosine.size)
    assert limit.entries()(cosine, ones[:1], ones, 0.9, False, value, far) == 0
    assert np.abs(value - cosine * (np.pi - np.arccos(cosine)) / (2 * np.pi)).max() < 4 * limit.ROUNDOFF
    assert limit.entries()(cosine, ones[:1], ones, 0.5, False, value, far) == (np.abs(cosine) > 0.5).sum()
