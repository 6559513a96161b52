"""Lemma 6.2: C_1 to C_4 against rho lambda |y - y(t)|^2, with explicit constants."""

from functools import lru_cache

import sympy as sp

from bounds import FL_NTK, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.paper_steps import (
    EVENTS,
    LEMMA_STEPS,
    NECESSITY,
    PAPER_STEPS,
    SMALL_AS_PRINTED,
    WITHIN_RADIUS,
    overshooting_server_in_the_premise,
    overshooting_steps,
    radius,
    round_constants,
    step_margin,
)
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, SERVER_AT_MOST_1, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import STEP
from bounds.fl_ntk.terms.round_parts import progress, residual
from bounds.mutants import power, replaced, scaled
from bounds.symbols import K, N, eta_global, kappa, lam, n, r_t
from ntkfl import Estimate, gram

UNIT = STEP * lam * r_t**2  # rho lambda |y - y(t)|^2
FORTIETH = sp.Rational(1, 40)
GROWTH = 1 + sp.Rational(2, 1000)  # 1 + 2 eta_l n K, at most
NEAR = sp.Rational(1, 1000)  # n R / lambda, at most

SMALL_AS_IN_THE_LEMMA = Hypothesis(
    "small-local-steps-of-the-lemma",
    "eta_l <= 1/(400 kappa K n^2): the lemma's O() with the constant 1/400",
    lambda case: step_margin(1 / (400 * kappa * K * n**2), case)[:1],
)
LARGE_TOP = Hypothesis(
    "mu-at-least-.45",
    "|H(0)| >= .45: it is at least the mean share of active neurons, about 1/2",
    lambda case: case.largest_eigenvalue - 0.45,
)


@lru_cache(maxsize=2)  # two forms use the same case, one after the other
def _measure(case: FederatedRun) -> tuple[Estimate, ...]:
    """C_1, ..., C_4 at the middle round, with Q_i for R = lambda/(1000 n)."""
    inside = snapshot(case)
    unsafe = ~gram.safe_neurons(case.problem.x, case.weights.hidden, radius(case))
    c_1, c_2 = -progress(inside, inside.grams()), progress(inside, inside.grams(unsafe))
    change = inside.change()
    c_3 = -2.0 * (residual(inside) @ inside.change(unsafe))
    return c_1, c_2, c_3, change @ change


STATEMENTS = (
    Statement(
        id="fl-ntk/L6.2",
        title="C_1 to C_4, informal version of Claims B.4 to B.7",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Lemma 6.2",
            note="the lemma has O() premises; it is checked with R = lambda/(1000 n), eta_l <= 1/(400 kappa K n^2), "
            "eta_g <= 1. Unlike the step of theorem B.3, the lemma's eta_l does not contain lambda, and this is right: "
            "C_4 is then at most .0101/mu times rho lambda |y - y(t)|^2, and .0101/mu is below 1/40 for mu >= .45. The "
            "new form has the constants that follow from Claims B.4 to B.7 under the steps of theorem B.3. Q_i is "
            "taken for the largest R, where C_2 and C_3 have the most neurons; the random events (those of B.11 and "
            "(10)) are a hypothesis",
        ),
        forms={
            Form.STATED: Claim(
                (-UNIT, FORTIETH * UNIT, FORTIETH * UNIT, FORTIETH * UNIT),
                hypotheses=(SMALL_AS_IN_THE_LEMMA, SERVER_AT_MOST_1, LARGE_TOP),
                families=(LEMMA_STEPS,),
            ),
            Form.NEW: Claim(
                (
                    -(2 - 8 * NEAR * GROWTH - sp.Rational(4, 1000)) * UNIT,
                    16 * NEAR * GROWTH * UNIT,
                    16 * NEAR * GROWTH * UNIT,
                    sp.Rational(4, 1000) * GROWTH**2 * UNIT,
                ),
                hypotheses=(SMALL_AS_PRINTED,),
                note="the constants -1.988, .0161, .0161 and .0041 in place of -1, 1/40, 1/40 and 1/40",
            ),
        },
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM, WITHIN_RADIUS, EVENTS),
        constants=lambda case: round_constants(case) | {r_t: case.observed("residual_norm")[case.snapshot_round]},
        measure=_measure,
        symbols={r_t: "|y - y(t)|_2 at the middle round"},
        left_formula=("C_1", "C_2", "C_3", "C_4"),
        says_left="C_1, C_2, C_3 and C_4 at the middle round, from exact pattern counts and by direct summation",
        families=(PAPER_STEPS,),
        mutants=(
            replaced(lam, sp.Rational(11, 10) * lam, "lambda times 1.1"),
            replaced(K, K + 1, "one local step more"),
            scaled(-1),
            power(N, -1),
            power(eta_global, -1),
        ),
        necessity=NECESSITY
        | {
            "small-local-steps-of-the-lemma": overshooting_steps,
            "eta_g-at-most-1": overshooting_server_in_the_premise,
        },
        uses=("fl-ntk/B.4", "fl-ntk/B.5", "fl-ntk/B.6", "fl-ntk/B.7"),
    ),
)
