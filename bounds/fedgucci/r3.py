"""R3: with anchor rows away from 0 the barrier is of second order in the side of the cube."""

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from scipy.special import gammaln

from bounds import BEYOND, Change, Claim, Family, Form, Hypothesis, Source
from bounds.cases.cube_networks import CubeFamily, CubeNetworks
from bounds.fedgucci.premises.cube_bound import GAP, cube_bound
from bounds.fedgucci.premises.cube_symbols import MORE_OUTPUTS, SYMBOLS, N, b, h, l, side
from bounds.fedgucci.premises.cube_terms import IN_CUBE, cube_constants
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.mutants import power, replaced
from bounds.part_strategies import log_uniform
from bounds.symbols import delta
from ntkfl.connectivity.network import TwoLayer
from ntkfl.estimate import Estimate

density, ratios = sp.symbols("c_l q", positive=True)
MISSED = 1e-6  # probability that a bound from the sample of the ball is wrong
R3 = density * b * l * side**2 / 4 * ratios + side**2 * b * sp.sqrt(h * l / (l + 2)) / 2 * (
    1 + MORE_OUTPUTS + sp.sqrt(sp.log(4 * N / delta) / 6)
)


def mean_gap(case: CubeNetworks) -> Estimate:
    """sup over alpha of E_x |z_x(alpha)|_2, enclosed between E_x |z_x(1/2)| and the mean of R2's bound on z_x.

    Both are means over the case's inputs, a sample of the uniform law on the unit ball, with empirical Bernstein bounds
    (Maurer and Pontil 2009) at the level 1 - MISSED.
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
    """sum_i |v_anc,i|_2 / |u_anc,i| over the rows that are not 0, rounded up."""
    rows = np.linalg.norm(anchor.hidden, axis=1)
    readout = np.linalg.norm(np.atleast_2d(anchor.readout), axis=0)
    alive = rows > 0
    return float((readout[alive] / rows[alive]).sum() * (1 + 1e-12))


def _dead_rows(anchor: TwoLayer) -> int:
    """Number of units with u_anc,i = 0 and v_anc,i not 0."""
    return int((~anchor.hidden.any(axis=1) & np.atleast_2d(anchor.readout).any(axis=0)).sum())


def _bernstein(values: np.ndarray, reach: float) -> float:
    """A bound on the distance of the mean of values in [0, reach] from its expectation."""
    logs, n = np.log(4 / MISSED), len(values)
    return float(np.sqrt(2 * values.var(ddof=1) * logs / n) + 7 * reach * logs / (3 * (n - 1)))


def _small_population(units: int, features: int, side: float, seed: int) -> CubeNetworks:
    return CubeFamily(h=units, l=features, side=side, rows="ball", n=2000).case(seed)


# For the search: up to eight units and six features, of any side.
_SMALL_POPULATIONS = st.builds(
    _small_population, st.integers(1, 8), st.integers(1, 6), log_uniform(1e-3, 1), st.integers(0, 2**16)
)


def with_populations(base: CubeFamily) -> Family:
    """The networks of a family whose inputs are a sample of the ball; the search draws such inputs too."""
    return Family(base.name, CubeFamily.case, _SMALL_POPULATIONS, (base,), base.trials)


# h = 64, l = 4, and smaller networks in smaller cubes; the law of x is part of the claim.
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


def zero_rows() -> CubeNetworks:
    """U_anc = 0: the share of inputs at which a unit switches does not fall with the side."""
    return CubeFamily(h=4, l=2, side=1e-3, rows="ball", n=4000, at_origin=True).case(0)


STATEMENTS = (
    cube_bound(
        "fedgucci/R3",
        "A bound of second order in the side of the cube, for anchors without dead rows",
        Source(
            BEYOND,
            "docs/proofs/connectivity.md#second-order-in-the-side",
            note="x uniform in the ball of radius b. A unit switches between the two networks only where |u_anc,i . x| "
            "<= (d/2) sqrt(l) b. There J_i <= d sqrt(l) b/4, and the probability is at most c_l d sqrt(l)/|u_anc,i|, "
            "since the density of u.x/|u| is at most c_l/b, c_l = Gamma(l/2+1)/(sqrt(pi) Gamma((l+1)/2)). So R1's "
            "first term becomes c_l b l d^2/4 sum_i |v_anc,i|/|u_anc,i|, with the columns of the readout for C "
            "outputs. The bound is on the gap of the outputs; a barrier is at most the loss's Lipschitz constant times "
            "this gap. Theorem 3.5 is of first order in d, which is necessary at U_anc = 0 only",
        ),
        {Form.NEW: Claim(R3, failure=delta)},
        hypotheses=(
            IN_CUBE,
            FAILURE_PROBABILITY,
            Hypothesis(
                "rows-not-zero",
                "u_anc,i is not 0 where v_anc,i is not",
                lambda case: -_dead_rows(case.anchor),
            ),
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
        mutants=(
            power(side, 3),
            replaced(side, side / 20, "side over 20", Change.CONSTANT),
        ),
        necessity={"rows-not-zero": zero_rows},
        uses=("fedgucci/R1", "fedgucci/R2"),
    ),
)
