"""X.13b: while neurons are held at kinks, the residual falls by the kernel with these pairs projected out."""

from dataclasses import replace

import numpy as np
import sympy as sp

from bounds import Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fl_ntk.cases.sliding_ladder import SLIDING_LADDERS, STEP_SIZES, SlidingLadder, sliding_case
from bounds.ladders.slopes import slope
from bounds.mutants import shifted
from bounds.vocabulary import BEYOND
from ntkfl.estimate import Estimate

FINITE = 0.02  # what the next power of the step may still do to an exponent


def _power(values: np.ndarray) -> Estimate:
    """The power of the step in values (etas, starts)."""
    fitted = -slope(1 / STEP_SIZES, list(values), biased=False)
    return replace(fitted, error=fitted.error + FINITE, method=f"{fitted.method}, {FINITE:g} for a finite step")


def _repelled() -> SlidingLadder:
    """Neurons at kinks with a_r r_i > 0: both sides push them away, and which way they go is chance."""
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
            note="at the kink of x_i a neuron feels a (B + 1{z >= 0} G_ii "
            "r_i), B = sum_(j != i) G_ij s_j r_j; both sides push it there iff a r_i < 0 and psi = -B/(G_ii "
            "r_i) is in (0, 1); several pairs at one neuron have their psi together, s_j = psi_j in B. In the "
            "limit of small steps it then slides (Filippov) with the activation psi, which is the share of "
            "steps at which it is active: what x_i adds to its force is what keeps it on the hyperplane of the "
            "kink. So its other forces act by their projections on that hyperplane, it adds 0 to f_i, and r' = "
            "-H_P r with H_P the Gram matrix of the gradients with the held pairs projected out. Digits, n = "
            "20, plain gradient descent with eta = .3, over 100 late rounds (|r| near 1e-8), four networks of "
            "width 200 with 19 to 27 pairs held: H_P foretells the residual to .0006 to .0019 of itself, the "
            "kernel of the patterns as they are to .013 to .04, that with the held pairs left out, not "
            "projected, to .04 to .24. With N clients, summed losses, their plain mean and K local steps: in "
            "steps of eta a pair's client moves z by a (B_c + 1{z >= 0} G_ii r_i), the other clients by a B_c' "
            "each, whatever z is (to first order). So a round moves it by (a/N) (K B + A G_ii r_i), B of all "
            "samples and A the number of active local steps. Beyond K steps' reach of the kink A is 0 or K: the "
            "two sides push it back iff a r_i < 0 and the same psi, with the B of all clients, is in (0, 1); "
            "then the sum over the rounds stays bounded, so that A/K is psi in the mean. The part of w_r along "
            "its held kinks stays of order K eta, and the rest of w_r does not feel the held samples, whatever "
            "A is: r follows the same flow to the order K eta, a round taking the time K eta/N (server step 1). "
            "That order is proved so; that the power is 1 is measured. With weights p_c of the clients the flow "
            "is r' = -H_P diag(N p_c) r. A pair need not cross from round to round: where its client alone "
            "drags it over the kink it stays on one side, at a distance that falls with |r|, A changes between "
            "whole numbers of mean K psi, and the client crosses the kink within its steps. Most held pairs are "
            "such, and they are projected out like the others. Digits, n = 20, N = 4, K = 5, three networks of "
            "width 200, over 100 late rounds, eta = .03: 21 to 29 pairs are active in some local steps and not "
            "in others, 2 to 9 of them cross from round to round; all have psi in (0, 1), from which their "
            "shares differ by .011 to .013 (median). The round map with H_P for every kernel foretells the "
            "residual to .00015 to .0006 of itself, that with the patterns as they are to .009 to .012, and "
            "with only the pairs projected out that cross from round to round to .0044 to .0099. At eta = .3 a "
            "client's own residual falls by factors that are not near 1, also where a round's do. H_P is then "
            "still the kernel of the server's move, but not the clients': .007 to .026 with H_P for both, .0037 "
            "to .0084 with the mean patterns of the clients' steps for theirs, .011 to .043 with all as they "
            "are. What is stated is the limit of small steps",
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
                note="powers of the step: of |r_eta(t) - exp(-t H_P) r_0|; of the difference between a pair's share of "
                "active local steps and the mean of psi",
            )
        },
        measure=lambda case: (_power(case.runs[0]), _power(case.runs[1])),
        left_formula=(
            "exponent in K eta/N of |r_eta(t) - exp(-t H_P) r_0|",
            "exponent in K eta/N of rms_{pairs} (mean_t A/K - mean_t psi)",
        ),
        says_left="log-log slopes at time .5 as that of a round, K eta/N, falls from 2^-5 to 2^-11, root mean square "
        "over 48 starts within a step of the kinks",
        families=SLIDING_LADDERS,
        mutants=tuple(shifted(sp.Rational(halves, 2)) for halves in (-1, 1)),
        necessity={"pushed-back": _repelled, "clear": _crossing},
        uses=("fl-ntk/X.13",),
    ),
)
