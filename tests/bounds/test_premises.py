"""Tests of hypotheses on steps: no run is made if the quantities before training already break the hypothesis.

A hypothesis is met exactly if the bounds of the whole run meet it. Without a run it is never met.
"""

import numpy as np
import pytest

from bounds.federated_run import federated_run
from bounds.fl_ntk.premises import LOCAL_CONTRACTION, SMALL_STEPS, block_bounds
from ntkfl.data import sphere
from ntkfl.problem import Setup


def _case(eta):
    return federated_run(sphere(n=6, d=4, seed=1), Setup(width=4096, eta_local=eta, local_steps=2, rounds=4, seed=2))


@pytest.mark.parametrize("hypothesis", [LOCAL_CONTRACTION, SMALL_STEPS], ids=lambda h: h.name)
def test_a_step_that_the_start_rules_out_takes_no_run(hypothesis):
    met = []
    for eta in (1e-4, 1e-2, 0.3, 2.0):
        case = _case(eta)
        met.append(hypothesis.met(case))
        ran = "trajectory" in case.__dict__
        # These are bounds of the whole run, whereas the tested shortcut only uses the start.
        change, bottom, lowest, highest = block_bounds(_case(eta))
        smallest, top = case.smallest_eigenvalue, float(case.largest_eigenvalue.hi)
        contracts = 2 * lowest - eta * highest**2 - float(smallest.hi) / 2
        if hypothesis is SMALL_STEPS:
            gain = 2 * bottom - top * eta * highest - float(case.rho.hi) * (top + change) ** 2 - float(smallest.hi) / 2
            contracts = np.minimum(gain, 2 * lowest - eta * highest**2)
        assert met[-1] == (contracts >= 0) and (ran or contracts < 0)
    assert met[0] and not met[-1] and not ran
