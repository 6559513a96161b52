"""Eq (1): how the squared residual changes in a round."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun, federated_families
from bounds.mutants import MILLIONTH_MORE, replaced, sign_flipped, without
from bounds.symbols import r_t

inner, change = sp.symbols("c s", real=True)  # (y - y(t)).(y(t+1) - y(t)) and |y(t+1) - y(t)|^2


def _constants(case: FederatedRun) -> dict:
    outputs, y = case.observed("outputs"), case.problem.y
    step, ones = outputs[1:] - outputs[:-1], np.ones(case.problem.n)
    return {
        r_t: case.observed("residual_norm")[:-1],
        inner: ((y - outputs[:-1]) * step) @ ones,
        change: (step * step) @ ones,
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
        left_formula="|y - y(t+1)|^2",
        says_left="|y - y(t+1)|^2 of the simulated run, every round",
        families=federated_families,
        mutants=(
            MILLIONTH_MORE,
            without(change),
            sign_flipped(change, "the square"),
            replaced(inner, inner / 2, "the inner product once", Change.CONSTANT),
        ),
    ),
)
