"""Definition 2.1, Eq (3): the loss barrier between two networks."""

from functools import lru_cache

import numpy as np
import sympy as sp

from bounds import FEDGUCCI, Change, Claim, Form, Kind, Source, Statement
from bounds.cases.cube_networks import CubeNetworks
from bounds.fedgucci.cases.segment_terms import gap, loss_at, mean_of, pair
from bounds.fedgucci.families.far_labels import far_label_families
from bounds.mutants import MILLIONTH_MORE, replaced, sign_flipped
from bounds.symbols import alpha
from ntkfl.connectivity.barrier import Barrier, largest_gap, largest_loss, loss_barrier
from ntkfl.estimate import Estimate

between_loss, first_loss, second_loss = sp.symbols("L_alpha L_1 L_2", positive=True)
highest_loss, farthest_gap = sp.symbols("L_top z_top", positive=True)
LOSSES = ("squared", "absolute")


@lru_cache(maxsize=4)
def _suprema(case: CubeNetworks) -> tuple[list[Barrier], list[Barrier], Barrier]:
    """The barriers and the largest losses of both losses, and the largest gap."""
    barriers, largest = (
        [find(*pair(case), case.x, case.y, loss) for loss in LOSSES] for find in (loss_barrier, largest_loss)
    )
    return barriers, largest, largest_gap(*pair(case), case.x)


def _constants(case: CubeNetworks) -> dict:
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


def _measure(case: CubeNetworks) -> tuple[Estimate, Estimate, Estimate]:
    """For each loss the barrier at both ends, 0, and the exact barrier; then the largest losses; the largest gap."""
    barriers, largest, farthest = _suprema(case)
    zero = Estimate.exact(0.0)
    parts = [part for barrier in barriers for part in (zero, zero, barrier.value)]
    return Estimate.stacked(parts), Estimate.stacked([loss.value for loss in largest]), farthest.value


STATEMENTS = (
    Statement(
        id="fedgucci/F1",
        title="The loss barrier: 0 at both ends, and its supremum is attained",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Definition 2.1, Eq (3)",
            note="both ends give 0, so the barrier is at least 0; it has no upper bound, as the paper says. It is "
            "checked with the squared and the absolute loss, whose barriers are exact",
        ),
        forms={
            Form.STATED: Claim(
                (between_loss - alpha * first_loss - (1 - alpha) * second_loss, highest_loss, farthest_gap)
            )
        },
        constants=_constants,
        measure=_measure,
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
)
