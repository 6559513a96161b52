"""Definition 2.1, Eq (4): the accuracy barrier between two networks."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Form, Hypothesis, Kind, Options, Source, Statement
from bounds.cases.cube_networks import CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import accuracy, pair, sides
from bounds.mutants import MILLIONTH_MORE, power, replaced, sign_flipped
from bounds.symbols import alpha
from ntkfl.connectivity import accuracy_barrier, between
from ntkfl.estimate import Estimate

between_accuracy, first_accuracy, second_accuracy = sp.symbols("A_alpha A_1 A_2", positive=True)
BESIDE = 1e-9  # distance to either side of a jump at which the limits of the accuracy are taken


def _lowest_near(case: CubeNetworks, place: float) -> float:
    """The accuracy at a place; at a jump, the lower of its limits."""
    near = np.clip([place - BESIDE, place, place + BESIDE], 0, 1)
    return min(accuracy(between(*pair(case), a), case.x, case.y) for a in near)


def _constants(case: CubeNetworks) -> dict:
    first, second = (accuracy(net, case.x, case.y) for net in pair(case))
    place = accuracy_barrier(*pair(case), case.x, case.y).at
    return {
        alpha: np.array([0.0, 1.0, place]),
        between_accuracy: np.array([second, first, _lowest_near(case, place)]),
        first_accuracy: first,
        second_accuracy: second,
    }


def _measure(case: CubeNetworks) -> Estimate:
    """1 - B at both ends, where B = 0, and at the barrier; the scale of 1 - B is never 0."""
    barrier = accuracy_barrier(*pair(case), case.x, case.y).value
    return Estimate.stacked([Estimate.exact(1.0), Estimate.exact(1.0), 1 - barrier])


BOTH_ACCURATE = Hypothesis(
    "accuracies-positive",
    "both networks classify a sample correctly: A(w_1) > 0 and A(w_2) > 0",
    lambda case: min(accuracy(net, case.x, case.y) for net in pair(case)) - 0.5 / len(case.x),
)

NO_DEAD_INPUT = Hypothesis(
    "no-dead-input",
    "every input has a unit that is on at both ends: where all are off f is 0 and its sign is rounding's "
    "(a limit of this tool)",
    lambda case: float(np.minimum(*sides(case)).max(axis=1).min()) - 1e-12,
)


def _families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families whose anchor's hidden weights are not 0."""
    families = cube_families(options, side=1.5, n=24, trials=20)
    return tuple(family for family in families if not family.at_origin)


STATEMENTS = (
    Statement(
        id="fedgucci/F1b",
        title="The accuracy barrier: 0 at both ends, at most 1",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Definition 2.1, Eq (4)",
            note="the barrier lies in [0, 1] only if the accuracy is positive at both ends, since it is 0/0 at an end "
            "where no sample is correct. It is then at least 0 because it is 0 at the ends, and at most 1 because no "
            "accuracy is negative",
        ),
        hypotheses=(BOTH_ACCURATE, NO_DEAD_INPUT),
        forms={Form.STATED: Claim(between_accuracy / (alpha * first_accuracy + (1 - alpha) * second_accuracy))},
        constants=_constants,
        measure=_measure,
        symbols={
            between_accuracy: "A(alpha w_1 + (1 - alpha) w_2), counted; at a jump its lower limit",
            first_accuracy: "A(w_1)",
            second_accuracy: "A(w_2)",
        },
        left_formula="1 - B_{acc}(w_1, w_2; alpha)",
        says_left="1 at alpha = 0 and 1, and 1 less the exact barrier, from the points where a sample's sign changes",
        families=_families,
        mutants=(
            MILLIONTH_MORE,
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
            sign_flipped(between_accuracy, "the accuracy between"),
            power(between_accuracy, 2),
            replaced(first_accuracy, second_accuracy, "A(w_2) in place of A(w_1)", Change.INDEX),
        ),
    ),
)
