"""Lemma C.5: the Rademacher complexity of the networks near an initial one."""

import numpy as np
import sympy as sp

from bounds import Change, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.weight_ball import WEIGHT_BALLS, WeightBall
from bounds.fl_ntk.premises import FAILURE_PROBABILITY, UNIT_ROWS
from bounds.mutants import power, replaced
from bounds.symbols import R, delta, m, n, sigma
from bounds.vocabulary import FL_NTK
from ntkfl.initialisation import draw
from ntkfl.problem import Problem

B = sp.Symbol("B", positive=True)
LOG = 2 * sp.log(2 / delta)
LINEAR = B / sp.sqrt(2 * n) * (1 + (LOG / m) ** sp.Rational(1, 4))


def _constants(case: WeightBall) -> dict:
    return {
        n: case.problem.n,
        m: case.width,
        sigma: case.sigma,
        R: case.radius,
        B: case.budget,
        delta: case.delta,
    }


def _long_rows() -> WeightBall:
    """Two points of length 100: every output moves a hundred times as far."""
    problem = Problem(100 * np.eye(2), np.zeros(2), name="two points of length 100")
    return WeightBall(problem, draw(256, 2, 0), 1.0, radius=1e-4, budget=5e-4)


STATEMENTS = (
    Statement(
        id="fl-ntk/C.5",
        title="Rademacher complexity of the networks near initialisation",
        kind=Kind.PROBABILITY,
        source=Source(
            FL_NTK,
            "Lemma C.5",
            note="quoted from ADH+19a, Lemma 5.4; it needs unit rows. The supremum over the class is not computed but "
            "bracketed. The term 2 R^2 sqrt(m)/sigma bounds (R/sqrt m) times the number of neurons within R of a "
            "kink, whose mean is below sqrt(2/pi) R m/sigma a sample: .80 would do for 2. That term makes the bound "
            "useful only where R is far below m^(-1/4) sqrt(sigma). Definition C.3 prints eps in R^d, meant R^n",
        ),
        hypotheses=(FAILURE_PROBABILITY, UNIT_ROWS),
        forms={
            Form.STATED: Claim(
                LINEAR + 2 * R**2 * sp.sqrt(m) / sigma + R * sp.sqrt(LOG),
                failure=delta,
                note="for all B > 0 at once; here B is chosen without looking at the network",
            )
        },
        constants=_constants,
        measure=lambda case: case.rademacher,
        symbols={B: "bound on |U - U(0)|_F over the class", R: "bound on |u_r - u_r(0)| for every neuron"},
        left_formula="R_S(F)",
        says_left="R_S of the class over all signs: between members that were found and a bound on all members",
        families=WEIGHT_BALLS,
        mutants=(
            power(B, 2),
            power(n, 3),
            replaced(B, 0, "term in B dropped", Change.FACTOR),
        ),
        necessity={"unit-rows": _long_rows},
    ),
)
