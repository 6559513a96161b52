"""Eq (8): one round of the residual, with the terms C_1 to C_4 bounded one by one."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.families.paper_steps import NECESSITY, PAPER_STEPS, PREMISE, round_constants
from bounds.fl_ntk.terms.round_map import STEP, next_square
from bounds.mutants import power, replaced
from bounds.symbols import K, N, R, eta_global, eta_local, lam, n, r_t


def _bound(square) -> sp.Expr:
    return (1 - STEP * lam + 80 * STEP * n * R + square * STEP**2 * n**2) * r_t**2


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq8",
        title="One round of the residual, term by term",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Theorem B.3, Eq (8)",
            note="the paper prints the term of C_4 with the coefficient 1 where Claim B.7 gives 4 (1 + 2 eta_l n K)^2. "
            "This does no harm: under the premise the difference is at most .0031 rho lambda, and the bound on C_1 "
            "leaves .98 rho lambda unused; both forms hold. The display before (8) lacks the leading |y - y(t)|^2. The "
            "random events are a hypothesis, for the given R",
        ),
        hypotheses=PREMISE,
        forms={
            Form.STATED: Claim(_bound(1)),
            Form.NEW: Claim(_bound(4 * (1 + 2 * eta_local * n * K) ** 2)),
        },
        constants=round_constants,
        measure=next_square,
        symbols={R: "lambda/(1000 n), which no weight vector leaves"},
        left_formula="|y - y(t+1)|^2",
        says_left="|y - y(t+1)|^2 of the simulated run, every round",
        families=(PAPER_STEPS,),
        mutants=(
            replaced(lam, 3 * lam, "lambda times 3"),
            replaced(K, 3 * K, "three times the local steps"),
            power(eta_global, -1),
            power(N, -1),
        ),
        necessity=NECESSITY,
        uses=("fl-ntk/B.4", "fl-ntk/B.5", "fl-ntk/B.6", "fl-ntk/B.7"),
    ),
)
