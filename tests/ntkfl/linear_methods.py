"""Shared parts of the tests of exact linear limits: methods with options, and problems whose clients differ in size."""

import numpy as np
import pytest

from ntkfl.problem import Problem

METHODS = (
    ("fl-ntk", {"server_rate": 1.3}),
    ("fedavg", {"server_rate": 1.5}),
    ("fedprox", {"mu": 0.7}),
    ("fednova", {}),
    ("fednova", {"mu": 0.3}),
    ("scaffold", {}),
    ("scaffold", {"option": "I", "server_rate": 0.8}),
    ("feddyn", {"alpha": 2.0}),
    ("cyclic", {"server_rate": 0.8}),
    ("fedavgm", {"momentum": 0.6}),
    ("fedavgm", {"momentum": 0.6, "nesterov": True, "server_rate": 0.7}),
)
EACH = pytest.mark.parametrize(("method", "options"), METHODS, ids=[f"{m}-{len(o)}" for m, o in METHODS])
quietly = pytest.mark.filterwarnings("ignore::ntkfl.exact_dynamics.UnstableSteps")


def ragged(sizes, d=4, seed=0, repeated=False):
    """Returns a problem with unit rows and clients of these sizes.

    If `repeated`, the last row equals the first, so that H is singular.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((sum(sizes), d))
    x[-1] = x[0] if repeated else x[-1]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return Problem(x, rng.uniform(-1, 1, len(x)), rng.permutation(np.repeat(np.arange(len(sizes)), sizes)))
