"""Statements on the barriers of given networks (fedgucci/R2, fedgucci/R3, fedgucci/sure).

The bound of fedgucci/sure holds with certainty, and not only with some probability.
"""

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from scipy.special import gammaln

from bounds import BEYOND, Change, Claim, Family, Hypothesis, Kind, Options, Source, Statement
from bounds.cases.cube_networks import CubeFamily, CubeNetworks
from bounds.cases.network_pair import LIPSCHITZ_LOSS, STEEP_PAIRS, NetworkPair, pair_families
from bounds.fedgucci.families.cube_families import loss_families
from bounds.fedgucci.premises.cube_bound import GAP, MUTANTS, cube_bound
from bounds.fedgucci.premises.cube_symbols import MORE_OUTPUTS, SURE, SYMBOLS, C, L, N, b, h, l, side, with_loss
from bounds.fedgucci.premises.cube_terms import IN_CUBE, cube_constants
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced, sign_flipped, without
from bounds.strategies import log_uniform
from bounds.symbols import delta
from ntkfl.connectivity import ABSOLUTE, CROSS_ENTROPY, TwoLayer
from ntkfl.estimate import Estimate

INSIDE = 0.999  # largest distance of a network's parameter from the anchor's, divided by half the side of the cube


def _corners(kinks: bool, outputs: int, seed: int) -> CubeNetworks:
    """Networks of 16 units and 3 features. The seed determines their signs, the side, and the lengths."""
    rng = np.random.default_rng([seed, 31])
    return _built(kinks, outputs, (16, 3), rng, np.exp(rng.uniform(-4, 0, 3)) * (1, 1, 1e4))


def _any_corners(kinks: bool, outputs: int) -> SearchStrategy[CubeNetworks]:
    """Networks at opposite corners of cubes of other sizes."""

    def built(seed: int, h: int, features: int, side: float, length: float) -> CubeNetworks:
        return _built(kinks, outputs, (h, features), np.random.default_rng([seed, 31]), np.array([side, length, 1e3]))

    sizes = log_uniform(1e-2, 1)
    return st.builds(built, st.integers(0, 2**16), st.integers(2, 8), st.integers(1, 4), sizes, sizes)


def _built(
    kinks: bool, outputs: int, shape: tuple[int, int], rng: np.random.Generator, sizes: np.ndarray
) -> CubeNetworks:
    """Two networks at opposite corners of the cube, on one input whose entries all have the same absolute value.

    The loss is the absolute loss for one output, and cross-entropy for several. For cross-entropy one more unit, equal
    in both networks, moves the outputs to where the loss is steepest.

    With `kinks` the hidden rows are +-d/2 around U_anc = 0 and the readouts are equal, so that each unit is active in
    one network only. Otherwise all units are active and the readouts are +-d/2 around 0, so that z is a parabola.
    """
    (h, features), (side, length, norm) = shape, sizes.tolist()
    x = rng.choice([-length, length], (1, features))
    half, along = side / 2 * INSIDE, np.sign(x)
    moves = half * rng.choice([-1.0, 1.0], (h, 1)) * along
    if kinks:
        moves[-1] = 0
        direction = np.ones(1) if outputs == 1 else np.eye(outputs)[1] - np.eye(outputs)[0]
        direction *= norm / np.linalg.norm(direction) / np.sqrt(h - 1)
        hidden, readout = np.zeros((h, features)), np.tile(direction[:, None], h)
        # this unit is far from its kink; with it class 0 has the largest output, and the label is 1
        readout[:, -1] *= -1e-3 * (outputs > 1)
        hidden[-1] = 1e4 * (h * side * features * length + 1 / norm) / length / features * along
        pulls = np.zeros_like(readout)
    else:
        moves = half * along * np.ones((h, 1))
        hidden, readout = 10 * side * along * np.ones((h, 1)), np.full((outputs, h), side * 1e-9)
        pulls = np.full(readout.shape, half)
    ends = [(hidden + sign * moves, readout + sign * pulls) for sign in (1, -1)]
    anchor, *networks = (TwoLayer(u, v[0] if outputs == 1 else v) for u, v in ((hidden, readout), *ends))
    y, loss = (np.array([1e6]), ABSOLUTE.name) if outputs == 1 else (np.array([1]), CROSS_ENTROPY.name)
    return CubeNetworks(anchor, tuple(networks), side, x, y, loss=loss)


def corner_families(options: Options) -> tuple[Family, ...]:
    """Families with one output and with several, with kinks and without.

    For the user's inputs there are no families, since the entries of these inputs differ in size.
    """
    return () if options.data is not None else tuple(family.with_trials(options.trials) for family in CORNERS)


CORNERS = tuple(
    Family(
        f"corners, {'kinks' if kinks else 'parabola'}, h=16, C={outputs}, {loss.name}",
        _corners,
        _any_corners,
        (kinks, outputs),
        trials=5,
    )
    for kinks, outputs, loss in (
        (True, 1, ABSOLUTE),
        (False, 1, ABSOLUTE),
        (True, 2, CROSS_ENTROPY),
        (False, 3, CROSS_ENTROPY),
    )
)


p, q = sp.symbols("p q", positive=True)


def steep_loss() -> NetworkPair:
    """A pair with the squared loss whose outputs are far from the labels. No bound R on |f - y| is given.

    The slope of the loss exceeds 1, the constant that is used if R is not given.
    """
    first, second = (TwoLayer(np.array([[u]]), np.array([1.0])) for u in (1.0, -1.0))
    return NetworkPair(first, second, np.array([[1.0]]), np.array([1e3]), "squared")


density, ratios = sp.symbols("c_l q", positive=True)
MISSED = 1e-6  # the probability that a bound from a sample of inputs is wrong
R3 = density * b * l * side**2 / 4 * ratios + side**2 * b * sp.sqrt(h * l / (l + 2)) / 2 * (
    1 + MORE_OUTPUTS + sp.sqrt(sp.log(4 * N / delta) / 6)
)


def mean_gap(case: CubeNetworks) -> Estimate:
    """sup over alpha of E_x |z_x(alpha)|_2, enclosed between E_x |z_x(1/2)| and the mean of R2's bound on z_x.

    Both ends are means over the case's inputs, which are a sample of the uniform law on the unit ball. Their errors are
    empirical Bernstein bounds (Maurer and Pontil 2009) at the level 1 - MISSED.
    """
    first, second = case.networks[:2]
    a, c = (np.asarray(case.x @ net.hidden.T) for net in (first, second))
    switched, (v1, v2) = a * c < 0, (np.atleast_2d(net.readout) for net in (first, second))
    sizes = np.where(switched, np.abs(a) + np.abs(c), 1.0)
    largest = np.maximum(*(np.linalg.norm(v, axis=0) for v in (v1, v2)))
    bilinear = (np.maximum(a, 0) - np.maximum(c, 0)) @ (v1 - v2).T / 4
    upper = np.linalg.norm(bilinear, axis=1) + np.where(switched, np.abs(a * c) / sizes, 0.0) @ largest
    middle = np.maximum((a + c) / 2, 0) - (np.maximum(a, 0) + np.maximum(c, 0)) / 2
    lower = np.linalg.norm(middle @ ((v1 + v2) / 2).T - bilinear, axis=1)
    reach = float(
        (np.linalg.norm(v1 - v2) + np.linalg.norm(largest)) * np.linalg.norm(first.hidden - second.hidden) / 4
    )
    low, high = lower.mean() - _bernstein(lower, reach), upper.mean() + _bernstein(upper, reach)
    return Estimate.between(max(low, 0.0), high, f"sample of {len(a)} inputs, empirical Bernstein bounds")


def _weighted_ratios(anchor: TwoLayer) -> float:
    """The sum of |v_anc,i|_2 / |u_anc,i| over the rows that are not 0, rounded up."""
    rows = np.linalg.norm(anchor.hidden, axis=1)
    readout = np.linalg.norm(np.atleast_2d(anchor.readout), axis=0)
    alive = rows > 0
    return float((readout[alive] / rows[alive]).sum() * (1 + 1e-12))


def _dead_rows(anchor: TwoLayer) -> int:
    """The number of units with u_anc,i = 0 and v_anc,i not 0."""
    return int((~anchor.hidden.any(axis=1) & np.atleast_2d(anchor.readout).any(axis=0)).sum())


def _bernstein(values: np.ndarray, reach: float) -> float:
    """A bound on the distance of the mean of values in [0, reach] from its expectation."""
    logs, n = np.log(4 / MISSED), len(values)
    return float(np.sqrt(2 * values.var(ddof=1) * logs / n) + 7 * reach * logs / (3 * (n - 1)))


def _small_population(units: int, features: int, side: float, seed: int) -> CubeNetworks:
    return CubeFamily(h=units, l=features, side=side, rows="ball", n=2000).case(seed)


# The networks of the counterexample search have up to eight units and six features, in cubes of any side.
_SMALL_POPULATIONS = st.builds(
    _small_population, st.integers(1, 8), st.integers(1, 6), log_uniform(1e-3, 1), st.integers(0, 2**16)
)


def with_populations(base: CubeFamily) -> Family:
    """The networks of a family whose inputs are a sample of the unit ball.

    The counterexample search draws such inputs too.
    """
    return Family(base.name, CubeFamily.case, _SMALL_POPULATIONS, (base,), base.trials)


# Networks with h = 64 and l = 4, and smaller networks, partly in smaller cubes. The inputs are uniform in the unit
# ball, since the law of x is part of the claim.
BALLS = tuple(
    with_populations(
        CubeFamily(h=units, l=features, side=d, rows="ball", n=8000, trials=25, outputs=outputs, loss=loss)
    )
    for units, features, d, outputs, loss in (
        (64, 4, 0.2, 1, "absolute"),
        (8, 4, 0.2, 1, "absolute"),
        (8, 4, 0.05, 1, "absolute"),
        (4, 2, 0.1, 1, "absolute"),
        (8, 4, 0.2, 3, "cross-entropy"),
    )
)


def _constants(case: CubeNetworks) -> dict:
    height = np.exp(gammaln(case.l / 2 + 1) - gammaln((case.l + 1) / 2)) / np.sqrt(np.pi)
    values = {b: 1.0, density: Estimate(height, 1e-13 * height, "rounding bound")}
    return cube_constants(case) | values | {ratios: _weighted_ratios(case.anchor)}


STATEMENTS = (
    cube_bound(
        "fedgucci/sure",
        "Barrier between any two networks of a cube",
        Source(BEYOND, "docs/proofs/connectivity.md#the-sure-bound"),
        new=Claim(with_loss(SURE)),
        note="no randomness is used: |V_i - V_anc|_F <= d sqrt(C h)/2, |V_anc J| <= |V_anc| |J| and E_x |(U_1 - "
        "U_2) x| <= d s sqrt(h l). With x uniform in the ball, s = b/sqrt(l+2) < b/sqrt(l), this bound is below "
        "the right side of Theorem 3.5 at the true d whenever sqrt(h) <= 2 sqrt(2) log(12h/delta): up to 1114 hidden "
        "units at delta = .1",
        kind=Kind.UPPER,
        hypotheses=(IN_CUBE, LIPSCHITZ_LOSS),
        families=lambda options: loss_families(options) + corner_families(options),
        mutants=(
            replaced(L, sp.Min(L, 1), "the constant 1 for every loss", Change.CONSTANT),
            replaced(L, L / 2, "half the loss's constant", Change.CONSTANT),
            without(C),
            *MUTANTS,
        ),
    ),
    Statement(
        id="fedgucci/R2",
        title="Data-dependent bound on the loss barrier, in closed form",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/connectivity.md#the-gap-on-a-segment"),
        note="from the identity z = -alpha(1-alpha)(v_1 - v_2).(s_1 - s_2) - (alpha v_1 + (1-alpha) v_2).J (X2) "
        "and J_i <= |a_i c_i|/(|a_i| + |c_i|) where the signs of a = U_1 x and c = U_2 x differ, J_i = 0 "
        "elsewhere. With C outputs |.| is the l2 norm of the C-vector, and max(|v_1i|, |v_2i|) that of the "
        "readout's columns; the loss has its own Lipschitz constant, sqrt(2) for cross-entropy, which is attained "
        "in the limit of far outputs (steep pairs: left/right 1). Measured on 400 digits in ten classes (`ntkfl "
        "connectivity-table`; h = 32, clients trained apart): cross-entropy barrier .605 against R2 15.6, and .094 "
        "against 12.0 when trained with the connectivity loss. So the constant sqrt(2) matters little. R2 measures "
        "the gap of the outputs, not the flatness of the loss at these outputs, and does not distinguish these two "
        "trainings",
        hypotheses=(LIPSCHITZ_LOSS,),
        new=Claim(L * (p / 4 + q)),
        constants=lambda case: {
            L: case.lipschitz,
            p: case.bilinear_term,
            q: case.kink_term,
        },
        measure=lambda case: case.barrier,
        symbols={
            L: SYMBOLS[L],
            p: "E_x |(v_1 - v_2) . (relu(U_1 x) - relu(U_2 x))|_2",
            q: "E_x sum_i max(|v_1i|, |v_2i|) |a_i c_i|/(|a_i| + |c_i|) over the units whose sign differs",
        },
        left_formula="B_{loss}(w_1, w_2)",
        says_left="the loss barrier: exact for the absolute and the squared loss, enclosed to 1e-10 for logistic and "
        "cross-entropy",
        families=lambda options: (
            pair_families(options) + (() if options.data else (STEEP_PAIRS.with_trials(options.trials),))
        ),
        mutants=(
            replaced(L, sp.Min(L, 1), "the constant 1 for every loss", Change.CONSTANT),
            without(p),
            replaced(q, q / 4, "kinks at a quarter", Change.CONSTANT),
            sign_flipped(p, "the bilinear term"),
        ),
        necessity={"lipschitz-loss": steep_loss},
        uses=("fedgucci/X2",),
    ),
    cube_bound(
        "fedgucci/R3",
        "A bound of second order in the side of the cube, for anchors without dead rows",
        Source(BEYOND, "docs/proofs/connectivity.md#second-order-in-the-side"),
        kind=Kind.PROBABILITY,
        new=Claim(R3, failure=delta),
        note="x uniform in the ball of radius b. A unit switches between the two networks only where |u_anc,i . x| "
        "<= (d/2) sqrt(l) b. There J_i <= d sqrt(l) b/4, and the probability is at most c_l d sqrt(l)/|u_anc,i|, "
        "since the density of u.x/|u| is at most c_l/b, c_l = Gamma(l/2+1)/(sqrt(pi) Gamma((l+1)/2)). So R1's "
        "first term becomes c_l b l d^2/4 sum_i |v_anc,i|/|u_anc,i|, with the columns of the readout for C "
        "outputs. The bound is on the gap of the outputs; a barrier is at most the loss's Lipschitz constant times "
        "this gap. Theorem 3.5 is of first order in d, which is necessary at U_anc = 0 only",
        hypotheses=(
            IN_CUBE,
            FAILURE_PROBABILITY,
            Hypothesis("rows-not-zero", "u_anc,i is not 0 where v_anc,i is not", lambda case: -_dead_rows(case.anchor)),
        ),
        constants=_constants,
        measure=mean_gap,
        symbols=SYMBOLS
        | {
            density: "largest density of a coordinate of x, times b: Gamma(l/2+1)/(sqrt(pi) Gamma((l+1)/2))",
            ratios: "sum_i |v_anc,i|_2/|u_anc,i|",
        },
        left_formula=GAP,
        says_left="sup over alpha of E_x |z_x(alpha)|_2, x in the ball, enclosed by a sample of x: from below by E_x "
        "|z_x(1/2)|, from above by the mean of a bound on sup over alpha of |z_x|, each with an empirical Bernstein "
        "bound at 1 - 1e-6; z_x(alpha) is f_alpha - alpha f_1 - (1 - alpha) f_2 at x",
        families=BALLS,
        mutants=(power(side, 3), replaced(side, side / 20, "side over 20", Change.CONSTANT)),
        necessity={
            # With U_anc = 0 the share of inputs at which a unit switches does not fall with the side.
            "rows-not-zero": lambda: CubeFamily(h=4, l=2, side=1e-3, rows="ball", n=4000, at_origin=True).case(0)
        },
        uses=("fedgucci/R1", "fedgucci/R2"),
    ),
)
