"""Theorem B.3, Eq (7): the training residual contracts by a fixed factor every round."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Nature, Source, Statement
from bounds.cases.run_values import run_values
from bounds.federated_run import federated_families
from bounds.fl_ntk.families.few_points import long_row
from bounds.fl_ntk.premises import PAPER_STEP, POSITIVE_SPECTRUM, PROVED_WIDTH, STATED_WIDTH, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import next_square
from bounds.mutants import Mutant, power, without
from bounds.symbols import K, delta, eta_local, kappa, lam, m, n, r0, rho, t

PROVED_EXPONENT = sp.Rational(121993999, 62500000)  # from the printed constants, exactly


def _exponent(change) -> Mutant:
    return Mutant(f"rate {change}", lambda expression: (1 - change * rho * lam) ** t * r0**2)


STATEMENTS = (
    Statement(
        id="fl-ntk/B.3",
        title="Linear convergence of the training residual",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Theorem B.3, Eq (7)",
            note="the theorem asks for a width and a step that are out of reach, so its conclusion is checked at sizes "
            "that can be run. The proof uses |y_i| = O(1), which no statement assumes; see B.3-unbounded-labels in the "
            "list of statements",
        ),
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM),
        forms={
            Form.STATED: Claim(
                (1 - rho * lam / 2) ** t * r0**2,
                failure=delta,
                premise={m: STATED_WIDTH, eta_local: PAPER_STEP},
                nature=Nature.OUT_OF_REACH,
                note="the premise is evaluated with the proof's O-constant for the step, and with 1 for the width",
                consequence="the conclusion may be expected at widths far below the required ones, but there the "
                "theorem does not prove it; a certificate (B.3-certificate, X.12) proves it for one given network",
            ),
            Form.PROVED: Claim(
                (1 - PROVED_EXPONENT * rho * lam) ** t * r0**2,
                failure=delta,
                premise={m: PROVED_WIDTH, eta_local: PAPER_STEP},
                nature=Nature.OUT_OF_REACH,
                families=lambda options: federated_families(options, label="eta_l=.01", eta_local=0.01),
                note="the printed constants prove the factor 1 - 1.95 rho lambda, not 1 - rho lambda/2; they need R <= "
                "lambda/(1000 n)",
                consequence="wherever the theorem's argument applies, take the rate 1.95 rho lambda in place of rho "
                "lambda/2",
            ),
        },
        constants=lambda case: run_values(case, rho, lam, kappa, r0, t, n, K) | {delta: 0.1},
        measure=next_square,
        left_formula="|y - y(t)|^2",
        says_left="|y - y(t)|^2 of the simulated run, t = 1..T",
        families=federated_families,
        mutants=(
            _exponent(8),
            power(t, sp.Rational(3, 2)),
            power(rho, sp.Rational(1, 2)),
            without(lam),
        ),
        necessity={"unit-rows": long_row},
        uses=("fl-ntk/B.7", "fl-ntk/B.11", "fl-ntk/B.12"),
    ),
)
