"""Eq (5): the squared residual contracts in every single round."""

import sympy as sp

from bounds import FL_NTK, Change, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.paper_steps import contracting_families, growing_round
from bounds.fl_ntk.premises import SMALL_STEPS
from bounds.fl_ntk.terms.limit_kernel import round_rate
from bounds.fl_ntk.terms.round_map import next_square
from bounds.mutants import power, replaced, without
from bounds.symbols import lam, r_t, rho

CONTRACTION = (1 - rho * lam / 2) * r_t**2


def _constants(case: FederatedRun) -> dict:
    return {rho: round_rate(case), lam: case.smallest_eigenvalue, r_t: case.observed("residual_norm")[:-1]}


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq5",
        title="Contraction of the squared residual in every round",
        kind=Kind.UPPER,
        source=Source(
            FL_NTK,
            "Eq (5), section 6; Eq (9) of appendix B",
            note="the equation names no step. It is read under the small steps of the theorem that it serves (see the "
            "convention on steps), and for them it holds. For larger stable steps it is false, as the case without the "
            "condition small-steps shows: the round map is not symmetric, so the Euclidean norm may grow in a round "
            "although the run converges. |L^-1 (y - y(t))| with H = L L^T shrinks in every round (X.2, X.12). The "
            "condition comes from the proof of B.3-certificate at beta = 1/2",
        ),
        forms={
            Form.STATED: Claim(CONTRACTION, hypotheses=(SMALL_STEPS,)),
        },
        constants=_constants,
        measure=next_square,
        left_formula="|y - y(t+1)|^2",
        says_left="|y - y(t+1)|^2 of the simulated run, every round",
        families=contracting_families,
        mutants=(
            replaced(lam, 8 * lam, "lambda times 8", Change.CONSTANT),
            without(lam),
            power(rho, sp.Rational(1, 2)),
        ),
        necessity={"small-steps": growing_round},
        uses=("fl-ntk/B.3-certificate",),
    ),
)
