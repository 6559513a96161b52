"""Tests of Problem and Setup: they refuse invalid fields, and `members` partitions the samples."""

import inspect
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ntkfl.problem import Problem, Setup

X, Y = np.eye(4, 3) + 0.5, np.ones(4)

owners = st.integers(1, 6).flatmap(
    lambda clients: st.tuples(st.permutations(range(clients)), st.lists(st.integers(0, clients - 1), max_size=12)).map(
        lambda parts: [*parts[0], *parts[1]]
    )
)


@given(owner=owners)
@settings(deadline=None, max_examples=60)
def test_clients_partition_the_samples(owner):
    n = len(owner)
    problem = Problem(np.ones((n, 2)), np.zeros(n), owner)
    sets = problem.members
    assert len(sets) == problem.n_clients == len(set(owner))
    assert np.array_equal(np.sort(np.concatenate(sets)), np.arange(n))
    assert all((problem.owner[s] == c).all() and len(s) for c, s in enumerate(sets))


rows = hnp.arrays(float, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(-1e300, 1e300)).filter(
    lambda x: x.any(axis=1).all()
)


@given(x=rows)
@example(x=np.array([[5e-324, 0.0], [1e300, -1e300]]))
@settings(deadline=None, max_examples=60)
def test_unit_divides_every_row_by_its_norm(x):
    unit = Problem(x, np.zeros(len(x)), x_test=x[::-1], y_test=np.zeros(len(x))).unit()
    unit.require_unit()
    assert unit.unit_deviation <= 4 * np.finfo(float).eps
    scale = np.abs(x).max(axis=1, keepdims=True)
    parallel = unit.x * np.linalg.norm(x / scale, axis=1, keepdims=True) - x / scale
    assert np.abs(parallel).max() <= 8 * np.finfo(float).eps
    assert np.array_equal(unit.x_test, unit.x[::-1])


def test_unit_keeps_everything_else():
    problem = Problem(X, Y, [0, 1, 1, 0], X[:2], Y[:2], name="mine")
    unit = problem.unit()
    assert np.array_equal(unit.y, problem.y)
    assert np.array_equal(unit.owner, problem.owner)
    assert np.array_equal(unit.y_test, problem.y_test)
    assert unit.name == "mine"


def test_it_is_a_value_nobody_can_change():
    x = X.copy()
    problem = Problem(x, Y)
    x[0, 0] = 100.0
    assert problem.x[0, 0] == X[0, 0]
    with pytest.raises(ValueError, match="read-only"):
        problem.x[0, 0] = 3.0


def test_the_default_is_one_client_and_owners_may_be_whole_floats():
    assert Problem(X, Y).n_clients == 1
    problem = Problem(X, Y, np.array([0.0, 1.0, 1.0, 0.0]))
    assert problem.owner.tolist() == [0, 1, 1, 0]
    assert np.issubdtype(problem.owner.dtype, np.integer)


def with_entry(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


BAD = [
    ({"x": with_entry(X, (2, 1), np.nan)}, "x[2, 1] is nan; every entry must be finite"),
    ({"x": with_entry(X, (3, 0), -np.inf)}, "x[3, 0] is -inf; every entry must be finite"),
    ({"x": X * 1j}, "x is complex; every entry must be a real number"),
    ({"x": Y}, "x has shape (4,); it must be (n, d) with n and d at least 1"),
    ({"x": np.zeros((0, 3))}, "x has shape (0, 3); it must be (n, d) with n and d at least 1"),
    ({"x": np.zeros((4, 0))}, "x has shape (4, 0); it must be (n, d) with n and d at least 1"),
    ({"y": with_entry(Y, 2, np.inf)}, "y[2] is inf; every entry must be finite"),
    ({"y": Y[:3]}, "y has shape (3,); it must be (4,) or (4, C), one label per row of x"),
    ({"y": 1.0}, "y has shape (); it must be (4,) or (4, C), one label per row of x"),
    ({"y": np.ones((4, 2, 2))}, "y has shape (4, 2, 2); it must be (4,) or (4, C), one label per row of x"),
    ({"owner": [0, 1]}, "owner has shape (2,); it must name one client per sample, shape (4,)"),
    ({"owner": [0, 0.5, 1, 1]}, "owner[1] is 0.5; it must hold the integers 0..N-1"),
    ({"owner": [0, np.nan, 1, 1]}, "owner[1] is nan; it must hold the integers 0..N-1"),
    ({"owner": ["a", "b", "a", "b"]}, "owner has dtype <U1; it must hold the integers 0..N-1"),
    ({"owner": [0, -2, 1, 1]}, "owner contains -2; clients are numbered from 0"),
    ({"owner": [0, 3, 1, 1]}, "client 2 owns no sample; every client 0..3 must own at least one"),
    ({"owner": [0, 10**12, 0, 0]}, "client 1 owns no sample; every client 0..1000000000000 must own at least one"),
    ({"x_test": X}, "x_test and y_test come together: one of them is missing"),
    ({"y_test": Y}, "x_test and y_test come together: one of them is missing"),
    ({"x_test": X[:, :2], "y_test": Y}, "x_test has 2 features, x has 3: they must agree"),
    ({"x_test": X[:3], "y_test": Y}, "y_test has shape (4,); it must be (3,)"),
    ({"x_test": X, "y_test": np.ones((4, 2))}, "y_test has shape (4, 2); it must be (4,)"),
    ({"x_test": with_entry(X, (0, 0), np.nan), "y_test": Y}, "x_test[0, 0] is nan; every entry must be finite"),
    ({"x_test": X, "y_test": with_entry(Y, 0, np.nan)}, "y_test[0] is nan; every entry must be finite"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_what_is_no_problem_is_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Problem(**({"x": X, "y": Y} | changes))


@pytest.mark.parametrize("name", ["x", "x_test"])
def test_a_row_of_zeros_is_a_sample_without_a_direction(name):
    """A row of zeros is a sample without a direction.

    Networks with biases train on it, and functions that need a row's direction refuse it.
    """
    problem = Problem(**{"x": X, "y": Y, "x_test": X, "y_test": Y, name: with_entry(X, 1, 0.0)})
    message = f"row 1 of {name} is zero: it has no direction, and there a network without biases is 0 whatever"
    for needs in (problem.require_no_zero_row, problem.unit):
        with pytest.raises(ValueError, match=message):
            needs()


def test_rows_off_the_sphere_are_named_with_the_remedy():
    x = np.array([[1.0, 0.0], [0.0, 1.0 + 1e-9]])
    problem = Problem(x, np.zeros(2))
    with pytest.raises(ValueError, match=r"unit norm; they are off by up to 1e-09\. Problem\.unit\(\).*--unit"):
        problem.require_unit()
    problem.unit().require_unit()


SIZES = [(name, value) for name in ("width", "local_steps", "rounds") for value in (0, -1, 2.0, True, "3")]
POSITIVE = [(name, v) for name in ("sigma", "eta_local", "eta_global") for v in (0, -0.1, np.nan, np.inf)]


@pytest.mark.parametrize(("name", "value"), SIZES)
def test_sizes_are_positive_integers(name, value):
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; it must be a positive integer")):
        Setup(**{name: value})


@pytest.mark.parametrize("name", ["sigma", "eta_local", "eta_global"])
def test_a_truth_value_is_no_step(name):
    with pytest.raises(ValueError, match=f"{name} is True; it must be a number, and be a positive finite number"):
        Setup(**{name: True})


@pytest.mark.parametrize(("name", "value"), POSITIVE)
def test_steps_and_sigma_are_positive_and_finite(name, value):
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; it must be a positive finite number")):
        Setup(**{name: value})


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5, True])
def test_a_seed_is_a_63_bit_integer(seed):
    with pytest.raises(ValueError, match=re.escape(f"seed is {seed!r}; it must be an integer from 0 to 2^63 - 1")):
        Setup(seed=seed)


def test_the_ends_of_the_allowed_range_are_allowed():
    setup = Setup(width=1, sigma=5e-324, local_steps=1, rounds=np.int64(1), seed=2**63 - 1)
    assert setup.seed == 2**63 - 1


def test_a_problem_is_shown_in_one_line_without_its_numbers():
    x = np.arange(12.0).reshape(4, 3)
    assert repr(Problem(x, x[:, 0], [0, 1, 1, 0])) == "<Problem data: x (4, 3), N = 2>"
    shown = repr(Problem(x, x[:, :2], x_test=x[:1], y_test=x[:1, :2], name="mine"))
    assert shown == "<Problem mine: x (4, 3), y (4, 2), N = 1, x_test (1, 3)>"


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: Setup(rate=0.1), TypeError, "Setup has no rate: a step on sums of losses is eta_local"),
        (lambda: Setup(server_rate=1.0), TypeError, "Setup has no server_rate: the server's step is eta_global here"),
        (lambda: replace(Setup(), rate=0.1), TypeError, "Setup has no rate"),
        (lambda: Setup().server_rate, AttributeError, "Setup has no server_rate"),
        (lambda: Problem(np.eye(2), np.ones(2)).clients, AttributeError, "Problem has no clients: n_clients is"),
        (lambda: Problem(np.eye(2), np.ones(2)).owners, AttributeError, "'Problem' object has no attribute 'owners'"),
        (lambda: Setup(eta=0.1), TypeError, "unexpected keyword argument 'eta'"),
    ],
)
def test_names_of_elsewhere_are_refused_by_the_name_in_use(made, error, message):
    with pytest.raises(error, match=message):
        made()


def test_a_setup_is_still_described_by_its_fields():
    assert list(inspect.signature(Setup).parameters) == [field.name for field in fields(Setup)]


def test_standardised_columns_have_mean_0_and_deviation_1_and_test_samples_move_along():
    x = np.random.default_rng(0).standard_normal((9, 3)) * [1e-3, 1, 1e4] + [5, 0, 1e4]
    x = np.column_stack([x, np.full(9, 0.1)])
    problem = Problem(x, np.zeros(9), x_test=x[::-1], y_test=np.zeros(9)).standardised()
    assert np.abs(problem.x.mean(axis=0)).max() < 1e-12
    assert np.abs(problem.x.std(axis=0) - [1, 1, 1, 0]).max() < 1e-12
    assert np.array_equal(problem.x_test, problem.x[::-1])
