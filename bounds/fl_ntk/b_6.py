"""Claim B.6: what neurons near their kinks add to the change of the outputs."""

from bounds import FL_NTK, Claim, Form, Source, Statement
from bounds.cases.snapshot import snapshot
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.near_kinks import NEAR_KINKS
from bounds.fl_ntk.premises import SMALL_FOR_K, SMALL_LOCAL_STEPS
from bounds.fl_ntk.terms.round_parts import FAILURE, SHARE, residual
from bounds.mutants import power
from bounds.symbols import R, n, r_t
from ntkfl.estimate import Estimate


def _measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    inside = snapshot(case)
    change = inside.change(~inside.safe)
    return -2.0 * (residual(inside) @ change), change.norm()


STATEMENTS = (
    Statement(
        id="fl-ntk/B.6",
        title="C_3, and |v_2|, the change made by neurons near their kinks",
        source=Source(
            FL_NTK,
            "Claim B.6",
            note="the proof is for a radius R fixed beforehand; the paper applies the claim to the movement of the "
            "run, and so does this check. The second part is the proof's bound on |v_2|",
        ),
        forms={
            Form.STATED: Claim(
                (16 * SHARE * r_t**2, 8 * SHARE * r_t), failure=FAILURE, hypotheses=(SMALL_LOCAL_STEPS,)
            ),
            Form.NEW: Claim(
                (8 * SHARE * r_t**2, 4 * SHARE * r_t),
                failure=FAILURE,
                hypotheses=(SMALL_FOR_K,),
                note="half of the printed bound: the second bound of B.10 without its factor 2",
            ),
        },
        measure=_measure,
        left_formula=("-2 (y - y(t))^T v_2", "|v_2|"),
        says_left="C_3 = -2 (y - y(t)).v_2 and |v_2|, v_2 by direct summation over the neurons outside Q_i at the "
        "middle round",
        mutants=(
            power(n, -1),
            power(R, 3),
        ),
        uses=("fl-ntk/B.10", "fl-ntk/B.5"),
        **NEAR_KINKS,
    ),
)
