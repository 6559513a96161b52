"""Tests of the cases that train smooth networks by any method.

The run of a case agrees with the training engine's run, and its stated rounding error covers the true error.
"""

import numpy as np
import pytest
import torch

from bounds.deep.cases.method_rounds import KINDS, MethodRun, method_case, named
from ntkfl import networks
from ntkfl.networks import simulate_network


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_is_that_of_the_engine(kind):
    case = method_case(1, kind, 0.5, "fc:2:gelu", 12, 2, 0.5)
    run, (name, options) = MethodRun(case), named(kind)
    for _ in range(3):
        run.round()
    setup = case.setup.__class__(**(vars(case.setup) | {"rounds": 3}))
    later = simulate_network(case.problem, setup, case.model, case.params, method=name, options=options, keep=[3])
    engine = torch.cat([torch.as_tensor(value).reshape(-1) for value in later.weights[3].values()])
    moved = float((run.at - case.start).norm())
    assert float((run.at - engine).norm()) <= 1e-9 * moved + run.moved_off


def test_float64_loses_less_than_is_said():
    """The stated rounding error covers the effect of another order of the neurons, which only changes how sums are
    rounded.
    """
    case = method_case(1, "scaffold", 0.3, "fc:2:erf", 30, 2, 0.6)
    order, params = torch.randperm(30, generator=torch.Generator().manual_seed(0)), dict(case.params)
    first, second = sorted(params)[:2]
    params[first], params[second] = params[first][order], params[second][..., order]
    other = method_case(1, "scaffold", 0.3, "fc:2:erf", 30, 2, 0.6)
    other.__dict__["params"] = params
    object.__setattr__(other, "problem", case.problem)
    assert networks.wide(case.spec).model((4,), 30).initial(1).keys() == params.keys()
    off = np.abs(np.array(other.run.sizes) - case.run.sizes)
    assert 0 < off.max() <= case.run.sizes_off
    assert abs(other.run.moved - case.run.moved) <= case.run.moved_off
