"""Theorem 4.3 (informal): the order of the population loss in the number of samples."""

from operator import attrgetter

import sympy as sp

from bounds import Change, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.fl_ntk.cases.generalisation_case import LINEAR
from bounds.fl_ntk.cases.lipschitz_loss import Loss
from bounds.fl_ntk.cases.sample_ladder import SampleLadder, sample_ladder_families
from bounds.fl_ntk.premises import BOUNDED, FAILURE_PROBABILITY, LIPSCHITZ, NON_DEGENERATE
from bounds.fl_ntk.terms.generalisation import MAIN, PREMISE, quadratic
from bounds.fl_ntk.terms.generalisation import constants as sample_constants
from bounds.mutants import power, replaced
from bounds.symbols import delta, lam, n
from bounds.vocabulary import FL_NTK
from ntkfl.estimate import Estimate

SAMPLES = attrgetter("samples")  # of a ladder, one for each n


def _constants(case: SampleLadder) -> dict:
    by_sample = [sample_constants(sample) for sample in case.samples]
    return {
        symbol: Estimate.stacked(constants[symbol] for constants in by_sample) for symbol in (n, delta, lam, quadratic)
    }


def constant_loss() -> SampleLadder:
    """A linear target, learnt the better the more samples there are, and the loss that is 1 whatever is answered."""
    return SampleLadder(LINEAR, Loss(slope=0.0, floor=1.0), seed=0)


STATEMENTS = (
    Statement(
        id="fl-ntk/T4.3",
        title="Generalisation of the trained network, O() form",
        kind=Kind.ORDER,
        source=Source(
            FL_NTK,
            "Theorem 4.3",
            note="the informal version of Theorem C.11, and one fault with it: l(y,y) = 0 is nowhere assumed. For the "
            "constant loss 1 the left side stays 1 while the right side tends to 0 as n grows, so no O-constant mends "
            "it. Definition 4.2 asks for lambda_min(H(0)), which depends on the network as well as on the data and is "
            "therefore no property of a distribution; Definition C.1 has H_inf, used here. Repaired: as C.11",
        ),
        hypotheses=(
            FAILURE_PROBABILITY,
            *(h.of_every("sample", SAMPLES) for h in (NON_DEGENERATE, LIPSCHITZ, BOUNDED)),
        ),
        forms={
            Form.STATED: Claim(
                MAIN + sp.sqrt(sp.log(n / (lam * delta)) / n),
                premise=PREMISE,
                recorded=Outcome.VIOLATED,
                nature=Nature.MISSING_HYPOTHESIS,
                witness=constant_loss,
                reading="no sign is in question, as for C.11",
                note="O(): the ratio of the two sides must not grow with n; the O-constant is taken as 1",
                consequence="as for C.11: assume l(y, y) = 0",
            )
        },
        constants=_constants,
        measure=lambda case: Estimate.stacked(sample.held_out_loss for sample in case.samples),
        symbols={quadratic: "y^T H_inf^-1 y", lam: "smallest eigenvalue of H_inf"},
        left_formula="L_D(f_T)",
        says_left="the loss of the infinite-width predictor after T rounds on held-out samples, for growing n",
        families=sample_ladder_families,
        mutants=(
            power(n, 2),
            power(n, 4),
            replaced(n, 1, "n dropped", Change.FACTOR),
        ),
        uses=("fl-ntk/C.11",),
    ),
)
