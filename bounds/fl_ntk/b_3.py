"""Theorem B.3, Eq (7): the training residual contracts by a fixed factor every round."""

from __future__ import annotations

import sympy as sp

from bounds.federated_run import FederatedRun, federated_draws
from bounds.fl_ntk.aligned import long_row
from bounds.fl_ntk.eq1 import squared
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, UNIT_ROWS
from bounds.formula import Formula, Nature
from bounds.mutants import Mutant, power, scaled, without
from bounds.statement import FL_NTK, Form, Kind, Outcome, Source, Statement
from bounds.symbols import K, delta, eta_local, kappa, lam, m, n, r0, rho, t
from ntkfl.estimate import Estimate

PROVED_EXPONENT = sp.Rational(121993999, 62500000)  # from the printed constants, exactly
STEP = lam / (1000 * kappa * n**2 * K)


def _constants(case: FederatedRun) -> dict:
    lowest, highest = case.smallest_eigenvalue, case.largest_eigenvalue
    return {
        rho: case.rho,
        lam: lowest,
        kappa: Estimate.between(highest.lo / lowest.hi, highest.hi / lowest.lo, lowest.method),
        r0: case.initial_residual,
        t: case.rounds[1:],
        n: case.problem.n,
        K: case.setup.local_steps,
        delta: 0.1,
    }


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
            note="checked as a conclusion at sizes that can be run: its own premise (width, step) is out of reach. "
            "|y_i| = O(1) is used in the proof and stated nowhere; see B.3-unbounded-labels in the list of statements",
        ),
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM),
        forms={
            Form.STATED: Formula(
                (1 - rho * lam / 2) ** t * r0**2,
                failure=delta,
                nature=Nature.OUT_OF_REACH,
                consequence=(
                    "the conclusion may be expected at widths far below those asked for, but not "
                    "concluded from this theorem; a certificate (B.3-certificate, X.12) does conclude "
                    "it for one given network"
                ),
                premise={m: n**4 * sp.log(n / delta) / lam**4, eta_local: STEP},
                note="premise evaluated with the O-constants the proof uses for the step, and 1 for the width",
            ),
            Form.PROVED: Formula(
                (1 - PROVED_EXPONENT * rho * lam) ** t * r0**2,
                failure=delta,
                nature=Nature.OUT_OF_REACH,
                consequence=(
                    "the rate may be taken as 1.95 rho lambda instead of rho lambda/2 wherever the "
                    "theorem's argument applies"
                ),
                premise={m: sp.Integer(64_000_000) * n**3 * r0**2 / lam**4, eta_local: STEP},
                note="the printed constants prove the exponent 1.95, not 1/2; they need R <= lambda/(1000 n)",
            ),
        },
        recorded={Form.STATED: Outcome.HOLDS, Form.PROVED: Outcome.HOLDS},
        constants=_constants,
        measure=lambda case: squared(case.observed("residual_norm")[1:]),
        says_left="|y - y(t)|^2 of the simulated run, t = 1..T",
        draws=federated_draws,
        form_draws={Form.PROVED: lambda options: federated_draws(options, label="eta_l=.01", eta_local=0.01)},
        mutants=(
            scaled(sp.Rational(9, 10)),
            _exponent(8),
            power(t, sp.Rational(3, 2)),
            power(rho, sp.Rational(1, 2)),
            without(lam),
        ),
        necessity={"unit-rows": long_row},
        uses=("fl-ntk/B.7", "fl-ntk/B.11", "fl-ntk/B.12"),
    ),
)
