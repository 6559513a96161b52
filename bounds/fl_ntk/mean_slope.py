"""The mean-slope identity: a round's change of the outputs in closed form, without sets Q_i and without remainder."""

import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.cases.run_values import run_values
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun, federated_families
from bounds.mutants import MILLIONTH_MORE, power, without
from bounds.symbols import K, N, eta_global, eta_local, n

G = sp.MatrixSymbol("G", n, n * K)
residual = sp.MatrixSymbol("r", n * K, 1)


def _constants(case: FederatedRun) -> dict:
    grams, seen = snapshot(case).mean_slope_grams, snapshot(case).stacked_residual
    return run_values(case, eta_global, eta_local, N) | {G: grams, residual: seen}


STATEMENTS = (
    Statement(
        id="fl-ntk/mean-slope",
        title="A round's change through the mean slopes of relu",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "sharpens Eqs (3), (4) of FL-NTK: docs/proofs/certificates.md#one-step",
            note="the mean slope of relu between u(t).x_i and u(t+1).x_i replaces 1{u(t).x_i >= 0}; the terms C_2 and "
            "C_3 disappear",
        ),
        forms={Form.NEW: Claim(eta_global * eta_local / N * G * residual)},
        constants=_constants,
        measure=lambda case: snapshot(case).change(),
        symbols={G: "[G^(0) ... G^(K-1)], mean-slope Gram matrices", residual: "y - y^{(k)}(t), stacked over k"},
        left_formula="y(t+1) - y(t)",
        says_left="y(t+1) - y(t) by direct summation over all neurons, at the middle round",
        families=federated_families,
        mutants=(
            MILLIONTH_MORE,
            without(N),
            power(N, 2),
            power(eta_local, sp.Rational(1, 2)),
        ),
        uses=("fl-ntk/Eq3-4",),
    ),
)
