"""Definition 3.6, Eq (9): the barriers of a group of networks, at their mean."""

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.cube_networks import CubeNetworks
from bounds.fedgucci.cases.segment_terms import ROUNDING, accuracy, mean_loss
from bounds.fedgucci.families.far_labels import far_label_families
from bounds.mutants import MILLIONTH_MORE, index_shifted, replaced, sign_flipped, without
from bounds.symbols import K
from ntkfl.connectivity import TwoLayer, group_accuracy_barrier, group_barrier
from ntkfl.estimate import Estimate

mean_network_loss, losses, mean_accuracy, accuracies = sp.symbols("L_mean L_sum A_mean A_sum", positive=True)


def _signs(case: CubeNetworks) -> np.ndarray:
    return 2.0 * (case.y > 0) - 1


def _constants(case: CubeNetworks) -> dict:
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


def _measure(case: CubeNetworks) -> tuple[Estimate, Estimate]:
    """The loss barrier, and 1 less the accuracy barrier, a number whose scale is never 0."""
    drop = group_accuracy_barrier(case.networks, case.x, _signs(case))
    return group_barrier(case.networks, case.x, case.y), 1 - drop


SOME_ACCURATE = Hypothesis(
    "an-accuracy-positive",
    "some network of the group classifies a sample correctly: the mean accuracy is not 0",
    lambda case: max(accuracy(net, case.x, _signs(case)) for net in case.networks) - 0.5 / len(case.x),
)

STATEMENTS = (
    Statement(
        id="fedgucci/F14",
        title="Barriers of a group of networks, at their mean",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Definition 3.6, Eq (9)",
            note="the definition has no supremum: for two networks it is the value of Definition 2.1 at alpha = 1/2. "
            "The loss barrier and the accuracy barrier may be negative; the paper claims [0, 1] for Definition 2.1 "
            "only. The accuracy barrier needs a positive mean accuracy. The loss here is squared",
        ),
        hypotheses=(SOME_ACCURATE,),
        forms={Form.STATED: Claim((mean_network_loss - losses / K, mean_accuracy / (accuracies / K)))},
        constants=_constants,
        measure=_measure,
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
)
