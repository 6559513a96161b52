"""X.6: whether more clients take more rounds is a matter of the server's step."""

import sympy as sp

from bounds import Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.fl_ntk.cases.client_ladder import ClientLadder, client_ladders
from bounds.hypothesis import Limit
from bounds.ladders.slopes import slope
from bounds.mutants import shifted
from bounds.vocabulary import BEYOND
from ntkfl import gram
from ntkfl.estimate import Estimate

SHARE = 1e-6  # of the residual


def _local_time(ladder: ClientLadder) -> float:
    setup = ladder.setup
    largest = max(float(gram.largest_eigenvalue(gram.infinite_estimate(p.x)).hi) for p in ladder.problems)
    return setup.eta_local * setup.local_steps * largest


def _measure(ladder: ClientLadder) -> tuple[Estimate, Estimate]:
    fixed, growing = (ladder.rounds_to(SHARE, step) for step in (lambda clients: 1.0, lambda clients: clients))
    return slope(ladder.sizes, fixed), slope(ladder.sizes, growing)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.6",
        title="Rounds grow like N at eta_g = 1, and not at all at eta_g = N",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#rounds-and-clients",
            note="theorem 4.1 is read as: more clients need more rounds. That is so at a fixed eta_g, because the "
            "server takes the unweighted mean of the updates, and each client's is about its own samples only. With "
            "eta_g = N the sum of the updates is taken, and the rounds stay those of one client up to eta_l K. The "
            "paper's own Claim B.7 has C_4 ~ (eta_g/N)^2, so that its proof allows eta_g up to N where theorem B.3 "
            "asks for eta_g = O(1). Larger local steps favour more clients less: P then saturates",
        ),
        hypotheses=(
            Hypothesis(
                "eight-samples",
                "n >= 8: a slope needs four numbers of clients",
                Limit("n", lambda ladder: ladder.samples, at_least=8.0),
            ),
            Hypothesis(
                "small-steps",
                "eta_l K |H_inf| <= 1/2",
                Limit("eta_l K |H_inf|", _local_time, at_most=0.5),
                eased_by=("eta_local",),
            ),
        ),
        forms={Form.NEW: Claim((sp.Integer(1), sp.Integer(0)), note="exponents in N, at eta_g = 1 and eta_g = N")},
        measure=_measure,
        left_formula=tuple(
            f"exponent in N, eta_g = {step}, of min {{t : |y - y(t)| <= 10^{{-6}} |y|}}" for step in ("1", "N")
        ),
        says_left="log-log slopes of the first round with |y - y(t)| <= 1e-6 |y| in the kernel regime, against N",
        families=client_ladders,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            shifted(sp.Rational(1, 2)),
            shifted(-sp.Rational(1, 2)),
        ),
        uses=("fl-ntk/T4.1", "fl-ntk/X.3", "fl-ntk/B.7"),
    ),
)
