"""The common parts of statements about one input and one alpha that are fixed before the draw."""

import numpy as np

from bounds import Options
from bounds.cases.cube_networks import EPS, CubeFamily, CubeNetworks, cube_families
from bounds.fedgucci.cases.segment_terms import ROUNDING, pair, sides
from ntkfl.estimate import Estimate

HALF_WAY = 0.5


def relu_change(case: CubeNetworks) -> Estimate:
    """relu(g) - relu(U_1 x) at the first input and alpha = 1/2, (h,); exactly 0 for units that are surely off."""
    a, c = (side[0] for side in sides(case))
    rows = np.maximum(*(np.linalg.norm(net.hidden, axis=1) for net in pair(case)))
    error = 4 * (case.l + 8) * EPS * np.linalg.norm(case.x[0]) * rows
    middle = HALF_WAY * a + (1 - HALF_WAY) * c
    on = np.maximum(a, middle) > -error
    change = np.maximum(middle, 0) - np.maximum(a, 0)
    return Estimate(change * on, error * on, ROUNDING)


def fixed_input_families(options: Options) -> tuple[CubeFamily, ...]:
    """The default families with few inputs, of which the first is used, and more seeds, since events are counted."""
    return cube_families(options, n=8, trials=60)
