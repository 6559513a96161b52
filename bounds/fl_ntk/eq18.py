"""Eq (18): the rate at which a round's remainder over the linear map I - rho H_inf falls with the width."""

import numpy as np
import sympy as sp

from bounds import FL_NTK, Claim, Form, Kind, Nature, Outcome, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.circle_ladder import CircleLadder
from bounds.ladders.slopes import slope
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import shifted
from ntkfl import Estimate, kernel_regime


def relative_remainder(run: FederatedRun, round_map: np.ndarray) -> float:
    """(sum_t |xi(t)|^2 / sum_t |y - y(t)|^2)^(1/2) with xi(t) = (y(t+1) - y) - A (y(t) - y) for a map A, (n, n)."""
    off = run.trajectory.outputs - run.problem.y
    return float(np.linalg.norm(off[1:] - off[:-1] @ round_map.T) / np.linalg.norm(off[:-1]))


def printed_map(ladder: WidthLadder) -> np.ndarray:
    """I - rho H_inf."""
    s = ladder.setup
    rho = s.eta_global * s.eta_local * s.local_steps / ladder.problem.n_clients
    return np.eye(ladder.problem.n) - rho * kernel_regime(ladder.problem, s).gram


def exact_map(ladder: WidthLadder) -> np.ndarray:
    """M = I - (eta_g/N) H_inf P."""
    return kernel_regime(ladder.problem, ladder.setup).round_map


def rate(ladder: WidthLadder, round_map: np.ndarray) -> Estimate:
    """The exponent of the relative remainder in the width, from its RMS over the networks of each width."""
    return slope(ladder.sizes, [np.array([relative_remainder(run, round_map) for run in row]) for row in ladder.runs])


AT_PRINTED_STEP = (
    "K = 3, eta_l = .4. At the step of Lemma C.7, eta_l = c lambda/(kappa n^2 K), the term that does not fall is at "
    "most c (K-1)/(2K) lambda mu/n^2 times rho lambda |r|; for c = 1e-3 and this ladder's data the factor is 9e-7. At "
    "this step, with the O-constant 1, the printed bound would hold until m exceeds 1e25"
)


def _printed_rate(ladder: WidthLadder | CircleLadder) -> Estimate:
    return ladder.rate if isinstance(ladder, CircleLadder) else rate(ladder, printed_map(ladder))


def _left(round_map: str) -> str:
    return f"exponent in m of sqrt(sum_t |r(t+1) - {round_map} r(t)|^2 / sum_t |r(t)|^2)"


STATEMENTS = (
    Statement(
        id="fl-ntk/Eq18",
        title="The remainder xi(t) of the linear recursion falls as m^(-1/2)",
        kind=Kind.RATE,
        source=Source(
            FL_NTK,
            "Eq (18)",
            note="one term of xi(t), (eta_g eta_l/N) sum_k H_inf (y^{(k)}(t) - y(t)), does not fall with the width at "
            "a fixed eta_l. So for K > 1 |xi| tends to |(eta_g/N) H_inf (P - eta_l K I) r|, which is at most rho eta_l "
            "(K-1) |H_inf|^2/2 |r| if eta_l q <= 2 for every eigenvalue q of a client block, and its exponent is 0. "
            "For K = 1 the term is 0 and (18) is right. Repaired: with the exact map M of X.1 in place of I - rho "
            "H_inf, or with that term added. At the paper's own step the term is small: see the note of the printed "
            "form. Derived again from the text: at infinite width y^{(k)}(t) - y(t) = ((I - eta_l D)^k - I)(y(t) - y), "
            "where D has the clients' blocks of H_inf; for k >= 1 no width makes this small. The paper bounds it by "
            "B.10, 2 eta_l n K |y - y(t)|, which has no m either",
        ),
        forms={
            Form.STATED: Claim(
                -sp.Rational(1, 2),
                recorded=Outcome.VIOLATED,
                nature=Nature.SUBSTANCE,
                measure=_printed_rate,
                left_formula=_left("(I - rho H_inf)"),
                witness=CircleLadder,
                reading="both lines of (18) and the bound on e(t) have sqrt(m) in the denominator",
                note=AT_PRINTED_STEP,
                consequence="for K >= 2 linearise with the exact round map M of X.1. At the paper's own tiny step the "
                "extra term is below 2e-6 of rho lambda |r|; at practical steps it dominates",
            ),
            Form.REPAIRED: Claim(-sp.Rational(1, 2), note="the remainder over M = I - (eta_g/N) H_inf P"),
        },
        measure=lambda ladder: rate(ladder, exact_map(ladder)),
        left_formula=_left("M"),
        says_left="log-log slope of the RMS over networks of (sum_t |xi(t)|^2 / sum_t |r(t)|^2)^(1/2), xi from the "
        "outputs alone",
        families=ladder_families,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            shifted(sp.Rational(1, 2)),
            shifted(-sp.Rational(1, 2)),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/C.6"),
    ),
)
