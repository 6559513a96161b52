"""Statements on the barriers of two networks and of groups: Definitions 2.1 and 3.6, Eqs (3), (4), (9), fedgucci/X1."""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import BEYOND, FEDGUCCI, Change, Claim, Family, Hypothesis, Kind, Options, Source, Statement
from bounds.cases.cube_networks import CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import (
    ROUNDING,
    accuracy,
    crossings,
    end_preactivations,
    gap,
    loss_at,
    mean_loss,
    mean_of,
    mean_square,
    pair,
)
from bounds.fedgucci.families.cube_families import far_label_families, small_families, with_far_labels
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, scaled, sign_flipped, without
from bounds.symbols import K, alpha
from ntkfl.connectivity import TwoLayer, accuracy_barrier, between, group_accuracy_barrier, group_barrier
from ntkfl.connectivity.barrier import Barrier, largest_gap, largest_loss, loss_barrier
from ntkfl.estimate import Estimate

between_loss = sp.Symbol("L_alpha", positive=True)
first_loss, second_loss = sp.symbols("L_1 L_2", positive=True)
highest_loss, farthest_gap = sp.symbols("L_top z_top", positive=True)
LOSSES = ("squared", "absolute")


@lru_cache(maxsize=4)
def _suprema(case: CubeNetworks) -> tuple[list[Barrier], list[Barrier], Barrier]:
    """The barrier and the largest loss on the segment, both for each of LOSSES, and the largest gap."""
    barriers, largest = (
        [find(*pair(case), case.x, case.y, loss) for loss in LOSSES] for find in (loss_barrier, largest_loss)
    )
    return barriers, largest, largest_gap(*pair(case), case.x)


def _constants_f1(case: CubeNetworks) -> dict:
    barriers, largest, farthest = _suprema(case)
    places = [(loss, at) for loss, barrier in zip(LOSSES, barriers, strict=True) for at in (0.0, 1.0, barrier.at)]
    return {
        alpha: np.array([at for _, at in places]),
        between_loss: Estimate.stacked([loss_at(case, at, loss) for loss, at in places]),
        first_loss: Estimate.stacked([loss_at(case, 1.0, loss) for loss, _ in places]),
        second_loss: Estimate.stacked([loss_at(case, 0.0, loss) for loss, _ in places]),
        highest_loss: Estimate.stacked(
            [loss_at(case, top.at, loss) for loss, top in zip(LOSSES, largest, strict=True)]
        ),
        farthest_gap: mean_of(abs(gap(case, np.array([farthest.at])))),
    }


def _measure_f1(case: CubeNetworks) -> tuple[Estimate, Estimate, Estimate]:
    """Three quantities: barriers, largest losses, and the largest gap.

    For each loss there are three barriers: the number 0 for each end of the segment, and then the exact barrier.
    """
    barriers, largest, farthest = _suprema(case)
    zero = Estimate.exact(0.0)
    parts = [part for barrier in barriers for part in (zero, zero, barrier.value)]
    return Estimate.stacked(parts), Estimate.stacked([loss.value for loss in largest]), farthest.value


between_accuracy, first_accuracy, second_accuracy = sp.symbols("A_alpha A_1 A_2", positive=True)
BESIDE = 1e-9  # the limits of the accuracy at a jump are taken at this distance on either side


def _lowest_near(case: CubeNetworks, place: float) -> float:
    """The accuracy at a place of the segment. At a jump the result is the lower one of the two limits."""
    near = np.clip([place - BESIDE, place, place + BESIDE], 0, 1)
    return min(accuracy(between(*pair(case), a), case.x, case.y) for a in near)


def _constants_f1b(case: CubeNetworks) -> dict:
    first, second = (accuracy(net, case.x, case.y) for net in pair(case))
    place = accuracy_barrier(*pair(case), case.x, case.y).at
    return {
        alpha: np.array([0.0, 1.0, place]),
        between_accuracy: np.array([second, first, _lowest_near(case, place)]),
        first_accuracy: first,
        second_accuracy: second,
    }


def _measure_f1b(case: CubeNetworks) -> Estimate:
    """1 - B at both ends, where the barrier B is 0, and at the place of the barrier.

    1 - B takes the place of B, since relative errors make no sense for B at the ends, where it is 0.
    """
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
    lambda case: float(np.minimum(*end_preactivations(case)).max(axis=1).min()) - 1e-12,
)


def _families_f1b(options: Options) -> tuple[CubeFamily, ...]:
    """The default families, without the families whose anchor has the hidden weights 0."""
    return tuple(family for family in cube_families(options, side=1.5, n=24, trials=20) if not family.at_origin)


mean_network_loss, losses, mean_accuracy, accuracies = sp.symbols("L_mean L_sum A_mean A_sum", positive=True)


def _signs(case: CubeNetworks) -> np.ndarray:
    return 2.0 * (case.y > 0) - 1


def _constants_f14(case: CubeNetworks) -> dict:
    centre = TwoLayer(
        np.mean([net.hidden for net in case.networks], axis=0), np.mean([net.readout for net in case.networks], axis=0)
    )
    mean_losses = [mean_loss(case, net) for net in case.networks]
    total = float(sum(value.value for value in mean_losses))
    spread = 4 * float(sum(value.error for value in mean_losses)) + 1e-15 * total
    signs = _signs(case)
    return {
        K: case.count,
        mean_network_loss: Estimate(mean_loss(case, centre).value, spread, ROUNDING),
        losses: Estimate(total, spread, ROUNDING),
        mean_accuracy: accuracy(centre, case.x, signs),
        accuracies: Estimate(sum(accuracy(net, case.x, signs) for net in case.networks), 1e-14, ROUNDING),
    }


def _measure_f14(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """The loss barrier, and 1 minus the accuracy barrier.

    The second value is never 0, so that relative errors make sense.
    """
    drop = group_accuracy_barrier(case.networks, case.x, _signs(case))
    return group_barrier(case.networks, case.x, case.y), 1 - drop


SOME_ACCURATE = Hypothesis(
    "an-accuracy-positive",
    "some network of the group classifies a sample correctly: the mean accuracy is not 0",
    lambda case: max(accuracy(net, case.x, _signs(case)) for net in case.networks) - 0.5 / len(case.x),
)


u = sp.Symbol("u", real=True)  # a place within a piece, from -1 to 1
COEFFICIENTS = sp.symbols("c_0:5", real=True)
peak = sp.Symbol("L_peak", positive=True)
NODES = np.cos(np.pi * (np.arange(5) + 0.5) / 5)  # the points of a piece through whose values the quartic goes
FROM_NODES = np.linalg.inv(np.vander(NODES, increasing=True))
BETWEEN_NODES = np.array([-0.8, -0.3, 0.45, 0.9])
NARROW = 1e-6  # pieces narrower than this are not interpolated


@lru_cache(maxsize=4)
def _pieces(case: CubeNetworks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The left ends and widths of the pieces, (P,), and the quartic through five values of each piece, (P, 5)."""
    edges = crossings(case)
    widths = np.diff(edges)
    left, widths = edges[:-1][widths > NARROW], widths[widths > NARROW]
    values = mean_square(case, left[:, None] + widths[:, None] * (NODES + 1) / 2)
    return left, widths, values @ FROM_NODES.T


def _interpolated_peak(case: CubeNetworks) -> tuple[float, float]:
    """The place where the loss is farthest above the straight line between its end values, and the loss there.

    The result is (loss, place). The place is found among the ends and the stationary points of every piece.
    """
    left, widths, quartics = _pieces(case)
    ends = mean_square(case, np.array([0.0, 1.0]))
    best, place = 0.0, 0.0
    for start, width, q in zip(left, widths, quartics, strict=True):
        line = np.array([ends[0] + (start + width / 2) * (ends[1] - ends[0]), width / 2 * (ends[1] - ends[0])])
        excess = q - np.concatenate([line, np.zeros(3)])
        roots = np.polynomial.polynomial.polyroots(excess[1:] * np.arange(1, 5))
        points = np.concatenate([[-1.0, 1.0], roots.real[(np.abs(roots.imag) < 1e-6) & (np.abs(roots.real) < 1)]])
        heights = np.polynomial.polynomial.polyval(points, excess)
        if heights.max() > best:
            best, place = float(heights.max()), float(start + width * (points[heights.argmax()] + 1) / 2)
    return float(mean_square(case, np.array([place]))[0]), place


def _constants_x1(case: CubeNetworks) -> dict:
    top, place = _interpolated_peak(case)
    first, second = loss_at(case, 1.0), loss_at(case, 0.0)
    error = 20 * (first.error + second.error) + 1e-13 * (top + 1)
    rows = {c: Estimate(_pieces(case)[2][:, k, None], error, ROUNDING) for k, c in enumerate(COEFFICIENTS)}
    return rows | {
        u: BETWEEN_NODES,
        peak: Estimate(top, error, ROUNDING),
        alpha: Estimate(place, 1e-15, ROUNDING),
        first_loss: first,
        second_loss: second,
    }


def _measure_x1(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """The loss at places between the five points of every piece, and the exact barrier."""
    left, widths, _ = _pieces(case)
    places = left[:, None] + widths[:, None] * (BETWEEN_NODES + 1) / 2
    ends = Estimate.stacked([loss_at(case, 0.0), loss_at(case, 1.0)])
    values = mean_square(case, places)
    return (
        Estimate(values, 20 * ends.error.sum() + 1e-13 * (values.max() + 1), ROUNDING),
        loss_barrier(*pair(case), case.x, case.y).value,
    )


def _largest_activation(case: CubeNetworks) -> float:
    """The largest pre-activation of both networks. If it is negative, all outputs on the segment are 0."""
    return max(float((case.x @ network.hidden.T).max()) for network in pair(case))


ACTIVE = Hypothesis("some-unit-active", "some unit is active on some input at one end", _largest_activation)


def _families_x1(options: Options) -> tuple[Family, ...]:
    """The families of `small_families`, and one family of very few units and inputs.

    In that family the barrier is often on the last piece of the segment.
    """
    few = CubeFamily(h=2, l=2, side=1.5, n=2, trials=options.trials or 20)
    return small_families(options) + ((with_far_labels(few),) if options.data is None else ())


QUARTIC = sum(c * u**k for k, c in enumerate(COEFFICIENTS))


STATEMENTS = (
    Statement(
        id="fedgucci/F1",
        title="The loss barrier: 0 at both ends, and its supremum is attained",
        kind=Kind.DEFINITION,
        source=Source(FEDGUCCI, "Definition 2.1, Eq (3)"),
        note="both ends give 0, so the barrier is at least 0; it has no upper bound, as the paper says. It is "
        "checked with the squared and the absolute loss, whose barriers are exact",
        stated=Claim((between_loss - alpha * first_loss - (1 - alpha) * second_loss, highest_loss, farthest_gap)),
        constants=_constants_f1,
        measure=_measure_f1,
        symbols={
            between_loss: "L(alpha w_1 + (1 - alpha) w_2), by evaluation",
            first_loss: "L(w_1)",
            second_loss: "L(w_2)",
            highest_loss: "L on the segment at the alpha where L is largest, by evaluation",
            farthest_gap: "mean over samples of |f_alpha - alpha f_1 - (1 - alpha) f_2| at the alpha where this mean "
            "is largest",
        },
        left_formula=(
            "B_{loss}(w_1, w_2; alpha)",
            "max_alpha L(alpha w_1 + (1 - alpha) w_2)",
            "max_alpha mean_i |f_alpha(x_i) - alpha f_1(x_i) - (1 - alpha) f_2(x_i)|",
        ),
        says_left="for both losses: 0 at alpha = 0 and 1, and the exact barrier at the alpha where it is attained; "
        "then the exact maxima over the segment",
        families=lambda options: far_label_families(options, side=1.5, n=8, trials=20),
        mutants=(
            MILLIONTH_MORE,
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
            sign_flipped(second_loss, "L(w_2)"),
            replaced(first_loss, second_loss, "L(w_2) in place of L(w_1)", Change.INDEX),
            replaced(alpha, sp.Rational(1, 2), "the midpoint's weights everywhere", Change.CONSTANT),
        ),
    ),
    Statement(
        id="fedgucci/F1b",
        title="The accuracy barrier: 0 at both ends, at most 1",
        kind=Kind.DEFINITION,
        source=Source(FEDGUCCI, "Definition 2.1, Eq (4)"),
        note="the barrier lies in [0, 1] only if the accuracy is positive at both ends, since it is 0/0 at an end "
        "where no sample is correct. It is then at least 0 because it is 0 at the ends, and at most 1 because no "
        "accuracy is negative",
        hypotheses=(BOTH_ACCURATE, NO_DEAD_INPUT),
        stated=Claim(between_accuracy / (alpha * first_accuracy + (1 - alpha) * second_accuracy)),
        constants=_constants_f1b,
        measure=_measure_f1b,
        symbols={
            between_accuracy: "A(alpha w_1 + (1 - alpha) w_2), counted; at a jump its lower limit",
            first_accuracy: "A(w_1)",
            second_accuracy: "A(w_2)",
        },
        left_formula="1 - B_{acc}(w_1, w_2; alpha)",
        says_left="1 at alpha = 0 and 1, and 1 less the exact barrier, from the points where a sample's sign changes",
        families=_families_f1b,
        mutants=(
            MILLIONTH_MORE,
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
            sign_flipped(between_accuracy, "the accuracy between"),
            power(between_accuracy, 2),
            replaced(first_accuracy, second_accuracy, "A(w_2) in place of A(w_1)", Change.INDEX),
        ),
    ),
    Statement(
        id="fedgucci/F14",
        title="Barriers of a group of networks, at their mean",
        kind=Kind.DEFINITION,
        source=Source(FEDGUCCI, "Definition 3.6, Eq (9)"),
        note="the definition has no supremum: for two networks it is the value of Definition 2.1 at alpha = 1/2. "
        "The loss barrier and the accuracy barrier may be negative; the paper claims [0, 1] for Definition 2.1 "
        "only. The accuracy barrier needs a positive mean accuracy. The loss here is squared",
        hypotheses=(SOME_ACCURATE,),
        stated=Claim((mean_network_loss - losses / K, mean_accuracy / (accuracies / K))),
        constants=_constants_f14,
        measure=_measure_f14,
        symbols={
            K: "number of networks",
            mean_network_loss: "loss of the network whose weights are the mean",
            losses: "sum of the networks' losses",
            mean_accuracy: "accuracy of the network whose weights are the mean",
            accuracies: "sum of the networks' accuracies",
        },
        left_formula=("B_{loss}({w_k})", "1 - B_{acc}({w_k})"),
        says_left="the group's loss barrier (squared loss), and 1 less its accuracy barrier",
        families=lambda options: far_label_families(options, side=1.5, n=12, count=5, trials=20),
        mutants=(
            MILLIONTH_MORE,
            index_shifted(K, -1),
            without(K),
            sign_flipped(losses, "the networks' own losses"),
            replaced(mean_accuracy, accuracies / K, "the networks' mean accuracy for the mean network's", Change.OTHER),
        ),
    ),
    Statement(
        id="fedgucci/X1",
        title="The exact loss barrier: the squared loss is a quartic between the kinks",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/connectivity.md#the-gap-on-a-segment"),
        note="a unit changes its sign at no more than n h points of the segment, the kinks. Between kinks an "
        "output is quadratic in alpha and the mean squared error quartic; the mean absolute loss is quadratic "
        "between kinks and roots of residuals",
        new=Claim((QUARTIC, peak - alpha * first_loss - (1 - alpha) * second_loss)),
        hypotheses=(ACTIVE,),
        constants=_constants_x1,
        measure=_measure_x1,
        symbols={
            u: "place within a piece, -1..1",
            **{c: f"coefficient of u^{k} of the quartic through five evaluations" for k, c in enumerate(COEFFICIENTS)},
            peak: "loss at the highest of all pieces' ends and stationary points",
            alpha: "the place of L_peak on the segment alpha w_1 + (1 - alpha) w_2",
            first_loss: "L(w_1)",
            second_loss: "L(w_2)",
        },
        left_formula=("L(alpha w_1 + (1 - alpha) w_2)", "B_{loss}(w_1, w_2)"),
        says_left="left 1: the mean squared error, evaluated at four other points of every piece; left 2: the exact "
        "barrier",
        families=_families_x1,
        mutants=(
            scaled(sp.Rational(100_001, 100_000)),
            replaced(COEFFICIENTS[4], 0, "cubic pieces", Change.POWER),
            power(u, 3),
            sign_flipped(COEFFICIENTS[1], "the slope"),
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
        ),
    ),
)
