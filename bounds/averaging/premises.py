"""Hypotheses on an ensemble, for the statements on averaging."""

import numpy as np

from bounds import Hypothesis

UNIT = np.finfo(float).tiny

SEVERAL_CLIENTS = Hypothesis("several-clients", "K >= 2", lambda case: case.clients - 2)
EQUAL_SIZES = Hypothesis(
    "equal-sizes", "n_i = n_j for all clients", lambda case: float(case.sizes.min() - case.sizes.max())
)
NO_KINK_BETWEEN = Hypothesis(
    "no-kink-between",
    "on every sample all clients of a draw and their average have the same activation pattern",
    lambda case: case.kink_distance - UNIT,
)
