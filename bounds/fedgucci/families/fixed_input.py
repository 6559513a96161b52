"""Statements about one input and one alpha that were fixed before the draw: what they share."""

from __future__ import annotations

import numpy as np

from bounds.cases.cube_networks import EPS, CubeDraw, CubeNetworks, cube_draws
from bounds.fedgucci.cases.segment_terms import ROUNDING, pair, sides
from bounds.options import Options
from bounds.statement import Hypothesis
from ntkfl.estimate import Estimate

HALF_WAY = 0.5


def _inside(case: CubeNetworks) -> Estimate:
    return Estimate(-case.outside, 4 * EPS * (case.side + float(np.abs(case.anchor.vector()).max())), ROUNDING)


IN_CUBE = Hypothesis("in-cube", "every parameter lies within d/2 of the anchor's", _inside)


def relu_change(case: CubeNetworks) -> Estimate:
    """relu(g) - relu(U_1 x) at the first input, (h,), g half way; exactly 0 where both are surely off."""
    a, c = (side[0] for side in sides(case))
    rows = np.maximum(*(np.linalg.norm(net.hidden, axis=1) for net in pair(case)))
    error = 4 * (case.l + 8) * EPS * np.linalg.norm(case.x[0]) * rows
    middle = HALF_WAY * a + (1 - HALF_WAY) * c
    on = np.maximum(a, middle) > -error
    change = np.maximum(middle, 0) - np.maximum(a, 0)
    return Estimate(change * on, error * on, ROUNDING)


def size_of(change: Estimate) -> Estimate:
    """Its l2 norm."""
    norm = np.linalg.norm(change.value)
    return Estimate(norm, np.linalg.norm(change.error) + (change.value.size + 4) * EPS * norm, ROUNDING)


def product_with(weights: np.ndarray, change: Estimate) -> Estimate:
    """|weights . change| for weights (h,) known to a rounding."""
    size = np.abs(weights)
    error = size @ change.error + (change.value.size + 4) * EPS * (size @ np.abs(change.value))
    return Estimate(abs(float(weights @ change.value)), error, ROUNDING)


def fixed_input_draws(options: Options) -> tuple[CubeDraw, ...]:
    """The default families with few inputs, of which the first is looked at; more seeds, for events are counted."""
    return cube_draws(options, n=8, trials=60)
