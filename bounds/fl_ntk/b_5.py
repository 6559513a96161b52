"""Claim B.5: the part of a round's progress that neurons near their kinks make through H(t,k)^perp."""

import sympy as sp

from bounds import FL_NTK, Claim, Form, Source, Statement
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.near_kinks import NEAR_KINKS
from bounds.fl_ntk.premises import SMALL_FOR_K, SMALL_LOCAL_STEPS
from bounds.fl_ntk.terms.round_parts import FAILURE, SHARE, largest_norm, progress
from bounds.mutants import power
from bounds.symbols import R, n, r_t
from ntkfl.estimate import Estimate


def _measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    inside = snapshot(case)
    perp = inside.grams(~inside.safe)
    return progress(inside, perp), largest_norm(perp, case.setup.local_steps)


STATEMENTS = (
    Statement(
        id="fl-ntk/B.5",
        title="C_2, the share of neurons near their kinks",
        source=Source(
            FL_NTK,
            "Claim B.5",
            note="the proof is for a radius R fixed beforehand; the paper applies the claim to the movement of the "
            "run, and so does this check. The second part is the proof's |H(t,k)^perp|_F <= 4 n R. The proof's '= "
            "n/m^2 ...' must be '<='; its Bernstein step gives exp(-9 m R / 4)",
        ),
        forms={
            Form.STATED: Claim((16 * SHARE * r_t**2, 4 * n * R), failure=FAILURE, hypotheses=(SMALL_LOCAL_STEPS,)),
            Form.NEW: Claim(
                (8 * SHARE * r_t**2, 4 * n * R),
                failure=FAILURE,
                hypotheses=(SMALL_FOR_K,),
                note="half of the printed bound: the triangle inequality removes the factor 2 of Eq (16)",
            ),
        },
        measure=_measure,
        left_formula=("2 (eta_g eta_l/N) sum_k (y - y(t))^T H(t,k)^perp (y - y^{(k)}(t))", "max_k |H(t,k)^perp|_F"),
        says_left="C_2 = 2 (eta_g eta_l/N) sum_k (y - y(t))^T H(t,k)^perp (y - y^{(k)}(t)), and max_k |H(t,k)^perp|_F, "
        "from exact pattern counts at the middle round",
        mutants=(
            power(n, -sp.Rational(1, 2)),
            power(R, sp.Rational(5, 2)),
        ),
        uses=("fl-ntk/Eq16", "fl-ntk/Eq11"),
        **NEAR_KINKS,
    ),
)
