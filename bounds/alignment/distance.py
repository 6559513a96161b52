"""A bound on the barrier of aligned networks by their distance, without a probability."""

import math

import numpy as np
import sympy as sp

from bounds import BEYOND, Change, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.alignment.cases import PAPERS, AlignedPair, as_estimate, sharp_families
from bounds.cases.network_pair import LIPSCHITZ_LOSS, assumed_constant
from bounds.fedgucci.premises.cube_terms import second_moment
from bounds.mutants import power, replaced
from ntkfl.connectivity.network import TwoLayer
from ntkfl.estimate import Estimate

D, R, s, L, given = sp.symbols("D R s L D_0", positive=True)


def _constants(case: AlignedPair) -> dict:
    readouts = sum(float(np.sum(network.readout**2)) for network in case.networks)
    identity = case.cost(tuple(range(len(case.distances))))
    roots = {D: as_estimate(case.least_cost).sqrt(), given: as_estimate(identity).sqrt()}
    size = Estimate(math.sqrt(readouts), 1e-13 * math.sqrt(readouts), "rounding bound")
    return roots | {R: size, s: second_moment(case.x), L: assumed_constant(case.aligned)}


def steep_loss() -> AlignedPair:
    """The squared loss far from the labels, where its slope exceeds the constant 1 that is assumed without a reach."""
    first, second = (TwoLayer(np.array([[u], [9.0]]), np.array([1.0, 0.0])) for u in (1.0, -1.0))
    return AlignedPair(first, second, np.array([[1.0]]), np.array([1e3]), "squared")


STATEMENTS = (
    Statement(
        id="alignment/distance",
        title="The barrier of aligned networks by the aligned distance",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "from R2: docs/proofs/connectivity.md#the-gap-on-a-segment",
            note="z = -alpha(1-alpha)(V_1-V_2)(s_1-s_2) - V_alpha J (X2), and where a = u_1 x and c = u_2 x differ in "
            "sign J <= |a c|/(|a|+|c|) <= |a-c|/4. So E|z| <= s D_U (D_V + M)/4, where D_U and D_V are the layers' "
            "distances, M^2 = sum_i max(|v_1i|, |v_2i|)^2 <= R^2, and D_U D_V <= D^2/2. R does not depend on the order "
            "of the units. So the aligned order has the smallest right side of all orders, and this right side bounds "
            "the smallest of their barriers. "
            f"No bound is in {PAPERS}",
        ),
        hypotheses=(
            Hypothesis(LIPSCHITZ_LOSS.name, LIPSCHITZ_LOSS.says, lambda case: LIPSCHITZ_LOSS.margin(case.aligned)),
        ),
        forms={Form.NEW: Claim(L * s * D * (D + 2 * R) / 8)},
        constants=_constants,
        measure=lambda case: case.aligned.barrier,
        symbols={
            D: "distance of the weights, the smallest over all orders of the second network's units",
            given: "the distance in the given order",
            R: "(|V_1|_F^2 + |V_2|_F^2)^(1/2)",
            s: "root of the largest eigenvalue of E x x^T",
            L: "Lipschitz constant of the loss in the l2 norm of the outputs",
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
)
