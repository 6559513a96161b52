"""Cases of statements on one round at the steps of the proof: their premise and values, and cases that break it."""

from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.paper_steps import (
    EVENTS,
    SMALL_AS_PRINTED,
    WITHIN_RADIUS,
    lone_neuron_far_from_its_label,
    long_row_in_the_premise,
    overshooting_steps,
    radius,
)
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, UNIT_ROWS
from bounds.symbols import K, N, R, eta_global, eta_local, lam, n, r_t

PREMISE = (UNIT_ROWS, POSITIVE_SPECTRUM, SMALL_AS_PRINTED, WITHIN_RADIUS, EVENTS)
NECESSITY = {
    "unit-rows": long_row_in_the_premise,
    "steps-of-the-proof": overshooting_steps,
    "within-R": lone_neuron_far_from_its_label,
}


def round_constants(case: FederatedRun) -> dict:
    """n, N, K, the steps, lambda, R = lambda/(1000 n) and |y - y(t)| for t = 0..T-1."""
    return run_values(case, n, N, K, eta_local, eta_global, lam) | {
        R: radius(case),
        r_t: case.observed("residual_norm")[:-1],
    }
