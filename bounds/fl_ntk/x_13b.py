"""X.13b: while neurons are held at kinks, the residual follows the kernel from which these pairs are projected out."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fl_ntk.cases.sliding_ladder import SLIDING_LADDERS, STEP_SIZES, SlidingLadder, sliding_case
from bounds.ladders.slopes import slope
from bounds.mutants import shifted
from ntkfl.estimate import Estimate

FINITE = 0.02  # bound on the effect of the next power of the step on a fitted exponent


def _power(values: np.ndarray) -> Estimate:
    """The fitted power of the step, from values (etas, starts)."""
    fitted = -slope(1 / STEP_SIZES, list(values), biased=False)
    return replace(fitted, error=fitted.error + FINITE, method=f"{fitted.method}, {FINITE:g} for a finite step")


def _repelled() -> SlidingLadder:
    """Neurons at kinks with a_r r_i > 0: both sides push them away from the kink."""
    return sliding_case(0, repelled=True)


def _crossing() -> SlidingLadder:
    """A neuron near a kink that is not held there: it crosses the kink, and the kernel changes."""
    return sliding_case(0, near=True)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.13b",
        title="Neurons held at kinks slide: training comes to the flow of the kernel with them projected out",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/finite_width.md#neurons-at-their-kinks",
            note="H_P is the Gram matrix of the gradients with the held pairs projected out. B = sum_(j != i) G_ij s_j "
            "r_j is the push of the other samples at the kink of x_i, where a neuron moves by a (B + 1{z >= 0} G_ii "
            "r_i). Both sides push the neuron to the kink iff a r_i < 0 and psi = -B/(G_ii r_i) is in (0, 1). For "
            "small steps the neuron then slides along the kink, and is active in the share psi of the steps "
            "(Filippov); the psi of several pairs at one neuron solve one system. With K local steps a client may "
            "cross the kink within its steps while the server's model stays on one side; such pairs are projected out "
            "too. The order K eta of the distance is proved; the power 1 is measured. The page of proofs has figures "
            "on digits",
        ),
        hypotheses=(
            Hypothesis(
                "pushed-back",
                "along the flow psi stays in (0, 1) and a_r r_i < 0 at the held pairs",
                lambda case: case.pushed_back,
            ),
            Hypothesis("clear", "along the flow no other pair comes to its kink", lambda case: case.clearance),
        ),
        forms={
            Form.NEW: Claim(
                (sp.Integer(1), sp.Integer(1)),
                note="powers of the step in |r_eta(t) - exp(-t H_P) r_0|, and in the difference between a pair's share "
                "of active local steps and the mean of psi",
            )
        },
        measure=lambda case: (_power(case.runs[0]), _power(case.runs[1])),
        left_formula=(
            "exponent in K eta/N of |r_eta(t) - exp(-t H_P) r_0|",
            "exponent in K eta/N of rms_{pairs} (mean_t A/K - mean_t psi)",
        ),
        says_left="log-log slopes at time .5, as the time of a round, K eta/N, falls from 2^-5 to 2^-11; root mean "
        "square over 48 starts within a step of the kinks",
        families=SLIDING_LADDERS,
        mutants=tuple(shifted(sp.Rational(halves, 2)) for halves in (-1, 1)),
        necessity={"pushed-back": _repelled, "clear": _crossing},
        uses=("fl-ntk/X.13",),
    ),
)
