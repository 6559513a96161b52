"""Eq (16): the residuals of the local models are bounded by the global residual."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.federated_run import distance
from bounds.fl_ntk.families.few_points import long_row, overshooting_clients, small_step_families
from bounds.fl_ntk.premises import SMALL_FOR_K, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import run_constants
from bounds.mutants import power, sign_flipped, without
from bounds.symbols import K, eta_local, n, r_t

GROWTH = (1 + 2 * eta_local * n * K) ** 2 * r_t**2


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq16",
        title="Local residuals are bounded by the global one",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK, "Eq (16)", note="its first '=' must be '<='; the factor 2 is not needed (triangle inequality)"
        ),
        hypotheses=(UNIT_ROWS,),
        forms={
            Form.STATED: Claim(2 * GROWTH, hypotheses=(SMALL_LOCAL_STEPS,)),
            Form.NEW: Claim(GROWTH, hypotheses=(SMALL_FOR_K,)),
        },
        constants=lambda case: run_constants(case) | {r_t: case.observed("residual_norm")[:-1, None]},
        measure=lambda case: distance(case.observed("local_outputs"), case.problem.y).squared(),
        left_formula="|y - y^{(k)}(t)|^2",
        says_left="|y - y^{(k)}(t)|^2 from the recorded local outputs, every round and k = 0..K",
        families=small_step_families,
        mutants=(
            sign_flipped(eta_local, "the drift"),
            power(r_t, sp.Rational(1, 2)),
            without(r_t),
        ),
        necessity={
            "unit-rows": long_row,
            "small-local-steps": overshooting_clients,
            "small-for-K": overshooting_clients,
        },
    ),
)
