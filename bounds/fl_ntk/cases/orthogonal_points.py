"""Case: two orthogonal points, on which a round of the kernel regime is known by hand."""

import numpy as np

from bounds.cases.kernel_case import KernelCase
from ntkfl.problem import Problem, Setup


def orthogonal_points(setup: Setup) -> KernelCase:
    """Two orthogonal points with equal labels on one client."""
    return KernelCase(Problem(np.eye(2), np.ones(2), name="two orthogonal points"), setup)
