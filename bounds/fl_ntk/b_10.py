"""Lemma B.10: how far local outputs drift within a round, and how large the averaged update is."""

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.few_points import long_row, overshooting_clients, small_step_families
from bounds.fl_ntk.premises import SMALL_FOR_K, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import run_constants
from bounds.mutants import index_shifted, power, replaced
from bounds.symbols import K, N, eta_local, m, n, r_client, r_t
from ntkfl.estimate import Estimate

ALOC = 2 * eta_local * n * K
DRIFT = ALOC * r_client
UPDATE = eta_local * K * (1 + ALOC) * sp.sqrt(n) * r_t / (N * sp.sqrt(m))


def _constants(case: FederatedRun) -> dict:
    parts = Estimate.stacked(case.residual_part(c)[0] for c in range(case.problem.n_clients))
    return run_constants(case) | {m: case.setup.width, r_client: parts[:, :, None]}


def _measure(case: FederatedRun) -> tuple[Estimate, Estimate]:
    """|y_c(t) - y_c^{(k)}(t)| for every client, round and k = 1..K; max_r |Delta u_r(t)| for every round."""
    outputs, local = case.observed("outputs"), case.observed("local_outputs")
    drifts = ((local[:, 1:, own] - outputs[:-1, None, own]).norm(-1) for own in case.problem.members)
    return Estimate.stacked(drifts), case.observed("step")


STATEMENTS = (
    Statement(
        id="fl-ntk/B.10",
        title="Drift of local outputs, and size of the averaged update",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Lemma B.10",
            note="'the choice of eta_local' is read as eta_l n K <= 1.2564, which is enough for every K. The exact "
            "condition (1 + x/K)^K <= 1 + 2x with x = eta_l n K is x <= inf, 4, 2.374, 1.953, 1.762 for K = 1..5",
        ),
        hypotheses=(UNIT_ROWS,),
        forms={
            Form.STATED: Claim((DRIFT, 2 * UPDATE), hypotheses=(SMALL_LOCAL_STEPS,)),
            Form.NEW: Claim(
                (DRIFT, UPDATE),
                hypotheses=(SMALL_FOR_K,),
                note="the second bound loses its factor 2, since Eq (16) loses its factor sqrt 2",
            ),
        },
        constants=_constants,
        measure=_measure,
        left_formula=("|y_c(t) - y_c^{(k)}(t)|", "max_r |Delta u_r(t)|"),
        says_left="distances of recorded local outputs, every client, round and local step; the largest |Delta u_r(t)|",
        families=small_step_families,
        mutants=(
            power(n, sp.Rational(1, 2)),
            power(K, sp.Rational(1, 2)),
            index_shifted(K, -1),
            replaced(1 + ALOC, 1 - ALOC, "sign of 2 eta_l n K flipped", Change.SIGN),
        ),
        necessity={
            "unit-rows": long_row,
            "small-local-steps": overshooting_clients,
            "small-for-K": overshooting_clients,
        },
        uses=("fl-ntk/Eq16",),
    ),
)
