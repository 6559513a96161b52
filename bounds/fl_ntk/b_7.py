"""Claim B.7: the squared change of the outputs in a round."""

from __future__ import annotations

import sympy as sp

from bounds.cases.run_values import run_values
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.aligned import long_row, overshooting_clients
from bounds.fl_ntk.families.small_steps import small_step_draws
from bounds.fl_ntk.premises import SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.mutants import index_shifted, power, without
from bounds.statement import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.symbols import K, N, eta_global, eta_local, n, r_t
from ntkfl.estimate import Estimate


def run_constants(case: FederatedRun) -> dict:
    """n, N, K, the steps, and |y - y(t)| for t = 0..T-1."""
    return run_values(case, n, N, K, eta_local, eta_global) | {r_t: case.observed("residual_norm")[:-1]}


def output_changes(case: FederatedRun) -> Estimate:
    """|y(t+1) - y(t)| for t = 0..T-1."""
    outputs = case.observed("outputs")
    return (outputs[1:] - outputs[:-1]).norm(-1)


STATEMENTS = (
    Statement(
        id="fl-ntk/B.7",
        title="C_4, the squared change of the outputs in a round",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Claim B.7",
            note="its 1/N^2 allows eta_g up to N: rounds need not grow with the number of clients (X.6)",
        ),
        hypotheses=(UNIT_ROWS, SMALL_LOCAL_STEPS),
        forms={
            Form.STATED: Claim(
                4 * eta_local**2 * eta_global**2 * n**2 * K**2 * (1 + 2 * eta_local * n * K) ** 2 / N**2 * r_t**2
            )
        },
        constants=run_constants,
        measure=lambda case: output_changes(case).squared(),
        says_left="|y(t+1) - y(t)|^2 of the simulated run, every round",
        draws=small_step_draws,
        mutants=(
            without(n),
            power(eta_local, sp.Rational(3, 2)),
            index_shifted(K, -1),
        ),
        necessity={"unit-rows": long_row, "small-local-steps": overshooting_clients},
        uses=("fl-ntk/B.10",),
    ),
)
