"""Eq (16): residuals seen by the local models against the global residual."""

from __future__ import annotations

import sympy as sp

from bounds.federated_run import FederatedRun, distance
from bounds.fl_ntk.aligned import long_row, overshooting_clients
from bounds.fl_ntk.b_7 import run_constants, small_step_draws
from bounds.fl_ntk.eq1 import squared
from bounds.fl_ntk.premises import SMALL_FOR_K, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.formula import Formula
from bounds.mutants import power, reversed_comparison, scaled, sign_flipped, without
from bounds.statement import FL_NTK, Form, Kind, Outcome, Source, Statement
from bounds.symbols import K, eta_local, n, r_t

GROWTH = (1 + 2 * eta_local * n * K) ** 2 * r_t**2


def _constants(case: FederatedRun) -> dict:
    constants = run_constants(case)
    return constants | {r_t: constants[r_t][:, None]}


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq16",
        title="Local residuals are bounded by the global one",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK, "Eq (16)", note="its first '=' must be '<='; the factor 2 is not needed (triangle inequality)"
        ),
        hypotheses=(UNIT_ROWS,),
        form_hypotheses={Form.STATED: (SMALL_LOCAL_STEPS,), Form.REPAIRED: (SMALL_FOR_K,)},
        forms={Form.STATED: Formula(2 * GROWTH), Form.REPAIRED: Formula(GROWTH)},
        recorded={Form.STATED: Outcome.HOLDS, Form.REPAIRED: Outcome.HOLDS},
        constants=_constants,
        measure=lambda case: squared(distance(case.observed("local_outputs"), case.problem.y)),
        says_left="|y - y^{(k)}(t)|^2 from the recorded local outputs, every round and k = 0..K",
        draws=small_step_draws,
        mutants=(
            scaled(sp.Rational(9, 10)),
            sign_flipped(eta_local, "the drift"),
            power(r_t, sp.Rational(1, 2)),
            without(r_t),
            reversed_comparison(),
        ),
        necessity={
            "unit-rows": long_row,
            "small-local-steps": overshooting_clients,
            "small-for-K": overshooting_clients,
        },
    ),
)
