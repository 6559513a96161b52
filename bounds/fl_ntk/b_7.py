"""Claim B.7: the squared change of the outputs in a round."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedDraw, FederatedRun, federated_draws
from bounds.fl_ntk.aligned import AlignedDraw, long_row, overshooting_clients
from bounds.fl_ntk.premises import SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.formula import Formula
from bounds.mutants import index_shifted, power, reversed_comparison, scaled, without
from bounds.statement import FL_NTK, Form, Kind, Outcome, Source, Statement
from bounds.symbols import K, N, eta_global, eta_local, n, r_t
from ntkfl.estimate import Estimate


def run_constants(case: FederatedRun) -> dict:
    """n, N, K, the steps, and |y - y(t)| for t = 0..T-1."""
    setup = case.setup
    return {
        n: case.problem.n,
        N: case.problem.n_clients,
        K: setup.local_steps,
        eta_local: setup.eta_local,
        eta_global: setup.eta_global,
        r_t: case.observed("residual_norm")[:-1],
    }


def _measure(case: FederatedRun) -> Estimate:
    outputs = case.observed("outputs")
    change, error = np.diff(outputs.value, axis=0), outputs.error[1:] + outputs.error[:-1]
    square = (change**2).sum(axis=1)
    return Estimate(square, (2 * np.abs(change) * error + error**2).sum(axis=1) + 1e-14 * square, outputs.method)


def small_step_draws(options) -> tuple:
    """Default families at eta_l = .03, where eta_l n K is small enough, and the family that makes the bounds sharp.

    On the user's data the step is chosen so that eta_l n K <= 1.2, unless the user chose one.
    """
    return small_step_runs(options) + ((AlignedDraw(),) if options.data is None else ())


def small_step_runs(options) -> tuple[FederatedDraw, ...]:
    """Runs at a step small enough for the hypothesis eta_l n K <= 1.2564."""
    if options.data is None:
        return federated_draws(options, label="eta_l=.03", movements=True, eta_local=0.03)
    size = federated_draws(options)[0].problem(options.seed).n
    step = min(0.03, 1.2 / (size * (options.local_steps or 2)))
    return federated_draws(options, label=f"eta_l={step:.2g}", movements=True, eta_local=step)


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
            Form.STATED: Formula(
                4 * eta_local**2 * eta_global**2 * n**2 * K**2 * (1 + 2 * eta_local * n * K) ** 2 / N**2 * r_t**2
            )
        },
        recorded={Form.STATED: Outcome.HOLDS},
        constants=run_constants,
        measure=_measure,
        says_left="|y(t+1) - y(t)|^2 of the simulated run, every round",
        draws=small_step_draws,
        mutants=(
            scaled(sp.Rational(1, 5)),
            without(n),
            power(eta_local, sp.Rational(3, 2)),
            index_shifted(K, -1),
            reversed_comparison(),
        ),
        necessity={"unit-rows": long_row, "small-local-steps": overshooting_clients},
        uses=("fl-ntk/B.10",),
    ),
)
