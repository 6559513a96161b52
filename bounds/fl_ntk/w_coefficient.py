"""W, coefficients: the factors before the powers of the width, as far as the theory gives them."""

import numpy as np
import sympy as sp
from scipy.special import stdtrit

from bounds import Claim, Hypothesis, Kind, Limit, Statement
from bounds.fl_ntk.sources import EXACT, ON_WIDTH
from bounds.fl_ntk.terms.round_map import COEFFICIENTS, MAP_SYMBOLS, MOVEMENT, H, map_constants, start
from bounds.formula import evaluate
from bounds.ladders.initial_ladder import InitialLadder, initial_ladder_families
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import power, replaced, scaled
from bounds.symbols import T, m, n, sigma
from ntkfl import gram
from ntkfl.estimate import Estimate, Rigour

ALPHA = 1e-6  # probability that a confidence interval misses; small, so that no false alarm occurs
# relative tolerances of squares; those of the roots are a tenth and a twentieth
FIFTH, TENTH = sp.Rational(1, 5), sp.Rational(1, 10)
NETWORKS = 3  # networks of the largest width that are measured; a second simulation gives their rounding
EPS = np.finfo(float).eps

limit_gram = sp.MatrixSymbol("H_inf", n, n)
inner = sp.MatrixSymbol("G", n, n)
farthest = sp.Symbol("c_max", positive=True)  # max_s |X^T (c_T * s)|
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
    """The values in c_T and in the exact round map at infinite width, with the residual r_0 at the start."""
    known = map_constants(ladder, gram.infinite_estimate(ladder.problem.x))
    return known | {start: _rounded_residual(ladder), T: ladder.setup.rounds}


def _rounded_residual(ladder: WidthLadder) -> Estimate:
    """r_0 as a column; the labels y_m(0) + r_0 are rounded, and so is y_m(0)."""
    width, r0 = ladder.widths[-1], ladder.problem.y
    sizes = np.abs(r0) + 4 * ladder.setup.sigma * np.linalg.norm(ladder.problem.x, axis=1) * np.sqrt(ladder.problem.d)
    return Estimate(r0[:, None], (np.sqrt(width) * width * EPS * sizes)[:, None], "rounding bound")


def _farthest(ladder: WidthLadder) -> Estimate:
    """max_s |X^T (c_T * s)| over the initial patterns s of each network."""
    coefficients, x = evaluate(COEFFICIENTS, _kernel_constants(ladder)), ladder.problem.x
    largest = []
    for run in ladder.runs[-1][:NETWORKS]:
        patterns = np.unique(gram.activations(x, run.weights.hidden).T, axis=0)
        largest.append(np.linalg.norm((patterns * coefficients.value.ravel()) @ x, axis=1).max())
    error = (coefficients.error.ravel() + 1e-14 * np.abs(coefficients.value.ravel())) @ np.linalg.norm(x, axis=1)
    return Estimate(np.array(largest), np.full(NETWORKS, error), coefficients.method, coefficients.rigour)


def _observed(ladder: WidthLadder, name: str) -> Estimate:
    """The movement `name` at the last round, for a few of the widest networks."""
    return Estimate.stacked(run.observed(name)[-1] for run in ladder.runs[-1][:NETWORKS])


def _share_of_the_way(ladder: WidthLadder) -> float:
    known = _kernel_constants(ladder)
    went, whole = (float(evaluate(part, known).value.max()) for part in (MOVEMENT, start.T * H**-1 * start))
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

STATEMENTS = (
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
        "maximum less a twentieth is claimed, at the largest width",
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
)
