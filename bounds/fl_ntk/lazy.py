"""Section 3.2, three observations: weights and patterns change lazily, and the residual bounds the outputs' change."""

from functools import partial

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.families.few_points import long_row, overshooting_clients, small_step_families
from bounds.fl_ntk.premises import SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import output_changes, run_constants
from bounds.ladders.width_ladder import ladder_families
from bounds.ladders.width_rate import HALF, Quantity, statistic, width_rate
from bounds.mutants import power, sign_flipped, without
from bounds.symbols import K, eta_local, n, r_t, rho

_rate = partial(width_rate, form=Form.STATED, families=ladder_families)

WEIGHTS = _rate(
    "fl-ntk/lazy-weights",
    "Weights change lazily: a round moves no neuron by more than the order of m^(-1/2)",
    (Quantity("max_{t,r} |u_r(t+1) - u_r(t)|", HALF, statistic("step")),),
    source=Source(
        FL_NTK,
        "section 3.2, first observation",
        note="stated as |u(t+1) - u(t)| <= O(1/n) without a subscript, and read as one neuron's step. This step is of "
        "the order m^(-1/2), and so below 1/n at the widths, n^4 and more, that the theorems ask for. Under the other "
        "reading, the step of all neurons together, the width plays no role, and the claim would be about the step "
        "sizes alone",
    ),
    note="exponent in the width of a neuron's largest step",
    says_left="log-log slope over a ladder of widths of max over t and r of |u_r(t+1) - u_r(t)|",
    uses=("fl-ntk/B.12",),
)
PATTERNS = _rate(
    "fl-ntk/lazy-patterns",
    "Activation patterns remain roughly the same: |H_perp|_F falls with the width",
    (Quantity("max_k |H(t,k)^perp|_F", HALF, statistic("complement")),),
    source=Source(
        FL_NTK,
        "section 3.2, second observation",
        note="stated as |H_perp|_F <= O(1). The bound 4 n R with R ~ m^(-1/2) gives this, with the exponent -1/2",
    ),
    note="exponent in the width of |H_perp|_F",
    says_left="log-log slope over a ladder of widths of max_k |H(t,k)^perp|_F at the middle round, R being the "
    "largest movement of the run",
    uses=("fl-ntk/B.11",),
)
REMAINDER = _rate(
    "fl-ntk/lazy-remainder",
    "The neurons outside Q_i change the outputs by a part of the residual that falls with the width",
    (Quantity("|v_2| / |y - y(t)|", HALF, statistic("remainder")),),
    source=Source(
        FL_NTK,
        "section 3.2, second observation",
        note="stated as |v_2| <= O(|y - y(t)|); by Claim B.6 it is of the order n R |y - y(t)| with R ~ m^(-1/2), "
        "so the exponent is -1/2",
    ),
    note="exponent in the width of |v_2| / |y - y(t)|",
    says_left="log-log slope over a ladder of widths of |v_2| / |y - y(t)| at the middle round, R being the "
    "largest movement of the run",
    uses=("fl-ntk/B.6",),
)

STATEMENTS = (
    Statement(
        id="fl-ntk/lazy-error",
        title="A round changes the outputs by at most a multiple of the residual",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "section 3.2, third observation",
            note="stated as |y(t+1) - y(t)| <= O(|y - y(t)|); the constant is that of Claim B.7, 2 rho n (1 + 2 eta_l "
            "n K), which is O(1) at the paper's steps, and twice the constant that Lemma B.10's new form gives",
        ),
        hypotheses=(UNIT_ROWS, SMALL_LOCAL_STEPS),
        forms={Form.STATED: Claim(2 * rho * n * (1 + 2 * eta_local * n * K) * r_t)},
        constants=lambda case: run_constants(case) | {rho: case.rho},
        measure=output_changes,
        left_formula="|y(t+1) - y(t)|",
        says_left="|y(t+1) - y(t)| of the simulated run, every round",
        families=small_step_families,
        mutants=(
            without(n),
            power(rho, sp.Rational(3, 2)),
            sign_flipped(eta_local, "the drift"),
        ),
        necessity={"unit-rows": long_row, "small-local-steps": overshooting_clients},
        uses=("fl-ntk/B.7", "fl-ntk/B.10"),
    ),
    PATTERNS,
    REMAINDER,
    WEIGHTS,
)
