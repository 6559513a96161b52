"""Eq (1): how the squared residual changes in a round."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedRun, federated_draws
from bounds.mutants import replaced, scaled, sign_flipped, without
from bounds.statement import FL_NTK, Change, Claim, Form, Kind, Source, Statement
from bounds.symbols import r_t
from ntkfl.estimate import Estimate

inner, change = sp.symbols("c s", real=True)  # (y - y(t)).(y(t+1) - y(t)) and |y(t+1) - y(t)|^2


def _constants(case: FederatedRun) -> dict:
    outputs, y = case.observed("outputs"), case.problem.y
    residual, step = y - outputs.value[:-1], np.diff(outputs.value, axis=0)
    step_error = outputs.error[1:] + outputs.error[:-1]
    rounding = 4 * (case.problem.n + 2) * np.finfo(float).eps
    dot, dot_size = (residual * step).sum(axis=1), np.abs(residual * step).sum(axis=1)
    dot_error = (np.abs(residual) * step_error + outputs.error[:-1] * (np.abs(step) + step_error)).sum(axis=1)
    square, square_error = (step**2).sum(axis=1), (2 * np.abs(step) * step_error + step_error**2).sum(axis=1)
    return {
        r_t: case.observed("residual_norm")[:-1],
        inner: Estimate(dot, dot_error + rounding * dot_size, outputs.method, outputs.rigour),
        change: Estimate(square, square_error + rounding * square, outputs.method, outputs.rigour),
    }


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq1",
        title="Expansion of the squared residual over one round",
        kind=Kind.EQUALITY,
        source=Source(FL_NTK, "Eq (1), printed again as Eq (6)"),
        forms={Form.STATED: Claim(r_t**2 - 2 * inner + change)},
        constants=_constants,
        measure=lambda case: case.observed("residual_norm")[1:].squared(),
        symbols={inner: "(y - y(t)).(y(t+1) - y(t))", change: "|y(t+1) - y(t)|^2"},
        says_left="|y - y(t+1)|^2 of the simulated run, every round",
        draws=federated_draws,
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            without(change),
            sign_flipped(change, "the square"),
            replaced(inner, inner / 2, "the inner product once", Change.CONSTANT),
        ),
    ),
)
