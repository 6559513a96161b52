"""Statements on networks that are aligned by permuting their hidden units.

The statements concern the outputs of an aligned network, the distance that alignment reaches, bounds of barriers, and a
conjecture about wide networks.
"""

import math

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Hypothesis, Kind, Nature, Outcome, Provenance, Source, Statement
from bounds.alignment.cases import (
    CHOSEN_PAIRS,
    MOST,
    PAPERS,
    TRAINED_PAIRS,
    AlignedPair,
    as_estimate,
    chosen_pair,
    cubes_of,
    pair_families,
    sharp_families,
)
from bounds.cases.ensembles import ball_array, estimated, forward
from bounds.cases.network_pair import LIPSCHITZ_LOSS, assumed_constant
from bounds.fedgucci.premises.cube_bound import SAYS_BOTH, cube_bound
from bounds.fedgucci.premises.cube_symbols import AT_TRUE_SIDE, SURE, C, L, d_anc, side, with_loss
from bounds.fedgucci.premises.cube_terms import IN_CUBE, absolute_value, gap_and_barrier, second_moment
from bounds.fl_ntk.premises import FAILURE_PROBABILITY
from bounds.ladders.slopes import slope
from bounds.mutants import MILLIONTH_MORE, power, replaced, shifted
from ntkfl.balls import ball_matrix, precision
from ntkfl.connectivity.network import TwoLayer
from ntkfl.estimate import Estimate

D, R, s, L_DISTANCE, given_distance = sp.symbols("D R s L D_0", positive=True)


def _constants_distance(case: AlignedPair) -> dict:
    readouts = sum(float(np.sum(network.readout**2)) for network in case.networks)
    identity = case.cost(tuple(range(len(case.distances))))
    roots = {D: as_estimate(case.least_cost).sqrt(), given_distance: as_estimate(identity).sqrt()}
    size = Estimate(math.sqrt(readouts), 1e-13 * math.sqrt(readouts), "rounding bound")
    return roots | {R: size, s: second_moment(case.x), L_DISTANCE: assumed_constant(case.aligned)}


def steep_loss() -> AlignedPair:
    """A pair with the squared loss whose outputs are far from the labels.

    At these outputs the slope of the loss exceeds 1, the constant that is assumed if no bound on |f - y| is given.
    """
    first, second = (TwoLayer(np.array([[u], [9.0]]), np.array([1.0, 0.0])) for u in (1.0, -1.0))
    return AlignedPair(first, second, np.array([[1.0]]), np.array([1e3]), "squared")


EPS = np.finfo(float).eps
outputs, hidden_only = sp.symbols("f_2 f_U", real=True)


def _in_balls(network: TwoLayer, x: np.ndarray) -> Estimate:
    """The outputs f(x), (n, C), computed from the definition in ball arithmetic."""
    rows, hidden = ball_matrix(x), ball_matrix(network.hidden)
    readouts = ball_array(np.atleast_2d(network.readout))
    return estimated(ball_array([forward(rows, hidden, list(readout)) for readout in readouts]).T)


def _constants_invariance(case: AlignedPair) -> dict:
    moved = TwoLayer(case.alignment.aligned.hidden, case.second.readout)  # the readout is not permuted
    with precision():
        return {outputs: _in_balls(case.second, case.x), hidden_only: _in_balls(moved, case.x)}


def _measure(case: AlignedPair) -> Estimate:
    network = case.alignment.aligned
    value = network.outputs(case.x).reshape(len(case.x), -1)
    size = np.abs(case.x) @ np.abs(network.hidden).T @ np.abs(np.atleast_2d(network.readout)).T
    return Estimate(value, (sum(network.hidden.shape) + 8) * EPS * size + 1e-300, "rounding bound")


least, given_optimality, greedy = sp.symbols("D_min D_0 D_greedy", nonnegative=True)


def _constants_optimality(case: AlignedPair) -> dict:
    return {
        least: as_estimate(case.least_cost),
        given_optimality: as_estimate(case.cost(tuple(range(len(case.distances))))),
        greedy: as_estimate(case.greedy_cost),
    }


STATEMENTS = (
    Statement(
        id="alignment/conjecture",
        title="Up to a permutation of the units, the barrier vanishes with the width (a conjecture)",
        kind=Kind.UPPER,
        source=Source("Entezari, Sedghi, Saukh, Neyshabur (ICLR 2022)", "Conjecture 1", read=Provenance.REPORTED),
        note="open. The conjecture gives no rate, so the test is whether the barrier after weight matching falls "
        "with the width, that is, has an exponent below 0. This barrier is an upper bound on the smallest barrier "
        "over all orders of the units. No such test settles a limit at infinite width",
        stated=Claim(sp.Integer(0), recorded=Outcome.OPEN),
        measure=lambda case: slope(case.sizes, case.aligned),
        left_formula="exponent in h of B_{loss}(w_1, w_{aligned})",
        says_left="log-log slope over the widths of the exact barrier of cross-entropy, on the training images, "
        "between networks trained from two starts, after weight matching; with its interval of 99%",
        mutants=(shifted(-2),),
        families=(TRAINED_PAIRS,),
        uses=("alignment/optimality",),
    ),
    cube_bound(
        "alignment/cube",
        "Theorem 3.5 at the aligned distance",
        Source(BEYOND, "FedGuCci, Theorem 3.5 (B.2), Eq (32); docs/proofs/connectivity.md#the-sure-bound"),
        stated=Claim(
            AT_TRUE_SIDE.subs(C, 1),
            recorded=Outcome.VIOLATED,
            nature=Nature.READING,
            hypotheses=(FAILURE_PROBABILITY,),
            measure=absolute_value,
            left_formula="|z_x(alpha)|",
            families=(CHOSEN_PAIRS,),
            witness=chosen_pair,
            consequence="do not quote Theorem 3.5 for models that were trained and then aligned, however near they "
            "are; quote the sure bound",
        ),
        repaired=Claim(with_loss(SURE), hypotheses=(LIPSCHITZ_LOSS,)),
        note="d is the side of the smallest cube around the midpoint of the first network and the aligned second "
        "one that holds both. Theorem 3.5 is about networks drawn uniformly in a cube that is fixed before the "
        "draw. For two given networks it claims nothing, and its inequality fails for networks that differ along "
        "an input (1600 features: left/right above 1). The repaired form is the sure bound, which needs no draw",
        kind=Kind.UPPER,
        hypotheses=(IN_CUBE,),
        measure=gap_and_barrier,
        families=lambda options: tuple(map(cubes_of, sharp_families(options))),
        mutants=(
            replaced(d_anc, -d_anc, "the middle's term subtracted", Change.SIGN),
            power(side, 3),
            replaced(L, L / 10, "a tenth of the loss's constant", Change.CONSTANT),
        ),
        says_left=SAYS_BOTH + "; as printed: |z_x(alpha)| in balls at the one input",
        uses=("fedgucci/sure", "alignment/optimality"),
    ),
    Statement(
        id="alignment/distance",
        title="The barrier of aligned networks by the aligned distance",
        kind=Kind.UPPER,
        source=Source(BEYOND, "from R2: docs/proofs/connectivity.md#the-gap-on-a-segment"),
        note="z = -alpha(1-alpha)(V_1-V_2)(s_1-s_2) - V_alpha J (X2), and where a = u_1 x and c = u_2 x differ in "
        "sign, J <= |a c|/(|a|+|c|) <= |a-c|/4. So E|z| <= s D_U (D_V + M)/4, where D_U and D_V are the layers' "
        "distances, M^2 = sum_i max(|v_1i|, |v_2i|)^2 <= R^2, and D_U D_V <= D^2/2. R does not depend on the order "
        "of the units. So the aligned order has the smallest right side of all orders, and this right side bounds "
        "the smallest of their barriers. "
        f"No bound is in {PAPERS}",
        hypotheses=(
            Hypothesis(LIPSCHITZ_LOSS.name, LIPSCHITZ_LOSS.says, lambda case: LIPSCHITZ_LOSS.margin(case.aligned)),
        ),
        new=Claim(L_DISTANCE * s * D * (D + 2 * R) / 8),
        constants=_constants_distance,
        measure=lambda case: case.aligned.barrier,
        symbols={
            D: "distance of the weights, the smallest over all orders of the second network's units",
            given_distance: "the distance in the given order",
            R: "(|V_1|_F^2 + |V_2|_F^2)^(1/2)",
            s: "root of the largest eigenvalue of E x x^T",
            L_DISTANCE: "Lipschitz constant of the loss in the l2 norm of the outputs",
        },
        left_formula="B_{loss}(w_1, w_{aligned})",
        says_left="the loss barrier between the first network and the second one, aligned by its weights: exact for "
        "the absolute and the squared loss, enclosed to 1e-10 for logistic and cross-entropy",
        families=sharp_families,
        mutants=(
            replaced(R, -R, "the readouts subtracted", Change.SIGN),
            power(D, 3),
            replaced(R, R / 2, "half the readouts", Change.CONSTANT),
        ),
        necessity={LIPSCHITZ_LOSS.name: steep_loss},
        uses=("fedgucci/R2", "alignment/optimality"),
    ),
    Statement(
        id="alignment/invariance",
        title="An aligned network is the same function",
        kind=Kind.EQUALITY,
        source=Source(PAPERS, "Entezari et al., section 2; Ainsworth et al., section 3", read=Provenance.REPORTED),
        note="sum_i v_i relu(u_i x) is a sum over the units, and does not depend on their order",
        stated=Claim(outputs),
        constants=_constants_invariance,
        measure=_measure,
        symbols={
            outputs: "f_2(x), the outputs of the given network, in balls",
            hidden_only: "the outputs with the hidden units permuted and the readout not permuted",
        },
        left_formula="f_{aligned}(x)",
        says_left="the outputs of the aligned network for every input, as the library evaluates them",
        families=pair_families,
        mutants=(MILLIONTH_MORE, replaced(outputs, hidden_only, "the readout left where it was", Change.INDEX)),
    ),
    Statement(
        id="alignment/optimality",
        title="Weight matching of two-layer networks is exact: no order of the units is nearer",
        kind=Kind.EQUALITY,
        source=Source(PAPERS, "Ainsworth et al., section 3.2 and Lemma 1", read=Provenance.REPORTED),
        note="with one hidden layer a unit's incoming and outgoing weights move together. The distance is then a "
        "sum over pairs of units, and the linear assignment problem is solved exactly. With two or more hidden "
        "layers the distance is a sum of bilinear assignments, NP-hard, and coordinate descent ends where no step "
        "in a single layer lowers it",
        stated=Claim(least),
        constants=_constants_optimality,
        measure=lambda case: case.alignment.cost_after,
        symbols={
            least: f"the smallest squared distance of all h! orders, in exact rational numbers (h <= {MOST})",
            given_optimality: "the squared distance in the given order",
            greedy: "the squared distance in the greedy order: each unit in turn takes the nearest unit that is left",
        },
        left_formula="|w_1 - w_{aligned}|^2",
        says_left="the squared distance of the weights after `ntkfl.connectivity.alignment.align`",
        families=pair_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(least, given_optimality, "the order given", Change.OTHER),
            replaced(least, greedy, "the nearest that is left, unit by unit", Change.OTHER),
        ),
        uses=("alignment/invariance",),
    ),
)
