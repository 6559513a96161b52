"""Tests of the strategies for Hypothesis: they draw what they promise and reach their target cases.

Failing examples shrink to small ones.
"""

import mpmath
import numpy as np
import pytest
from hypothesis import Phase, find as hypothesis_find, given, settings, strategies as st

from bounds.strategies import (
    antipodal_families,
    labels,
    nearly_parallel,
    partitions,
    problems,
    setups,
    unit_data,
)
from ntkfl import gram

UNIT = 4.5e-16  # two units in the last place of 1, by which rounding changes normalised rows
REPEATABLE = settings(database=None, derandomize=True, max_examples=2000)
quick = settings(deadline=None, max_examples=60)


def find(strategy, condition):
    """Returns the smallest example that Hypothesis reaches, found the same way every time."""
    return hypothesis_find(strategy, condition, settings=REPEATABLE)


def first(strategy, condition):
    """Returns the first drawn example with this property, not shrunk."""
    return hypothesis_find(strategy, condition, settings=settings(REPEATABLE, phases=[Phase.generate]))


def exact_angle(x, y) -> mpmath.mpf:
    """Returns the angle between two float64 vectors, computed with 60 digits."""
    with mpmath.workdps(60):
        x, y = mpmath.matrix(x.tolist()), mpmath.matrix(y.tolist())
        x, y = x / mpmath.norm(x), y / mpmath.norm(y)
        return 2 * mpmath.atan2(mpmath.norm(x - y), mpmath.norm(x + y))


@quick
@given(unit_data(n=(2, 7), d=(2, 9)))
def test_rows_are_unit_and_of_the_sizes_asked_for(x):
    assert 2 <= len(x) <= 7 and 2 <= x.shape[1] <= 9
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() <= UNIT


@quick
@given(unit_data(distinct=True, n=(1, 12), d=(1, 3)))
def test_distinct_rows_share_no_direction(x):
    assert gram.degenerate_pairs(x).parallel == ()


@pytest.mark.parametrize(
    ("n", "wanted"),
    [
        ((1, 6), lambda x: len(x) > x.shape[1] > 1),
        ((2, 2), lambda x: np.array_equal(x[0], x[1])),
        ((2, 2), lambda x: np.array_equal(x[0], -x[1])),
        ((3, 6), lambda x: 0 < np.abs(x - x[0])[1:].max() < 1e-3),  # All rows lie in one cluster.
        ((3, 3), lambda x: 0 < np.abs(np.triu(x @ x.T, 1)).max() < 0.03),  # The rows are nearly orthogonal.
        ((4, 4), lambda x: np.linalg.cond(x) < 20 and np.abs(x).min() > 0.05),  # The rows are in general position.
    ],
)
def test_unit_data_reaches_every_kind(n, wanted):
    assert wanted(first(unit_data(n=n), wanted))


@quick
@given(nearly_parallel(angle=(1e-11, 1e-3), n=(2, 7)))
def test_the_first_two_rows_enclose_an_angle_in_the_range(x):
    assert 1e-11 - 1e-15 <= exact_angle(x[0], x[1]) <= 1e-3 + 1e-15
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() <= UNIT


@quick
@given(nearly_parallel(antipodal=True))
def test_turned_around_they_are_as_close_to_antipodal(x):
    assert 1e-11 - 1e-15 <= exact_angle(x[0], -x[1]) <= 0.1 + 1e-15


@quick
@given(nearly_parallel(angle=(1e-9, 1e-2)))
def test_the_smallest_eigenvalue_is_of_the_order_of_the_smallest_angle(x):
    angle = float(min(exact_angle(a, b) for i, a in enumerate(x) for b in x[:i]))
    smallest = np.linalg.eigvalsh(gram.infinite(x))[0]
    # The smallest eigenvalue is at most 1/2 - H_ij of the pair with the smallest angle.
    assert 1e-3 * angle < smallest < angle / (2 * np.pi) + angle**2 / 4 + 1e-15


def test_the_angles_reach_both_ends_of_the_range():
    assert exact_angle(*first(nearly_parallel(n=(2, 2)), lambda x: exact_angle(*x) < 2e-11)) < 2e-11
    assert exact_angle(*first(nearly_parallel(n=(2, 2)), lambda x: exact_angle(*x) > 0.09)) > 0.09


@quick
@given(antipodal_families())
def test_the_flag_of_an_antipodal_family_is_its_smallest_eigenvalue(family):
    x, positive = family
    smallest = np.linalg.eigvalsh(gram.infinite(x))[0]
    assert smallest > 1e-9 if positive else abs(smallest) < 1e-14 * len(x)
    assert positive == (not any(gram.degenerate_pairs(x)))
    assert any(np.array_equal(a, -b) for a in x for b in x)


@quick
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), partitions(n, clients=(1, 3)))))
def test_every_client_owns_a_sample(case):
    n, owner = case
    assert owner.shape == (n,) and set(owner.tolist()) == set(range(owner.max() + 1)) and owner.max() < 3


@pytest.mark.parametrize("clients", [1, 2, 3, 4])
def test_every_number_of_clients_is_drawn(clients):
    assert first(partitions(5), lambda owner: owner.max() + 1 == clients).max() == clients - 1


@quick
@given(problems(x=unit_data(n=(3, 5)), clients=(2, 3), bound=2.5))
def test_problems_are_made_of_the_parts_asked_for(problem):
    assert 3 <= problem.n <= 5 and 2 <= problem.n_clients <= 3 and np.abs(problem.y).max() <= 2.5
    problem.require_unit()


@quick
@given(setups(width=(2, 9), rounds=(3, 4), eta_local=(0.1, 0.2), sigma=(1.0, 1.0), seed=(5, 6)))
def test_setups_stay_in_their_ranges(setup):
    assert 2 <= setup.width <= 9 and 3 <= setup.rounds <= 4 and 1 <= setup.local_steps <= 3
    assert (
        0.1 <= setup.eta_local <= 0.2 and 0.5 <= setup.eta_global <= 1.5 and setup.sigma == 1 and setup.seed in (5, 6)
    )


def test_labels_are_signs_or_anywhere_within_the_bound():
    assert np.array_equal(np.abs(first(labels(3, bound=2.0), lambda y: (np.abs(y) == 2).all())), [2, 2, 2])
    assert 0 < np.abs(first(labels(3, bound=2.0), lambda y: ((np.abs(y) < 2) & (y != 0)).all())).max() < 2


@quick
@given(labels(3, bound=2.0))
def test_labels_stay_within_the_bound(y):
    assert y.shape == (3,) and np.abs(y).max() <= 2


@pytest.mark.slow
def test_examples_shrink_to_the_smallest():
    assert np.array_equal(find(unit_data(), lambda x: True), [[1.0]])
    assert find(unit_data(), lambda x: np.linalg.matrix_rank(x) >= 2).shape == (2, 2)
    assert find(nearly_parallel(), lambda x: np.linalg.norm(x[0] - x[1]) < 1e-6).shape == (2, 2)
    assert find(antipodal_families(), lambda family: not family.positive).x.shape == (6, 2)
    assert np.array_equal(find(partitions(6), lambda owner: True), np.zeros(6))
    assert find(problems(), lambda problem: problem.n_clients == 2).n == 2
    setup = find(setups(), lambda setup: setup.rounds >= 3)
    assert (setup.width, setup.local_steps, setup.rounds, setup.seed) == (1, 1, 3, 0)


@pytest.mark.parametrize(
    ("impossible", "message"),
    [
        (lambda: unit_data(n=(3, 2)), r"n is \(3, 2\); it must be \(lowest, highest\) with 1 <= lowest <= highest"),
        (lambda: unit_data(d=(0, 2)), r"d is \(0, 2\); it must be .* with 1 <= lowest"),
        (lambda: unit_data(n=4), r"n is 4; it must be a pair of integers"),
        (lambda: unit_data(n=(3, 4), distinct=True), r"in one dimension at most 2 rows are distinct; let d start at 2"),
        (lambda: nearly_parallel(d=(1, 3)), r"d is \(1, 3\); it must be .* with 2 <= lowest"),
        (
            lambda: nearly_parallel(angle=(0.0, 0.1)),
            r"angle is \(0.0, 0.1\); it must be .* 0 < lowest <= highest <= 0.1",
        ),
        (lambda: antipodal_families(d=(1, 1)), r"d is \(1, 1\)"),
        (
            lambda: partitions(2, clients=(3, 4)),
            r"n is 2 and clients \(3, 4\): every client needs a sample, .* 3 or more",
        ),
        (lambda: labels(0), r"n is 0; it must be a positive integer"),
        (lambda: labels(2, bound=-1.0), r"bound is -1; it must be a positive finite number"),
        (lambda: problems(clients=(0, 1)), r"clients is \(0, 1\)"),
        (lambda: setups(width=(0, 4)), r"width is \(0, 4\)"),
        (
            lambda: setups(eta_local=(0.0, 0.1)),
            r"eta_local is \(0.0, 0.1\); it must be .* positive, finite and not empty",
        ),
    ],
)
def test_impossible_arguments_raise_at_once(impossible, message):
    with pytest.raises(ValueError, match=message):
        impossible()
