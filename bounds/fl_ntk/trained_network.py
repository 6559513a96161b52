"""Statements X.8 to X.10: the trained network in the kernel regime, its changes of activations, its deviations.

The outputs deviate by the order m^(-1/2) from the outputs at infinite width. On a ladder the same quantity is measured
at several widths.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Kind, Source, Statement
from bounds.cases.kernel_case import MeasuredRegime
from bounds.federated_run import FederatedRun
from bounds.fl_ntk.families.few_points import linearised_families
from bounds.fl_ntk.premises import POSITIVE_SPECTRUM, at_most
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.fl_ntk.terms.round_map import COEFFICIENTS, MAP_SYMBOLS, MOVEMENT, map_constants, residuals, start
from bounds.ladders.slopes import EPS, NoSlope, slope
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, shifted, sign_flipped, without
from bounds.symbols import N, T, eta_local, n, r0
from ntkfl import Estimate, Problem, Setup, gram, kernel_regime
from ntkfl.finite_width.boundary_layer import PatternChange, drift_correction, gram_correction, pattern_change
from ntkfl.limit.infinite_width import KernelRegime

p = sp.Symbol("p", positive=True)  # the number of test points
h = sp.MatrixSymbol("h", p, n)  # h(x)_j = H(x, x_j)
f0 = sp.MatrixSymbol("f_0", p, 1)


def _points(case: FederatedRun) -> np.ndarray:
    """Test points of a run, (p, d)."""
    x = np.random.default_rng([case.setup.seed, 2]).normal(size=(5, case.problem.d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _output(case: FederatedRun, hidden: np.ndarray) -> Estimate:
    """The outputs of the linearised network with these hidden weights, (p,).

    The activations are taken from the initialisation.
    """
    x = _points(case)
    z = (x @ hidden.T) * gram.activations(x, case.weights.hidden)
    m, eps = len(hidden), np.finfo(float).eps
    norms, sizes = np.linalg.norm(hidden, axis=1).sum() / np.sqrt(m), np.abs(z).sum(axis=1)
    error = (case.problem.d + case.setup.rounds + 8) * eps * norms + m * eps * sizes / np.sqrt(m)
    return Estimate(z @ case.weights.signs / np.sqrt(m), error, "rounding bound")


def _cross(case: FederatedRun) -> np.ndarray:
    """H(x, x_j) between test and training points, (p, n)."""
    return gram.finite(_points(case), case.weights.hidden, z=case.problem.x)


def _constants_x_8(case: FederatedRun) -> dict:
    cross_error = (case.problem.d + 8) * np.finfo(float).eps * (np.abs(_points(case)) @ np.abs(case.problem.x).T)
    return map_constants(case, case.initial_gram) | {
        T: case.setup.rounds,
        h: Estimate(_cross(case), cross_error, "counts, rounding bound"),
        f0: _output(case, case.weights.hidden),
        start: -residuals(case)[:, 0],
    }


def _measure_x_8(case: FederatedRun) -> tuple[Estimate, ...]:
    last, cross = case.setup.rounds, _cross(case)
    moved = case.observed("total_movement")[-1:].squared()
    trained = _output(case, case.trajectory.weights[last])
    regime = MeasuredRegime(case.problem, case.setup, case.initial_gram.value)
    before, start = _output(case, case.weights.hidden), case.trajectory.outputs[0]

    def predicted(limit: KernelRegime, order: slice, start: np.ndarray) -> np.ndarray:
        return limit.predict(None, last, start, before.value, cross_gram=cross[:, order])

    size = float(np.abs(before.value).max() + np.abs(trained.value).max())
    prediction = regime.of(predicted, size=size, start=start)
    movement = regime.of(lambda limit, _, start: limit.movement([last], start), start=start)
    return trained, moved, replace(prediction, error=prediction.error + before.error), movement.squared()


F = sp.Symbol("F", positive=True)
B = sp.Symbol("B_ij", real=True)
HALF = sp.Rational(1, 2)


def _measure_x_9(ladder: WidthLadder) -> tuple[Estimate, ...]:
    flips, drift = ladder.samples("flips"), ladder.samples("gram_drift")
    slopes = slope(ladder.sizes, flips), slope(ladder.sizes, ladder.split("gram_drift")[0])
    share = leading_coefficient(ladder.sizes, flips, -0.5)
    matrix = leading_coefficient(ladder.sizes, drift, -0.5)
    if not share.lo > 0:
        raise NoSlope(
            f"the coefficient of the share of flips, {share}, is not told from 0: the networks move too little"
        )
    per_flip = Estimate(
        matrix.value / share.value,
        (matrix.error + (share.error / share.value) * np.abs(matrix.value)) / share.lo,
        matrix.method,
        matrix.rigour,
    )
    return *slopes, share.log(), per_flip


@lru_cache(maxsize=4)
def _predicted(problem: Problem, setup: Setup) -> PatternChange:
    """F(t) and B(t): the coefficients of m^(-1/2) in the share of flips and in the mean change of the kernel.

    The result is kept for later calls: a ladder of networks and the ladder on which a failure is checked again share
    one problem and one setup.
    """
    return pattern_change(problem, setup)


def _constants_x_9(ladder: WidthLadder) -> dict:
    predicted = _predicted(ladder.problem, ladder.setup)
    return {F: predicted.flips[-1], B: predicted.drift[-1]}


ROUNDINGS = 256  # number of roundings of the outputs that may add up in a remainder
CHANGED = 0.5
drift = sp.Symbol("delta_y", real=True)


def _remainders(ladder: WidthLadder) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What is left of y_lin - y_inf and of y_m - y_inf without their first part, (networks, T+1, n) for each width.

    y_lin is the network linearised in its weights. The first part is the effect of H(0) - H_inf to first order.
    """
    problem, setup = ladder.problem, ladder.setup
    rounds, kernel = np.arange(setup.rounds + 1), gram.infinite(problem.x)
    limit = kernel_regime(problem, setup).outputs(rounds)

    def linearised(run: FederatedRun) -> np.ndarray:
        initial = run.initial_gram.value
        # by X.1 these are exactly the outputs of the linearised network
        outputs = kernel_regime(problem, setup, initial).outputs(rounds)
        return outputs - limit - gram_correction(problem, setup, initial - kernel)

    left = [np.array([linearised(run) for run in row]) for row in ladder.runs]
    beyond = ladder.samples("linearised")  # y_m - y_lin
    return left, [a + b for a, b in zip(left, beyond, strict=True)]


@lru_cache(maxsize=4)
def _drift_path(problem: Problem, setup: Setup, seed: int) -> Estimate:
    """The drift term times sqrt(m), (T+1, n). The result is kept for later calls."""
    return drift_correction(problem, setup, seed=seed)


def _watched(ladder: WidthLadder) -> list[int]:
    """The rounds at which the coefficient is measured, early and in the middle. At the end little residual is left."""
    return [max(ladder.setup.rounds // 6, 1), max(ladder.setup.rounds // 2, 1)]


def _slope(ladder: WidthLadder, paths: list[np.ndarray], biased: bool = True) -> Estimate:
    """The slope of the geometric mean over networks of max_t |.|_2.

    In a root mean square a few large values would dominate.

    Raises:
        NoSlope: only rounding is left, as for a linearised network after one step.
    """
    lengths = [np.linalg.norm(path, axis=2).max(axis=1) for path in paths]
    if (least := min(length.min() for length in lengths)) <= _rounding(ladder):
        raise NoSlope(f"a remainder has the length {least:.2g}; rounding alone may leave {_rounding(ladder):.2g}")
    return slope(ladder.sizes, np.exp([np.log(length).mean() for length in lengths]), biased=biased)


def _rounding(ladder: WidthLadder) -> float:
    # a bound on the size of the initial outputs, which are part of the labels
    starts = ladder.setup.sigma * np.linalg.norm(ladder.problem.x)
    return ROUNDINGS * EPS * float(np.linalg.norm(ladder.problem.y) + starts)


def _require_changed(ladder: WidthLadder, paths: list[np.ndarray]) -> None:
    """Raise NoSlope unless enough networks differ from their first order by more than rounding.

    At each sample and round, `paths` must exceed rounding for at least half of the networks of a width. If few networks
    change an activation pattern, their spread says nothing about other networks.
    """
    for size, path in zip(ladder.sizes, paths, strict=True):
        share = float((np.abs(path) > _rounding(ladder)).mean(axis=0).min())
        if share < CHANGED:
            raise NoSlope(
                f"at width {size:g} the output at some sample and round differs from its first order by more than "
                f"rounding in {share:.0%} of the networks; it must in at least {CHANGED:.0%}"
            )


def _measure_x_10(ladder: WidthLadder) -> tuple[Estimate, ...]:
    (left, of_network), watched = _remainders(ladder), _watched(ladder)
    path = _drift_path(ladder.problem, ladder.setup, 0).value
    undrifted = [sample - path / np.sqrt(m) for sample, m in zip(of_network, ladder.sizes, strict=True)]
    _require_changed(ladder, [sample[:, watched] for sample in of_network])
    coefficient = leading_coefficient(ladder.sizes, [sample[:, watched] for sample in of_network], -0.5)
    start = float(np.linalg.norm(ladder.problem.y))
    return (
        # The remainder is of second order in dH. The next term is odd in dH, whose law is nearly symmetric. So the bias
        # is of order 1/m, not m^(-1/2).
        _slope(ladder, left, biased=False),
        _slope(ladder, of_network),
        _slope(ladder, undrifted),
        Estimate(coefficient.value / start, coefficient.error / start, coefficient.method, coefficient.rigour),
    )


def _constants_x_10(ladder: WidthLadder) -> dict:
    path = _drift_path(ladder.problem, ladder.setup, 1)
    return {drift: path[_watched(ladder)], r0: float(np.linalg.norm(ladder.problem.y))}


STATEMENTS = (
    Statement(
        id="fl-ntk/X.8",
        title="Predictions and movement of the trained network in the kernel regime",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#movement-and-predictions"),
        note="f(x,T) = f(x,0) + h(x)^T H^-1 (I - M^T)(y - y(0)), |U(T) - U(0)|_F^2 = c_T^T H c_T; as T grows, the "
        "limit of f(x,T) does not depend on N, K, the steps or the partition",
        hypotheses=(at_most(400), POSITIVE_SPECTRUM),
        new=Claim((f0 + h * COEFFICIENTS, MOVEMENT) * 2),
        constants=_constants_x_8,
        measure=_measure_x_8,
        symbols=MAP_SYMBOLS
        | {
            h: "kernel of test against training points",
            f0: "outputs at the test points before training",
            start: "y - y(0)",
        },
        left_formula=("f(x,T)", "|U(T) - U(0)|_F^2") * 2,
        says_left="left 1 and 2: the linearised network's outputs at five random test points, and |U(T) - U(0)|_F^2, "
        "after training in parameter space; left 3 and 4: prediction and movement of the kernel regime of H(0) from "
        "the same start",
        families=linearised_families,
        mutants=(
            MILLIONTH_MORE,
            index_shifted(T, 1),
            without(N),
            power(eta_local, sp.Rational(1, 2)),
            sign_flipped(f0, "the outputs at the start"),
        ),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/X.9",
        title="Boundary layer: flips and kernel drift are of order m^(-1/2), with these coefficients",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/finite_width.md#boundary-layer"),
        note="only neurons with |w.x_i| = O(m^(-1/2)) change their pattern. For these z = sqrt(m) w.x_i follows a "
        "scalar recursion with the residuals of infinite width; the patterns on the other samples are frozen. z "
        "starts uniform near 0 with density 1/(sqrt(2 pi) sigma |x_i|), and the frozen patterns are those of a "
        "Gaussian w orthogonal to x_i. The average over both gives the share of flipped pairs, F m^(-1/2), and "
        "E[H(T) - H(0)] = B m^(-1/2). The drift is not of order 1/m, as it is for a smooth activation: a neuron's "
        "own sample pulls it on one side of the kink only, so that more neurons become inactive on "
        "the sample than active",
        new=Claim(
            (-HALF, -HALF, sp.log(F), B / F),
            note="exponents in the width of the share of flips and of |E[H(T) - H(0)]|_F; the logarithm of the "
            "coefficient of the share; the coefficient of the mean drift over that of the share, entry by entry",
        ),
        constants=_constants_x_9,
        measure=_measure_x_9,
        symbols={
            F: "flips after T rounds, as a share of all pairs, times sqrt(m), from the boundary layer",
            B: "entries of E[H(T) - H(0)], times sqrt(m), from the boundary layer",
        },
        left_formula=(
            "exponent in m of share of flips",
            "exponent in m of |E (H(T) - H(0))|_F",
            "log lim_{m -> inf} sqrt(m) share of flips",
            "lim_{m -> inf} E (H(T) - H(0))_{ij} / share of flips",
        ),
        says_left="log-log slopes over a ladder of widths, and the coefficients of m^(-1/2) extrapolated from it",
        families=ladder_families,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-HALF),
            replaced(F, sp.Rational(3, 2) * F, "F half as large again"),
            replaced(B, -B, "drift of the other sign"),
            replaced(B, B / 2, "drift from one of its two samples only"),
        ),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/X.10",
        title="Second order: the outputs of a finite network to order m^(-1/2), and what is left",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/finite_width.md#second-order-of-the-linearised-network"),
        note="for the network linearised in its weights the first part is all there is to the order m^(-1/2), and "
        "the remainder is O(1/m). For the network itself it is not. About m^(1/2) neurons change their pattern, "
        "and each weighs 1/m in H, so the drift scatters about its mean by m^(-3/4), and so do the outputs (the "
        "mean of the remainder is smaller: in no run was it above what 1/m allows). Without the drift term a part "
        "of order m^(-1/2) is left; its coefficient depends on the data and the steps, and is the same for all "
        "networks. The drift is not only H(t) - H(0) at whole rounds: it acts in every local step (on a client's "
        "own samples) and in the server's step, with the mean slope of relu over the step.",
        new=Claim(
            (sp.Integer(-1), -sp.Rational(1, 2), -sp.Rational(3, 4), drift / r0),
            note="exponents in the width of three remainders: y_lin - y_inf less the first part; y_m - y_inf less "
            "the first part; y_m - y_inf less the first part and the drift term. Last, the coefficient of m^(-1/2) "
            "in the second remainder, over |r_0|, at rounds T/6 and T/2",
        ),
        constants=_constants_x_10,
        measure=_measure_x_10,
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
