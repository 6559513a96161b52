"""Narrow networks: observed values enclose the run in balls, even where two summation orders round alike."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounds.federated_run import FEW_NEURONS, FederatedRun
from ntkfl import data
from ntkfl.algorithm1.reference import BALL, Undecided
from ntkfl.initialisation import draw
from ntkfl.problem import Setup

OBSERVED = ("outputs", "residual_norm", "movement")


@settings(deadline=None, max_examples=30)
@given(width=st.integers(1, FEW_NEURONS + 3), seed=st.integers(0, 2**16), rounds=st.integers(1, 4))
def test_what_is_observed_encloses_the_ball_run(width, seed, rounds):
    problem = data.sphere(4, 3, seed=seed, clients=2)
    setup = Setup(width=width, eta_local=0.1, local_steps=2, rounds=rounds, seed=seed)
    run = FederatedRun(problem, setup, draw(width, problem.d, seed))
    try:
        sure = {name: run.with_arithmetic(BALL).observed(name) for name in OBSERVED}
    except Undecided:
        return
    for name in OBSERVED:
        observed = run.observed(name)
        assert (np.abs(observed.value - sure[name].value) <= observed.error + sure[name].error).all(), name
        assert observed.error.max() <= 1e-11 * (1 + np.abs(observed.value).max()), "it says more than nothing"


@pytest.mark.parametrize(("width", "method"), [(FEW_NEURONS - 1, "extended"), (FEW_NEURONS, "two summation orders")])
def test_the_method_says_what_the_error_comes_from(width, method):
    problem = data.sphere(4, 3, seed=1, clients=2)
    run = FederatedRun(problem, Setup(width=width, rounds=2), draw(width, problem.d, 1))
    assert method in run.observed("outputs").method
