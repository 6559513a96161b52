"""Claim C.9: the part of the weights' movement that comes from gradients that have changed."""

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Nature, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.few_points import FEW_POINTS, GRADUAL, one_point_run
from bounds.fl_ntk.premises import UNIT_ROWS
from bounds.fl_ntk.terms.jacobian import NEAR, change_constants, crowding
from bounds.fl_ntk.terms.limit_kernel import LIMIT_SYMBOLS, POSITIVE_LIMIT_KERNEL, SMALL_LABELS, SMALL_ROUND
from bounds.fl_ntk.terms.movement_terms import changed_gradient_part, norm
from bounds.mutants import replaced
from bounds.symbols import R, delta, lam, m, n, sigma
from ntkfl import Estimate, Setup

label_norm = sp.Symbol("|y|", positive=True)


def _constants(case: FederatedRun) -> dict:
    return change_constants(case, failure=0.1) | {label_norm: Estimate.exact(case.problem.y).norm()}


def _long_row() -> FederatedRun:
    """A row of norm 40: it scales the changes of the gradients directly, but enters the bound only by lambda = 800."""
    return one_point_run(Setup(512, eta_local=0.0003, local_steps=1, rounds=24), length=40.0)


STATEMENTS = (
    Statement(
        id="fl-ntk/C.9",
        title="B_2: movement by gradients that have changed",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Claim C.9",
            note="the proof sums |J(k,t) - J(0,0)| (1 - rho lambda)^t |y| (over k < K as read, t < T is meant) and "
            "uses n poly/(m^(1/4) sigma^(1/2) lambda^(1/2)) for the first factor. This factor is sqrt(n R/sigma) with "
            "R = O(n/(sqrt(m) lambda)), as the proof of the bound on J shows it; the claim's bound on J is larger by "
            "sqrt(n). The gap in that proof is independence: it treats patterns that depend on all of W as "
            "independent. The O-constant is taken as 1, poly(log(m/delta)) as the power 3/4 of the logarithm, |y| as "
            "at most sqrt(n)",
        ),
        hypotheses=(UNIT_ROWS, POSITIVE_LIMIT_KERNEL, SMALL_ROUND),
        forms={
            Form.STATED: Claim(
                n ** sp.Rational(3, 2)
                * sp.log(m / delta) ** sp.Rational(3, 4)
                / (m ** sp.Rational(1, 4) * sp.sqrt(sigma) * lam ** sp.Rational(3, 2)),
                failure=delta,
                nature=Nature.PROOF_GAP,
                hypotheses=(SMALL_LABELS,),
                consequence="the stated rate stands with the repaired bound on J, which needs no independence",
            ),
            Form.REPAIRED: Claim(
                sp.sqrt(n * NEAR) * label_norm / lam,
                failure=crowding,
                note="the bound on J of C.7-J, for every R at once, summed with (1 - rho lambda)^t",
            ),
        },
        constants=_constants,
        measure=lambda case: norm(changed_gradient_part(case), case.bits),
        symbols={
            lam: LIMIT_SYMBOLS[lam],
            R: "movement of the run, global and local weights",
            label_norm: "|y|_2",
            crowding: "probability that the bound on J fails",
        },
        left_formula="|rho sum_t (1/K) sum_k (J(k,t) - J(0,0)) (I - rho H_inf)^t y|",
        says_left="|rho sum_t (1/K) sum_k (J(k,t) - J(0,0)) (I - rho H_inf)^t y| of runs in balls, every weight kept",
        families=(GRADUAL, FEW_POINTS),
        mutants=(
            replaced(NEAR, NEAR / 1000, "a thousandth of the neurons near a kink", Change.CONSTANT),
            replaced(NEAR, NEAR**4, "fourth power of their share", Change.POWER),
            replaced(lam, lam**-2, "lambda^2 for 1/lambda"),
        ),
        necessity={"unit-rows": _long_row},
        uses=("fl-ntk/C.7-J", "fl-ntk/Eq17"),
    ),
)
