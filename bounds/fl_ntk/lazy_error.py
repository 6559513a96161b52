"""Section 3.2, third observation: the error controls how far a round changes the outputs."""

import sympy as sp

from bounds.fl_ntk.families.aligned import long_row, overshooting_clients
from bounds.fl_ntk.families.small_steps import small_step_draws
from bounds.fl_ntk.premises import SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.output_changes import output_changes, run_constants
from bounds.mutants import power, sign_flipped, without
from bounds.statement import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.symbols import K, eta_local, n, r_t, rho

STATEMENTS = (
    Statement(
        id="fl-ntk/lazy-error",
        title="A round changes the outputs by at most a multiple of the residual",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "section 3.2, third observation",
            note="stated as |y(t+1) - y(t)| <= O(|y - y(t)|); the constant is that of Claim B.7, 2 rho n (1 + 2 eta_l "
            "n K), which is O(1) at the paper's steps. Twice what Lemma B.10 repaired gives",
        ),
        hypotheses=(UNIT_ROWS, SMALL_LOCAL_STEPS),
        forms={Form.STATED: Claim(2 * rho * n * (1 + 2 * eta_local * n * K) * r_t)},
        constants=lambda case: run_constants(case) | {rho: case.rho},
        measure=output_changes,
        says_left="|y(t+1) - y(t)| of the simulated run, every round",
        draws=small_step_draws,
        mutants=(
            without(n),
            power(rho, sp.Rational(3, 2)),
            sign_flipped(eta_local, "the drift"),
        ),
        necessity={"unit-rows": long_row, "small-local-steps": overshooting_clients},
        uses=("fl-ntk/B.7", "fl-ntk/B.10"),
    ),
)
