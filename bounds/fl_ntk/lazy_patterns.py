"""Section 3.2, second observation: activation patterns hardly change; at which rate in the width?"""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.federated_run import FederatedRun
from bounds.formula import Formula
from bounds.mutants import shifted
from bounds.slopes import slope
from bounds.snapshot import snapshot
from bounds.statement import FL_NTK, Form, Kind, Outcome, Source, Statement
from bounds.width_ladder import WidthLadder, ladder_draws
from ntkfl.estimate import Estimate


def _complement(run: FederatedRun) -> float:
    """|H(t,k)^perp|_F at the middle round, the largest over k, with R the run's movement."""
    inside = snapshot(run)
    stacked = inside.grams(~inside.safe).value
    return max(float(np.linalg.norm(block)) for block in np.split(stacked, run.setup.local_steps, axis=1))


def _remainder(run: FederatedRun) -> float:
    """|v_2| / |y - y(t)| at the middle round."""
    inside = snapshot(run)
    change = inside.change(~inside.safe).value
    return float(np.linalg.norm(change) / run.trajectory.residual_norm[run.snapshot_round])


def _measure(ladder: WidthLadder) -> tuple[Estimate, Estimate]:
    return slope(ladder.sizes, ladder.samples(_complement)), slope(ladder.sizes, ladder.samples(_remainder))


STATEMENTS = (
    Statement(
        id="fl-ntk/lazy-patterns",
        title="Activation patterns remain roughly the same: |H_perp|_F and |v_2|/|r| fall with the width",
        kind=Kind.RATE,
        source=Source(
            FL_NTK,
            "section 3.2, second observation",
            note="stated as |H_perp|_F <= O(1) and |v_2| <= O(|r|); both follow from 4 n R with R ~ m^(-1/2), "
            "so the exponents are -1/2",
        ),
        forms={
            Form.STATED: Formula(
                (-sp.Rational(1, 2), -sp.Rational(1, 2)), note="exponents of |H_perp|_F and of |v_2|/|r| in the width"
            )
        },
        recorded={Form.STATED: Outcome.HOLDS},
        constants=lambda ladder: {},
        measure=_measure,
        says_left="log-log slopes of the RMS over 24 networks a width, R being the largest movement of the run",
        draws=ladder_draws,
        mutants=(shifted(sp.Rational(1, 4)), shifted(-sp.Rational(1, 4)), shifted(sp.Rational(1, 2))),
        uses=("fl-ntk/B.11",),
    ),
)
