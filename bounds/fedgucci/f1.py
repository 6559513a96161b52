"""Definition 2.1, Eq (3): the loss barrier between two networks."""

from __future__ import annotations

import numpy as np
import sympy as sp

from bounds.cube_networks import CubeNetworks
from bounds.fedgucci.far_labels import far_label_draws
from bounds.fedgucci.segment_terms import loss_at, pair, stacked
from bounds.formula import Formula
from bounds.mutants import replaced, scaled, sign_flipped
from bounds.statement import FEDGUCCI, Change, Form, Kind, Outcome, Source, Statement
from bounds.symbols import alpha
from ntkfl.connectivity.barrier import loss_barrier
from ntkfl.estimate import Estimate

between_loss, first_loss, second_loss = sp.symbols("L_alpha L_1 L_2", positive=True)
LOSSES = ("squared", "absolute")


def _places(case: CubeNetworks, loss: str) -> np.ndarray:
    """alpha = 0, 1, and where the supremum is taken."""
    return np.array([0.0, 1.0, loss_barrier(*pair(case), case.x, case.y, loss).at])


def _constants(case: CubeNetworks) -> dict:
    places = [(loss, place) for loss in LOSSES for place in _places(case, loss)]
    return {
        alpha: np.array([place for _, place in places]),
        between_loss: stacked([loss_at(case, place, loss) for loss, place in places]),
        first_loss: stacked([loss_at(case, 1.0, loss) for loss, _ in places]),
        second_loss: stacked([loss_at(case, 0.0, loss) for loss, _ in places]),
    }


def _measure(case: CubeNetworks) -> Estimate:
    """0 at both ends, and the exact barrier, for each loss."""
    found = [loss_barrier(*pair(case), case.x, case.y, loss).value for loss in LOSSES]
    return stacked([part for value in found for part in (Estimate.exact(0.0), Estimate.exact(0.0), value)])


STATEMENTS = (
    Statement(
        id="fedgucci/F1",
        title="The loss barrier: 0 at both ends, and its supremum is taken",
        kind=Kind.DEFINITION,
        source=Source(
            FEDGUCCI,
            "Definition 2.1, Eq (3)",
            note="both ends give 0, so the barrier is at least 0; it has no upper bound, as the paper says. Squared "
            "and absolute loss here, whose barriers are exact",
        ),
        forms={Form.STATED: Formula(between_loss - alpha * first_loss - (1 - alpha) * second_loss)},
        recorded={Form.STATED: Outcome.HOLDS},
        constants=_constants,
        measure=_measure,
        symbols={
            between_loss: "L(alpha w_1 + (1 - alpha) w_2), the network there evaluated",
            first_loss: "L(w_1)",
            second_loss: "L(w_2)",
        },
        says_left="0 at alpha = 0 and 1, and the exact barrier where it is taken, for both losses",
        draws=lambda options: far_label_draws(options, side=1.5, n=8, trials=20),
        mutants=(
            scaled(sp.Rational(1_000_001, 1_000_000)),
            replaced(alpha, 1 - alpha, "w_1 and w_2 exchanged", Change.INDEX),
            sign_flipped(second_loss, "L(w_2)"),
            replaced(first_loss, second_loss, "L(w_2) in place of L(w_1)", Change.INDEX),
            replaced(alpha, sp.Rational(1, 2), "the midpoint's weights everywhere", Change.CONSTANT),
        ),
    ),
)
