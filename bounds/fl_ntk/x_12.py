"""X.12: a certificate from any weights at any stable step, in the norm |H^(-p/2) r| for some p between 0 and 1."""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.certificates.certified_run import certified, need, residuals_and_movements
from bounds.fl_ntk.certificates.checkpoint_draw import checkpoint_families
from bounds.fl_ntk.certificates.stable_step_certificate import stable_step_certificate
from bounds.fl_ntk.certificates.stable_step_record import StableStepCertificate
from bounds.fl_ntk.terms.round_map import residuals
from bounds.mutants import Mutant, power, replaced
from bounds.symbols import t
from ntkfl.estimate import Estimate
from ntkfl.gram.error_free import row_norms

rate = sp.Symbol("q", positive=True)
z0 = sp.Symbol("z_0", positive=True)


@lru_cache(maxsize=4)
def _certificate(case: FederatedRun) -> StableStepCertificate:
    return stable_step_certificate(case.problem, case.setup, case.weights)


def _constants(case: FederatedRun) -> dict:
    known = _certificate(case)
    return {rate: known.rate, z0: known.norm, t: case.rounds[1:], need: known.need}


def _measure(case: FederatedRun) -> tuple[Estimate, ...]:
    """|S^-1 (y - y(t))| for t >= 1; the movement of all global and of all local weight vectors."""
    _, *movements = residuals_and_movements(case)
    return weighted_norm(_certificate(case).root, residuals(case)[:, 1:]), *movements


def weighted_norm(root: np.ndarray, vectors: Estimate) -> Estimate:
    """|S^-1 v| of each column v of (n, T), with the columns' errors and the rounding of the solution."""
    inverse = np.linalg.inv(root)
    value = row_norms((inverse @ vectors.value).T)
    # Backward stable: relative errors of n eps times the condition of S, which is at most that of H.
    rounding = 20 * len(root) ** 1.5 * np.finfo(float).eps * np.linalg.cond(root)
    size = np.linalg.norm(inverse, 2)
    error = size * (row_norms(vectors.error.T) + rounding * row_norms(vectors.value.T))
    return Estimate(value, error, vectors.method, vectors.rigour)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.12",
        title="The stable-step certificate: contraction in the H^-1 norm, or in one between it and the Euclidean norm",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/certificates.md#any-stable-step",
            note="holds for any norm |S^-1 r| and any symmetric H from which the kernels of the run differ by at most "
            "E. Where neurons sit on both sides of a kink, the matrix in the middle of the possible counts as H nearly "
            "halves E, and the norm |H^(-1/4) r| (p = 1/2) allows an E half as large again",
        ),
        hypotheses=(
            certified(
                "the certificate's three conditions (stability, contraction, movement) hold at the start, in ball "
                "arithmetic",
                _certificate,
            ),
        ),
        forms={Form.NEW: Claim((rate**t * z0, need, need))},
        constants=_constants,
        measure=_measure,
        symbols={
            rate: "the certificate's factor per round",
            z0: "|S^-1 (y - y(0))|, S = H^(p/2) in float64",
            need: "the certificate's bound on the movement, at most its radius R",
            t: "rounds since the checkpoint",
        },
        left_formula=("|S^{-1} (y - y(t))|", "max_r |u_r(t) - u_r(0)|", "max_{c,r} |w_{k,c,r}(t) - u_r(0)|"),
        says_left="of the run from the checkpoint on: left 1 is the residual in the certificate's norm, left 2 and 3 "
        "are the largest movements of the global and of the local weights",
        families=checkpoint_families,
        mutants=(
            power(rate, 4),
            power(z0, 2),
            replaced(t, t + 8, "eight rounds ahead"),
            Mutant("the movement of one round only", lambda part: part * (1 - rate)),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/X.2", "fl-ntk/X.3", "fl-ntk/mean-slope"),
    ),
)
