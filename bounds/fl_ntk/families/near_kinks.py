"""The common parts of statements on neurons near their kinks: hypotheses, families, and cases where claims fail."""

from typing import Any

import numpy as np

from bounds import Hypothesis, Kind, Limit
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun, federated_run
from bounds.fl_ntk.families.few_points import small_step_runs
from bounds.fl_ntk.premises import UNIT_ROWS, UNIT_SIGMA
from bounds.fl_ntk.terms.round_parts import snapshot_constants
from bounds.symbols import R, r_t
from ntkfl.problem import Problem, Setup

LIKELY = Hypothesis(
    "probability-below-1",
    "n exp(-m R) < 1: the claim says something",
    Limit(
        "m R",
        lambda case: case.setup.width * snapshot(case).radius,
        at_least=lambda case: np.log(case.problem.n) + 1e-9,
    ),
    eased_by=("width",),
)


def one_point(length: float = 1.0, sigma: float = 1.0) -> FederatedRun:
    """One sample, ten small rounds: a long row makes H large, a small sigma puts all neurons near the kink."""
    problem = Problem(length * np.eye(2)[:1], np.ones(1), name="one point")
    return federated_run(problem, Setup(width=4096, sigma=sigma, eta_local=0.01, local_steps=1, rounds=10))


NEAR_KINKS: dict[str, Any] = {  # common parts of claims on neurons near their kinks
    "kind": Kind.PROBABILITY,
    "hypotheses": (UNIT_ROWS, UNIT_SIGMA, LIKELY),
    "constants": snapshot_constants,
    "symbols": {r_t: "|y - y(t)|_2 at the middle round", R: "movement of the run by round t+1"},
    "families": small_step_runs,
    "necessity": {"unit-rows": lambda: one_point(length=12.0), "unit-sigma": lambda: one_point(sigma=1e-4)},
}
