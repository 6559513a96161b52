"""The round map in balls, with few, many and infinitely many local steps."""

from dataclasses import replace

import numpy as np
import pytest

from bounds.fl_ntk.antipodal import AntipodalDraw
from bounds.fl_ntk.round_map import limit_response, round_map
from bounds.kernel_case import BITS, KernelCase
from ntkfl import data
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.exact_dynamics import kernel_regime
from ntkfl.problem import Setup


def matrix(case, **how):
    with precision(BITS):
        return enclosure(round_map(case, **how)).value


def test_it_is_the_map_of_the_kernel_regime():
    problem = data.sphere(6, 4, seed=1, clients=3)
    setup = Setup(eta_local=0.4, eta_global=0.8, local_steps=3)
    found = matrix(KernelCase(problem, setup))
    assert np.allclose(found, kernel_regime(problem, setup).round_map, rtol=0, atol=1e-13)


def test_many_local_steps_come_to_the_limit_whatever_the_step():
    problem, setup = data.sphere(5, 4, seed=2, clients=2), Setup(eta_local=1.0, local_steps=3000)
    limit = matrix(KernelCase(problem, setup), unlimited=True)
    assert np.allclose(matrix(KernelCase(problem, setup)), limit, rtol=0, atol=1e-12)
    other = KernelCase(problem, replace(setup, eta_local=0.01))
    assert np.allclose(matrix(other, unlimited=True), limit, rtol=0, atol=1e-14)


def test_steps_beyond_the_limit_have_none():
    with pytest.raises(ValueError, match=r"after 2\^64 local steps of 5.* needs 0 < eta_l q < 2"):
        limit_response(ball_matrix(np.eye(2)), ball(5.0))


@pytest.mark.parametrize("seed", range(6))
def test_antipodal_families_have_a_relation(seed):
    family = AntipodalDraw().case(seed)
    assert family.relation.hi < 1e-14
    assert np.abs(family.coefficients.value).max() > 1e-3
