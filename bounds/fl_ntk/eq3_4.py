"""Eqs (3) and (4): the change of the outputs by the neurons of Q_i, through H(t,k) and H(t,k)^perp."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Source, Statement
from bounds.cases.run_values import run_values
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun, federated_families
from bounds.mutants import MILLIONTH_MORE, power, sign_flipped, without
from bounds.symbols import K, N, eta_global, eta_local, n

H = sp.MatrixSymbol("H", n, n * K)
H_perp = sp.MatrixSymbol("H_perp", n, n * K)
residual = sp.MatrixSymbol("r", n * K, 1)


def _constants(case: FederatedRun) -> dict:
    inside = snapshot(case)
    return run_values(case, eta_global, eta_local, N) | {
        H: inside.grams(),
        H_perp: inside.grams(~inside.safe),
        residual: inside.stacked_residual,
    }


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq3-4",
        title="Closed form of v_1, the change made by certified neurons",
        kind=Kind.EQUALITY,
        source=Source(
            FL_NTK,
            "Eqs (3), (4) and the closed form of v_1",
            note="the equations hold where u(t) and u(t+1) are within R of u(0) for all neurons; the local weights "
            "need not be. R is the movement of the run, so the condition is met by construction. The dynamics "
            "displayed in section 3.2 lack the factor eta_g eta_l/N of (3) and (4)",
        ),
        forms={Form.STATED: Claim(eta_global * eta_local / N * (H - H_perp) * residual)},
        constants=_constants,
        measure=lambda case: snapshot(case).change(snapshot(case).safe),
        symbols={
            H: "[H(t,0) ... H(t,K-1)]",
            H_perp: "the same over the neurons outside Q_i",
            residual: "y - y^{(k)}(t), stacked over k",
        },
        left_formula="v_1",
        says_left="v_1 by direct summation over the neurons of Q_i, at the middle round",
        families=federated_families,
        mutants=(
            MILLIONTH_MORE,
            without(N),
            power(eta_local, sp.Rational(1, 2)),
            sign_flipped(H_perp, "H_perp"),
        ),
    ),
)
