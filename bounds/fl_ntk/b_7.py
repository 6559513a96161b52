"""Claim B.7: the squared change of the outputs in a round."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.families.few_points import long_row, overshooting_clients, small_step_families
from bounds.fl_ntk.premises import SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import output_changes, run_constants
from bounds.mutants import index_shifted, power, without
from bounds.symbols import K, N, eta_global, eta_local, n, r_t

STATEMENTS = (
    Statement(
        id="fl-ntk/B.7",
        title="C_4, the squared change of the outputs in a round",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Claim B.7",
            note="the factor 1/N^2 allows eta_g up to N, so that the number of rounds need not grow with the number of "
            "clients (X.6)",
        ),
        hypotheses=(UNIT_ROWS, SMALL_LOCAL_STEPS),
        forms={
            Form.STATED: Claim(
                4 * eta_local**2 * eta_global**2 * n**2 * K**2 * (1 + 2 * eta_local * n * K) ** 2 / N**2 * r_t**2
            )
        },
        constants=run_constants,
        measure=lambda case: output_changes(case).squared(),
        left_formula="|y(t+1) - y(t)|^2",
        says_left="|y(t+1) - y(t)|^2 of the simulated run, every round",
        families=small_step_families,
        mutants=(
            without(n),
            power(eta_local, sp.Rational(3, 2)),
            index_shifted(K, -1),
        ),
        necessity={"unit-rows": long_row, "small-local-steps": overshooting_clients},
        uses=("fl-ntk/B.10",),
    ),
)
