"""W: the powers of the width with which the quantities of training approach the kernel regime."""

from collections.abc import Callable

import numpy as np
import sympy as sp

from bounds.fl_ntk.sources import EXACT, ON_WIDTH
from bounds.ladders.initial_ladder import InitialLadder, initial_ladder_families
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.ladders.width_rate import (
    HALF,
    QUARTER,
    THREE_QUARTERS,
    Quantity,
    WidthRate,
    mean_part,
    spread_part,
    statistic,
    width_rate,
)

ZERO = sp.Integer(0)
ON_RUNS = "log-log slope over a ladder of widths, with several networks of each width, all from the same residual: "
AT_START = "log-log slope over networks at initialisation, widths up to 2^20: "


def _at_start(read: Callable) -> Callable[[InitialLadder], list[np.ndarray]]:
    return lambda ladder: [np.array([read(start, ladder) for start in row]) for row in ladder.starts]


def _smallest(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(matrix)[0])


def _eigenvalue_gap(start, ladder: InitialLadder) -> float:
    limit = ladder.infinite_gram.value
    return abs(_smallest(limit + start.deviation) - _smallest(limit))


def _gram_coefficient(ladder: InitialLadder) -> float:
    h, inner = ladder.infinite_gram.value, ladder.problem.x @ ladder.problem.x.T
    return float(np.sqrt((h * (inner - h)).sum()))


def _initial_coefficient(ladder: InitialLadder) -> float:
    return ladder.sigma * float(np.sqrt((ladder.problem.x**2).sum() / (2 * ladder.problem.n)))


def _limit(name: str, exponent: sp.Rational) -> Callable[[WidthLadder], float]:
    """The leading coefficient of a statistic, as `RunStatistics` has it."""

    def coefficient(ladder: WidthLadder) -> float:
        return float(ladder.samples(name)[-1].mean() / ladder.sizes[-1] ** float(exponent))

    return coefficient


def _one(
    label: str,
    title: str,
    name: str,
    exponent: sp.Rational,
    note: str,
    *,
    biased: bool = True,
    coefficient=None,
    left: str = "",
) -> WidthRate:
    """A row of the table: one statistic of a run, one exponent."""
    quantity = Quantity(title, exponent, statistic(name), biased, coefficient=coefficient, left=left)
    says = f"{ON_RUNS}{title}"
    return width_rate(
        f"fl-ntk/W-{label}", title, (quantity,), source=ON_WIDTH, note=note, says_left=says, families=ladder_families
    )


def _mean_and_spread(label: str, title: str, name: str, note: str, left: str = "") -> WidthRate:
    """A row for an array whose mean over networks is of order m^(-1/2) and whose fluctuation is of order m^(-3/4)."""
    left = left or title
    mean = f"E ({left})"
    quantities = (
        Quantity(f"mean of {title}", HALF, mean_part(name), left=f"|{mean}|_F"),
        Quantity(
            f"fluctuation of {title}", THREE_QUARTERS, spread_part(name), biased=False, left=f"|{left} - {mean}|_F"
        ),
    )
    return width_rate(
        f"fl-ntk/W-{label}",
        f"{title}: its mean over networks, and its fluctuation",
        quantities,
        source=ON_WIDTH,
        note=f"{note}; the RMS of both together has no single exponent: it moves from -3/4 to -1/2",
        says_left=f"{ON_RUNS}the norm of the mean over networks of {title}, and the RMS distance from that mean",
        families=ladder_families,
        claim_note="exponents of the mean and of the fluctuation",
    )


STATEMENTS = (
    width_rate(
        "fl-ntk/W-gram",
        "|H(0) - H_inf|_F",
        (
            Quantity(
                "|H(0) - H_inf|_F",
                HALF,
                _at_start(lambda s, _: np.linalg.norm(s.deviation)),
                False,
                True,
                _gram_coefficient,
            ),
        ),
        source=EXACT,
        note="at every width the mean square is exactly a constant divided by m: see W-coefficient-gram",
        says_left=f"{AT_START}|H(0) - H_inf|_F from streamed pattern counts",
        families=initial_ladder_families,
        uses=("fl-ntk/C.6",),
    ),
    width_rate(
        "fl-ntk/W-eigenvalue",
        "|lambda_min(H(0)) - lambda_min(H_inf)|",
        (Quantity("|lambda_min(H(0)) - lambda_min(H_inf)|", HALF, _at_start(_eigenvalue_gap)),),
        source=ON_WIDTH,
        note="first-order perturbation of a simple eigenvalue",
        says_left=f"{AT_START}|lambda_min(H(0)) - lambda_min(H_inf)|",
        families=initial_ladder_families,
        uses=("fl-ntk/W-gram",),
    ),
    width_rate(
        "fl-ntk/W-initial-output",
        "|f(0)| does not depend on the width",
        (
            Quantity(
                "RMS of f(0)",
                ZERO,
                _at_start(lambda s, _: np.sqrt((s.outputs**2).mean())),
                False,
                True,
                _initial_coefficient,
            ),
        ),
        source=EXACT,
        note="at every width the mean square is exactly sigma^2 |x|^2 / 2",
        says_left=f"{AT_START}the RMS over samples of f(0)",
        families=initial_ladder_families,
    ),
    _one(
        "movement",
        "max_r |u_r(T) - u_r(0)|",
        "movement",
        HALF,
        "the leading coefficient is at least max_s |X^T (c_T * s)| over initial patterns s (W-coefficient-movement). "
        "It is not equal to this maximum: runs exceed the maximum by up to 6%, without a trend in the width",
        coefficient=_limit("movement_limit", HALF),
    ),
    _one("local-step", "max_{c,r,k} |w_{k,c,r}(t) - u_r(t)|", "local_step", HALF, "at the middle round"),
    _one(
        "total-movement",
        "|U(T) - U(0)|_F",
        "total_movement",
        ZERO,
        "m neurons that move by m^(-1/2) each",
        coefficient=_limit("total_movement_limit", ZERO),
    ),
    _one("flips", "share of patterns flipped by round T", "flips", HALF, "only neurons within m^(-1/2) of a kink flip"),
    _one(
        "jacobian",
        "|J(t,k) - J(0,0)|_F",
        "jacobian",
        QUARTER,
        "the root of the share of flipped patterns",
        left="|J(k,t) - J(0,0)|_F",
    ),
    _mean_and_spread("gram-drift", "H(T) - H(0)", "gram_drift", "X.9: more neurons leave than enter"),
    _mean_and_spread(
        "local-gram-drift", "H(t,k) - H(0)", "local_gram_drift", "at the last local step of the middle round"
    ),
    _mean_and_spread(
        "asymmetry",
        "H(t,k) - H(t,k)^T",
        "asymmetry",
        "the mean is a bias, the fluctuation Poisson noise of about sqrt(m) flipped neurons",
    ),
    _mean_and_spread(
        "linearised", "y_m(t) - y_lin(t), all t", "linearised", "y_lin: the kernel regime of H(0)", "y_m - y_lin"
    ),
    _one(
        "outputs",
        "max_t |y_m(t) - y_inf(t)|",
        "outputs",
        HALF,
        "mostly the effect of the fluctuation of H(0) around H_inf",
        biased=False,
    ),
    _one(
        "frobenius-movement",
        "||U(T) - U(0)|_F - its limit|",
        "frobenius_movement",
        HALF,
        "one nearly Gaussian number for each network; no next-order term is fitted, since noise would swamp it",
        biased=False,
    ),
    _one(
        "prediction",
        "RMS of f(x,T) - its limit at test points",
        "prediction",
        HALF,
        "the limit starts from the network's own f(x,0); the numbers are nearly Gaussian, as for W-frobenius-movement",
        biased=False,
    ),
)
