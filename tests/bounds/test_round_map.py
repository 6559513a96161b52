"""Tests of the round map of a kernel case, and of all numbers that statements take from it.

The map and the numbers are compared with a computation in ball arithmetic, whose intervals provably contain the exact
values.
"""

from dataclasses import replace

import numpy as np
import pytest
from ball_round_map import limit_response, round_map
from hypothesis import given, settings

from bounds.cases.kernel_case import BITS, KernelCase, kernel_cases
from bounds.fl_ntk.clients_and_rounds import limit_map
from bounds.fl_ntk.initial_kernel import antipodal_pairs
from bounds.fl_ntk.round_spectrum import ROUNDS
from ntkfl import data
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.problem import Setup

CASE = KernelCase(data.sphere(6, 4, seed=1, clients=3), Setup(eta_local=0.4, eta_global=0.8, local_steps=3))


def matrix(case, **how):
    with precision(BITS):
        return enclosure(round_map(case, **how)).value


def assert_encloses(estimate, expected, most=1e-10):
    assert (np.abs(estimate.value - expected) <= estimate.error).all()
    assert estimate.error.max() <= most * max(1, np.abs(expected).max())


def test_it_is_the_map_of_the_kernel_regime():
    assert_encloses(CASE.round_map, matrix(CASE))
    assert not np.allclose(matrix(CASE), matrix(CASE).T, rtol=0, atol=1e-3)  # the map is not symmetric


@settings(deadline=None, max_examples=40)
@given(kernel_cases())
def test_errors_cover_the_map_in_balls_whatever_the_data_and_the_steps(case):
    try:
        estimate = case.round_map
    except (OverflowError, np.linalg.LinAlgError):
        return  # Such cases have steps far beyond the stable limit, or a factor that float64 cannot represent.
    with precision(BITS):
        exact = enclosure(round_map(case))
    assert (np.abs(estimate.value - exact.value) <= estimate.error + exact.error).all()


def test_rate_and_spectrum_are_those_of_the_map_in_balls():
    values = np.linalg.eigvals(matrix(CASE))
    assert np.abs(values.imag).max() < 1e-13
    assert_encloses(CASE.rate, np.abs(values).max())
    assert_encloses(CASE.map_eigenvalues, np.sort(values.real)[::-1])


def test_the_residual_after_many_rounds_is_a_power_of_the_map():
    with precision(BITS):
        end = enclosure(round_map(CASE) ** ROUNDS * ball_matrix(CASE.problem.y)).value[:, 0]
    residual = CASE.regime.of(lambda regime, _: regime.residual(ROUNDS), samples=(0,))
    assert (np.abs(residual.value - end) <= residual.error).all()
    # The error is small relative to the residual's own size, however small the residual is.
    assert residual.error.max() < 1e-11 * np.abs(end).max()


def test_many_local_steps_come_to_the_limit_whatever_the_step():
    problem, setup = data.sphere(5, 4, seed=2, clients=2), Setup(eta_local=1.0, local_steps=3000)
    limit = matrix(KernelCase(problem, setup), unlimited=True)
    assert np.allclose(matrix(KernelCase(problem, setup)), limit, rtol=0, atol=1e-12)
    other = KernelCase(problem, replace(setup, eta_local=0.01))
    assert np.allclose(matrix(other, unlimited=True), limit, rtol=0, atol=1e-14)
    for case in (KernelCase(problem, setup), other):
        assert_encloses(limit_map(case), limit)


def test_steps_beyond_the_limit_have_none():
    with pytest.raises(ValueError, match=r"after 2\^64 local steps of 5.* needs 0 < eta_l q < 2"):
        limit_response(ball_matrix(np.eye(2)), ball(5.0))


@pytest.mark.parametrize("seed", range(6))
def test_antipodal_families_have_a_relation(seed):
    family = antipodal_pairs(seed)
    assert family.relation.hi < 1e-14
    assert np.abs(family.coefficients.value).max() > 1e-3
