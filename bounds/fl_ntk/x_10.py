"""X.10: the part of order m^(-1/2) of a finite network's outputs, in closed form, and the order of the remainder."""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.ladders.slopes import EPS, NoSlope, slope
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import replaced, shifted
from bounds.symbols import r0
from ntkfl import Estimate, Problem, Setup, gram, kernel_regime
from ntkfl.finite_width.width_correction import drift_correction, gram_correction

ROUNDINGS = 256  # roundings of the outputs that may add up in a remainder
CHANGED = 0.5
drift = sp.Symbol("delta_y", real=True)


def _remainders(ladder: WidthLadder) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The remainders of y_lin - y_inf and of y_m - y_inf after their first part, (networks, T+1, n) for each width.

    y_lin is the network linearised in its weights; the first part is the effect of H(0) - H_inf to first order.
    """
    problem, setup = ladder.problem, ladder.setup
    rounds, kernel = np.arange(setup.rounds + 1), gram.infinite(problem.x)
    limit = kernel_regime(problem, setup).outputs(rounds)

    def linearised(run: FederatedRun) -> np.ndarray:
        initial = run.initial_gram.value
        outputs = kernel_regime(problem, setup, initial).outputs(rounds)  # exactly the linearised network's, by X.1
        return outputs - limit - gram_correction(problem, setup, initial - kernel)

    left = [np.array([linearised(run) for run in row]) for row in ladder.runs]
    beyond = ladder.samples("linearised")  # y_m - y_lin
    return left, [a + b for a, b in zip(left, beyond, strict=True)]


@lru_cache(maxsize=4)
def _drift_path(problem: Problem, setup: Setup, seed: int) -> Estimate:
    """The drift term times sqrt(m), (T+1, n): cached, since all looks at a ladder have one problem and setup."""
    return drift_correction(problem, setup, seed=seed)


def _watched(ladder: WidthLadder) -> list[int]:
    """Rounds at which the coefficient is measured: early and in the middle; at the end little residual is left."""
    return [max(ladder.setup.rounds // 6, 1), max(ladder.setup.rounds // 2, 1)]


def _slope(ladder: WidthLadder, paths: list[np.ndarray], biased: bool = True) -> Estimate:
    """The slope of the geometric mean over networks of max_t |.|_2; in the RMS a few large values would dominate.

    Raises:
        NoSlope: only rounding is left, as for a linearised network after one step.
    """
    lengths = [np.linalg.norm(path, axis=2).max(axis=1) for path in paths]
    if (least := min(length.min() for length in lengths)) <= _rounding(ladder):
        raise NoSlope(f"a remainder has the length {least:.2g}; rounding alone may leave {_rounding(ladder):.2g}")
    return slope(ladder.sizes, np.exp([np.log(length).mean() for length in lengths]), biased=biased)


def _rounding(ladder: WidthLadder) -> float:
    # the size of the initial outputs, which are part of the labels
    starts = ladder.setup.sigma * np.linalg.norm(ladder.problem.x)
    return ROUNDINGS * EPS * float(np.linalg.norm(ladder.problem.y) + starts)


def _require_changed(ladder: WidthLadder, paths: list[np.ndarray]) -> None:
    """Raise NoSlope unless at each sample and round half of each width's networks have more than rounding in `paths`.

    If few networks change a pattern, their spread says nothing about other networks.
    """
    for size, path in zip(ladder.sizes, paths, strict=True):
        share = float((np.abs(path) > _rounding(ladder)).mean(axis=0).min())
        if share < CHANGED:
            raise NoSlope(
                f"at width {size:g} the output at some sample and round differs from its first order by more than "
                f"rounding in {share:.0%} of the networks; it must in at least {CHANGED:.0%}"
            )


def _measure(ladder: WidthLadder) -> tuple[Estimate, ...]:
    (left, of_network), watched = _remainders(ladder), _watched(ladder)
    path = _drift_path(ladder.problem, ladder.setup, 0).value
    undrifted = [sample - path / np.sqrt(m) for sample, m in zip(of_network, ladder.sizes, strict=True)]
    _require_changed(ladder, [sample[:, watched] for sample in of_network])
    coefficient = leading_coefficient(ladder.sizes, [sample[:, watched] for sample in of_network], -0.5)
    start = float(np.linalg.norm(ladder.problem.y))
    return (
        # The remainder is of second order in dH; the next term is odd in dH, whose law is nearly symmetric, so that the
        # bias is of order 1/m, not m^(-1/2).
        _slope(ladder, left, biased=False),
        _slope(ladder, of_network),
        _slope(ladder, undrifted),
        Estimate(coefficient.value / start, coefficient.error / start, coefficient.method, coefficient.rigour),
    )


def _constants(ladder: WidthLadder) -> dict:
    path = _drift_path(ladder.problem, ladder.setup, 1)
    return {drift: path[_watched(ladder)], r0: float(np.linalg.norm(ladder.problem.y))}


STATEMENTS = (
    Statement(
        id="fl-ntk/X.10",
        title="Second order: the outputs of a finite network to order m^(-1/2), and what is left",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/finite_width.md#second-order-of-the-linearised-network",
            note="for the network linearised in its weights the first part is all there is to the order m^(-1/2), and "
            "the remainder is O(1/m). For the network itself it is not. About m^(1/2) neurons change their pattern, "
            "and each weighs 1/m in H, so the drift scatters about its mean by m^(-3/4), and so do the outputs (the "
            "mean of the remainder is smaller: in no run was it above what 1/m allows). Without the drift term a part "
            "of order m^(-1/2) is left; its coefficient depends on the data and the steps, and is the same for all "
            "networks. The drift is not only H(t) - H(0) at whole rounds: it acts in every local step (on a client's "
            "own samples) and in the server's step, with the mean slope of relu over the step.",
        ),
        forms={
            Form.NEW: Claim(
                (sp.Integer(-1), -sp.Rational(1, 2), -sp.Rational(3, 4), drift / r0),
                note="exponents in the width of three remainders: y_lin - y_inf less the first part; y_m - y_inf less "
                "the first part; y_m - y_inf less the first part and the drift term. Last, the coefficient of m^(-1/2) "
                "in the second remainder, over |r_0|, at rounds T/6 and T/2",
            )
        },
        constants=_constants,
        measure=_measure,
        symbols={drift: "drift term times sqrt(m), from the boundary layer"},
        left_formula=(
            "exponent in m of max_t |y_{lin}(t) - y_inf(t) - D(t)|",
            "exponent in m of max_t |y_m(t) - y_inf(t) - D(t)|",
            "exponent in m of max_t |y_m(t) - y_inf(t) - D(t) - delta_y(t)/sqrt(m)|",
            "lim_{m -> inf} sqrt(m) E (y_m(t) - y_inf(t) - D(t)) / |r_0|",
        ),
        says_left="log-log slopes of the geometric mean over networks of max_t |remainder|, and the mean "
        "remainder's coefficient; D(t) is the first part, the effect of H(0) - H_inf to first order",
        families=ladder_families,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            replaced(drift, 2 * drift, "drift doubled"),
            replaced(drift, -drift, "drift of the other sign"),
            replaced(drift, 0, "no drift"),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/X.9"),
    ),
)
