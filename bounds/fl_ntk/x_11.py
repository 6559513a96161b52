"""X.11: the a-priori certificate B.3-certificate may start at any weights that training has reached."""

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.certificates.certified_run import certificate, certified, need, rate, residuals_and_movements
from bounds.fl_ntk.certificates.checkpoint_draw import checkpoint_families
from bounds.mutants import Mutant, power, replaced
from bounds.symbols import r0, t


def _constants(case: FederatedRun) -> dict:
    known = certificate(case)
    return {rate: known.rate, r0: case.initial_residual, t: case.rounds[1:], need: known.need}


STATEMENTS = (
    Statement(
        id="fl-ntk/X.11",
        title="The certificate B.3' from a checkpoint holds for all later rounds",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/certificates.md#the-a-priori-certificate",
            note="B.3' is B.3-certificate; it nowhere uses that the weights are Gaussian, so it may start at the "
            "weights of round T0. The residual shrinks geometrically while lambda hardly changes, so real images that "
            "do not certify at round 0 certify later. The claim is about Algorithm 1 in exact arithmetic, from the "
            "stored float64 weights.",
        ),
        hypotheses=(certified("the certificate's three conditions hold at the checkpoint, in balls", certificate),),
        forms={Form.NEW: Claim((rate**t * r0**2, need, need))},
        constants=_constants,
        measure=residuals_and_movements,
        symbols={
            rate: "1 - beta rho lambda, of the checkpoint's certificate",
            need: "the certificate's bound on the movement since the checkpoint, at most its radius R",
            t: "rounds since the checkpoint",
            r0: "|y - y(0)|_2 at the checkpoint",
        },
        left_formula=("|y - y(t)|^2", "max_r |u_r(t) - u_r(0)|", "max_{c,r} |w_{k,c,r}(t) - u_r(0)|"),
        says_left="the residual and the largest movements of the run that continues, relative to the checkpoint",
        families=checkpoint_families,
        mutants=(
            power(rate, 2),
            power(r0, 2),
            replaced(t, t + 1, "one round ahead"),
            Mutant("the movement of one round only", lambda part: part * (1 - rate)),
        ),
        uses=("fl-ntk/B.3-certificate", "fl-ntk/mean-slope"),
    ),
)
