"""Statements W: the powers of the width with which training approaches the kernel regime, and their factors."""

from collections.abc import Callable

import numpy as np
import sympy as sp
from scipy.special import stdtrit

from bounds import BEYOND, Change, Claim, Hypothesis, Kind, Limit, Source, Statement
from bounds.fl_ntk.cases.method_ladder import CONNECTED, METHODS, PULL, SERVER_MOMENTUM, MethodLadder, method_families
from bounds.fl_ntk.sources import EXACT, ON_WIDTH
from bounds.fl_ntk.terms.local_methods import FEDPROX, beta, mu, shares, shares_of
from bounds.fl_ntk.terms.round_map import COEFFICIENTS, IDENTITY, MAP_SYMBOLS, MOVEMENT, D, H, map_constants, start
from bounds.fl_ntk.terms.state_map import AFTER, CONTROL, MAP, first, halves, product, second
from bounds.formula import evaluate
from bounds.ladders.width_ladder import InitialLadder, WidthLadder, initial_ladder_families, ladder_families
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
from bounds.mutants import index_shifted, power, replaced, scaled
from bounds.symbols import K, N, T, eta_local, m, n, sigma
from ntkfl import gram
from ntkfl.estimate import Estimate, Rigour

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


def _limit(name: str, exponent: sp.Rational) -> Callable[[WidthLadder], float]:
    """A function that returns the leading coefficient of a statistic of `RunStatistics`."""

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
    """The statement fl-ntk/W-`label` that one statistic of a run has one exponent in the width."""
    quantity = Quantity(title, exponent, statistic(name), biased, coefficient=coefficient, left=left)
    says = f"{ON_RUNS}{title}"
    return width_rate(
        f"fl-ntk/W-{label}", title, (quantity,), source=ON_WIDTH, note=note, says_left=says, families=ladder_families
    )


def _mean_and_spread(label: str, title: str, name: str, note: str, left: str = "") -> WidthRate:
    """The statement fl-ntk/W-`label` on an array-valued statistic of a run.

    The mean of the statistic over networks is of order m^(-1/2), and the fluctuation of the statistic is of order
    m^(-3/4).
    """
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
        note=f"{note}; the RMS of mean and fluctuation together has no single exponent: as the width grows, it moves "
        "from -3/4 to -1/2",
        says_left=f"{ON_RUNS}the norm of the mean over networks of {title}, and the RMS distance from that mean",
        families=ladder_families,
        claim_note="exponents of the mean and of the fluctuation",
    )


# probability that a confidence interval does not contain the value; a small probability, so that no false alarm occurs
ALPHA = 1e-6
# relative tolerances for squares; the tolerances of the square roots are a tenth and a twentieth
FIFTH, TENTH = sp.Rational(1, 5), sp.Rational(1, 10)
# number of networks of the largest width that are measured; a second simulation gives their rounding error
NETWORKS = 3
EPS = np.finfo(float).eps

limit_gram = sp.MatrixSymbol("H_inf", n, n)
inner = sp.MatrixSymbol("G", n, n)
# max_s |X^T (c_T * s)| over the initial activation patterns s; c_T = H_inf^-1 (I - M^T)(y - y(0)) has the coefficients
# of the movement on the samples' features, where M is the map of a round and T the number of rounds
farthest = sp.Symbol("c_max", positive=True)
VARIANCE = sp.Trace(limit_gram * (inner - limit_gram))  # sum of G_ij^2 p_ij (1 - p_ij), since H_inf = G p
OUTPUT = sigma**2 * sp.Trace(inner) / 2


def _within(expression, tolerance: sp.Rational) -> Claim:
    """The two-sided claim that a number is known to a relative tolerance."""
    return Claim((1 + tolerance) * expression, lower=(1 - tolerance) * expression)


def _initial_constants(ladder: InitialLadder) -> dict:
    products = Estimate.exact(ladder.problem.x) @ ladder.problem.x.T
    return {limit_gram: ladder.infinite_gram, inner: products, sigma: ladder.sigma}


def confidence(samples: np.ndarray) -> Estimate:
    """The mean of independent samples, (networks,), with Student's interval at the level 1 - ALPHA."""
    half = stdtrit(len(samples) - 1, 1 - ALPHA / 2) * samples.std(ddof=1) / np.sqrt(len(samples))
    return Estimate(
        samples.mean(), half, f"{1 - ALPHA:.4%} confidence interval, {len(samples)} networks", Rigour.SAMPLED
    )


def _deviations(ladder: InitialLadder) -> Estimate:
    rungs = zip(ladder.widths, ladder.starts, strict=True)
    return confidence(np.array([width * (start.deviation**2).sum() for width, row in rungs for start in row]))


def _outputs(ladder: InitialLadder) -> Estimate:
    return confidence(np.array([(start.outputs**2).sum() for row in ladder.starts for start in row]))


def _kernel_constants(ladder: WidthLadder) -> dict:
    """The values of the symbols in c_T and in the exact round map at infinite width. The first residual is r_0."""
    of_round_map = map_constants(ladder, gram.infinite_estimate(ladder.problem.x))
    return of_round_map | {start: _rounded_residual(ladder), T: ladder.setup.rounds}


def _rounded_residual(ladder: WidthLadder) -> Estimate:
    """r_0 as a column. Its error allows for the rounding of the labels y_m(0) + r_0 and of y_m(0)."""
    width, r0 = ladder.widths[-1], ladder.problem.y
    sizes = np.abs(r0) + 4 * ladder.setup.sigma * np.linalg.norm(ladder.problem.x, axis=1) * np.sqrt(ladder.problem.d)
    return Estimate(r0[:, None], (np.sqrt(width) * width * EPS * sizes)[:, None], "rounding bound")


def _farthest(ladder: WidthLadder) -> Estimate:
    """max_s |X^T (c_T * s)| over the initial activation patterns s of each network."""
    coefficients, x = evaluate(COEFFICIENTS, _kernel_constants(ladder)), ladder.problem.x
    largest = []
    for run in ladder.runs[-1][:NETWORKS]:
        patterns = np.unique(gram.activations(x, run.weights.hidden).T, axis=0)
        largest.append(np.linalg.norm((patterns * coefficients.value.ravel()) @ x, axis=1).max())
    error = (coefficients.error.ravel() + 1e-14 * np.abs(coefficients.value.ravel())) @ np.linalg.norm(x, axis=1)
    return Estimate(np.array(largest), np.full(NETWORKS, error), coefficients.method, coefficients.rigour)


def _observed(ladder: WidthLadder, name: str) -> Estimate:
    """The movement `name` at the last round, for a few networks of the largest width."""
    return Estimate.stacked(run.observed(name)[-1] for run in ladder.runs[-1][:NETWORKS])


def _share_of_the_way(ladder: WidthLadder) -> float:
    constants = _kernel_constants(ladder)
    went, whole = (float(evaluate(part, constants).value.max()) for part in (MOVEMENT, start.T * H**-1 * start))
    return went / whole if whole else 0.0


def _largest_local_step(ladder: WidthLadder) -> float:
    kernel = gram.infinite(ladder.problem.x)
    return ladder.setup.eta_local * max(np.linalg.eigvalsh(kernel[np.ix_(c, c)])[-1] for c in ladder.problem.members)


NO_OVERSHOOT = Hypothesis(
    "no-local-overshoot",
    "eta_l q <= 1 for every eigenvalue q of every client block of H_inf",
    Limit("the largest eta_l q", _largest_local_step, at_most=1 - 1e-9),
    eased_by=("eta_local",),
)
GOES_FAR = Hypothesis(
    "goes-far",
    "c_T^T H_inf c_T is at least a quarter of r_0^T H_inf^-1 r_0, the square of what training to the end moves",
    Limit("the share of the way", _share_of_the_way, at_least=0.25),
    eased_by=("rounds",),
)

GRAM_SYMBOLS = {limit_gram: "Gram matrix at infinite width", inner: "X X^T"}
CLOSE = (scaled(sp.Rational(3, 2)), scaled(sp.Rational(2, 3)), scaled(2), scaled(sp.Rational(1, 2)))


connected = sp.Symbol("beta_seg", positive=True)
ones = sp.MatrixSymbol("e", n, 1)

STEEPER = 1 + connected / 3  # E alpha^2 = 1/3, E alpha = 1/2
SEGMENT = (1 + connected / 2) / STEEPER * D**-1 * (IDENTITY - (IDENTITY - eta_local * STEEPER * D) ** K)
GUCCI = IDENTITY - H * shares * SEGMENT
heavy_ball, nesterov, scaffold, feddyn = AFTER.values()
RESIDUAL = {
    "fedavg": MAP**T * start,
    "fedprox": FEDPROX**T * start,
    "fedavgm": heavy_ball,
    "fedavgm-nesterov": nesterov,
    "scaffold": scaffold,
    "feddyn": feddyn,
    "fedgucci": GUCCI**T * start,
}
REACH = 2 * sp.sqrt(sp.Trace(start * start.T) / m) * ones  # 2 |r_0| m^(-1/2) in every entry


def _constants(ladder: MethodLadder) -> dict:
    """The values of the symbols of the maps at infinite width, and the largest width."""
    problem, size = ladder.problem, ladder.problem.n
    return (
        map_constants(ladder, gram.infinite_estimate(problem.x))
        | {
            shares: shares_of(problem),
            start: -problem.y[:, None],
            ones: np.ones((size, 1)),
            beta: SERVER_MOMENTUM,
            mu: PULL,
            connected: CONNECTED,
            T: ladder.setup.rounds,
            m: ladder.widths[-1],
        }
        | halves(size)
    )


def _measure(ladder: MethodLadder) -> tuple[Estimate, ...]:
    """y_m(T) - y, (networks, n), for the widest networks under each method; then the same with opposite sign."""
    parts = [Estimate(-ladder.residuals[name][-1][:, -1], ladder.rounding, "rounding bound") for name in RESIDUAL]
    return (*parts, *(-part for part in parts))


# The statements on exponents of runs of Algorithm 1 and of networks at the start. The study `width_scaling` measures
# these exponents too.
RATES = (
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
                lambda ladder: ladder.sigma * float(np.sqrt((ladder.problem.x**2).sum() / (2 * ladder.problem.n))),
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
    _mean_and_spread(
        "gram-drift", "H(T) - H(0)", "gram_drift", "by X.9 more neurons become inactive on a sample than active"
    ),
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
STATEMENTS = (
    width_rate(
        "fl-ntk/method-widths",
        "Networks approach the exact limit of every linear method as m^(-1/2)",
        tuple(
            Quantity(f"max_t |y_m(t) - y_inf(t)| / |r_0| under {name}", HALF, statistic(name), biased=False)
            for name in METHODS
        ),
        source=Source(
            BEYOND, "docs/proofs/linear_methods.md#state-maps, docs/proofs/finite_width.md#powers-of-the-width"
        ),
        note="as for FL-NTK's algorithm (fl-ntk/W-outputs): H(0) - H_inf is of the order m^(-1/2), and so is the "
        "mean change of the outputs by neurons that cross kinks. Every method's state map passes both on to the "
        "outputs. With eleven widths a fit without the two smallest shows the bias; a next-order term would only "
        "fit noise",
        claim_note="exponents of max_t |y_m(t) - y_inf(t)| / |r_0|: " + ", ".join(METHODS),
        says_left="log-log slopes over widths 2^8..2^13 of the RMS over networks of max_t |y_m(t) - y_inf(t)| / |r_0|, "
        "networks trained by the engine, all from the residual r_0",
        families=method_families,
        uses=("fl-ntk/W-outputs", "fl-ntk/state-maps", "fl-ntk/X.14"),
    ),
    *RATES,
    Statement(
        id="fl-ntk/W-coefficient-gram",
        title="m E|H(0) - H_inf|_F^2 = tr H_inf (X X^T - H_inf)",
        kind=Kind.TWO_SIDED,
        source=EXACT,
        note="exact at every width: the sum of G_ij^2 p_ij (1 - p_ij), p_ij = H_inf,ij / G_ij; claimed to within a "
        "fifth",
        new=_within(VARIANCE, FIFTH),
        constants=_initial_constants,
        measure=_deviations,
        symbols=GRAM_SYMBOLS,
        left_formula="m E |H(0) - H_inf|_F^2",
        says_left="mean over networks of all widths of m |H(0) - H_inf|_F^2, with its 99.9999% confidence interval",
        families=initial_ladder_families,
        mutants=(*CLOSE, replaced(VARIANCE, sp.Trace(limit_gram * inner), "without - H_inf")),
        uses=("fl-ntk/C.6", "fl-ntk/W-gram"),
    ),
    Statement(
        id="fl-ntk/W-coefficient-initial-output",
        title="E|f(0)|^2 = sigma^2 |X|_F^2 / 2",
        kind=Kind.TWO_SIDED,
        source=EXACT,
        note="exact at every width: sigma^2/2 for a unit row; claimed to within a fifth",
        new=_within(OUTPUT, FIFTH),
        constants=_initial_constants,
        measure=_outputs,
        symbols=GRAM_SYMBOLS,
        left_formula="E |f(0)|^2",
        says_left="mean over networks of all widths of |f(0)|^2, with its 99.9999% confidence interval",
        families=initial_ladder_families,
        mutants=CLOSE,
        uses=("fl-ntk/W-initial-output",),
    ),
    Statement(
        id="fl-ntk/W-coefficient-total-movement",
        title="|U(T) - U(0)|_F^2 tends to c_T^T H_inf c_T",
        kind=Kind.TWO_SIDED,
        source=ON_WIDTH,
        note="X.8 at infinite width; claimed to within a tenth for networks of the ladder's largest width, if the "
        "limit is not small beside the effects of a finite width. Larger steps do not make the limit larger: at "
        "eta_l q = 2 two local steps cancel, and the limit is 0",
        hypotheses=(NO_OVERSHOOT, GOES_FAR),
        new=_within(MOVEMENT, TENTH),
        constants=_kernel_constants,
        measure=lambda ladder: _observed(ladder, "total_movement").squared(),
        symbols=MAP_SYMBOLS | {H: "Gram matrix at infinite width", start: "y - y(0)"},
        left_formula="|U(T) - U(0)|_F^2",
        says_left="|U(T) - U(0)|_F^2 of three simulated networks of the largest width",
        families=ladder_families,
        mutants=(*CLOSE, replaced(T, sp.Integer(1), "one round")),
        uses=("fl-ntk/X.8", "fl-ntk/W-total-movement"),
    ),
    Statement(
        id="fl-ntk/W-coefficient-movement",
        title="The farthest neuron moves at least as far as a neuron with the best fixed pattern",
        kind=Kind.LOWER,
        source=ON_WIDTH,
        note="no neuron that keeps its pattern moves farther than max_s |X^T (c_T * s)|, s the initial patterns. Runs "
        "exceed this maximum by 0 to 6%, without a trend in the width, so it is taken as a lower bound. A likely "
        "reason, not isolated here: about sqrt(m) neurons cross a kink on the way and may move farther. The "
        "claim is 19/20 of the maximum, at the largest width",
        new=Claim((1 - TENTH / 2) * farthest / sp.sqrt(m)),
        constants=lambda ladder: {farthest: _farthest(ladder), m: ladder.widths[-1]},
        measure=lambda ladder: _observed(ladder, "movement"),
        symbols={farthest: "max_s |X^T (c_T * s)| over the initial patterns s, c_T = H_inf^-1 (I - M^T)(y - y(0))"},
        left_formula="max_r |u_r(T) - u_r(0)|",
        says_left="max_r |u_r(T) - u_r(0)| of three simulated networks of the largest width",
        families=ladder_families,
        mutants=(power(m, sp.Rational(1, 2)), replaced(m, m / 4, "m/4 for m")),
        uses=("fl-ntk/X.8", "fl-ntk/W-movement"),
    ),
    Statement(
        id="fl-ntk/method-limits",
        title="A wide network under a method stays within 2 |r_0| m^(-1/2) of that method's exact limit",
        kind=Kind.UPPER,
        source=Source(BEYOND, "the maps of docs/proofs/linear_methods.md#state-maps; the distance is observed"),
        note="entry by entry at the ladder's largest width, at which the limits of any two of these methods are "
        "further apart than this bound. The order in m is that of fl-ntk/method-widths. The constant 2 is an "
        "observation, not a theorem (on data of six seeds it was .4 to .8). FedGuCci has one anchor, and Gauss's "
        "two nodes in place of the integral over alpha; in the limit both give the same",
        new=Claim(
            (
                *(sp.MatAdd(known, REACH) for known in RESIDUAL.values()),
                *(sp.MatAdd(REACH, product(-1, known)) for known in RESIDUAL.values()),
            ),
            note="upper and lower bounds: " + ", ".join(RESIDUAL),
        ),
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {
            H: "Gram matrix at infinite width",
            shares: "n_c/n of each sample's client, on the diagonal",
            beta: "momentum of the server",
            mu: "FedProx's and FedDyn's pull",
            connected: "weight of FedGuCci's connectivity loss",
            first: "takes r to the state (r, 0)",
            second: "takes a memory v to the state (0, v)",
            start: "y(0) - y",
            ones: "the column of ones",
        },
        left_formula=("y(T) - y",) * 7 + ("y - y(T)",) * 7,
        says_left="y(T) - y, and its negative, of the networks of the largest width, trained by the engine under each "
        "method",
        families=method_families,
        mutants=(
            power(m, 2),
            power(eta_local, 2),
            index_shifted(T, 1),
            replaced(beta, 0, "no momentum", Change.FACTOR),
            replaced(mu, 2 * mu, "twice the pull", Change.CONSTANT),
            replaced(CONTROL, IDENTITY, "controls that keep what they were", Change.FACTOR),
            replaced(scaffold, MAP**T * start, "FedAvg's map for SCAFFOLD"),
            replaced(feddyn, FEDPROX**T * start, "FedProx's map for FedDyn"),
            replaced(heavy_ball, nesterov, "Nesterov's map for the heavy ball"),
            replaced(connected, 0, "no connectivity loss", Change.FACTOR),
            replaced(shares, IDENTITY / N, "clients of equal weight", Change.FACTOR),
        ),
        uses=("fl-ntk/method-widths", "fl-ntk/state-maps", "fl-ntk/X.14"),
    ),
)
