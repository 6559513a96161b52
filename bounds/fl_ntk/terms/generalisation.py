"""The main term of the generalisation bounds, their width, and the values of their symbols on a sample."""

import numpy as np
import sympy as sp

from bounds.fl_ntk.cases.generalisation_case import TrainedOnSample
from bounds.symbols import delta, lam, m, n

quadratic, index = sp.symbols("Q i", positive=True)
MAIN = sp.sqrt(2 * quadratic / n)

PREMISE = {m: n**16 / lam**2}  # sigma^-2 n^14 at sigma = lambda/n, without powers of logarithms


def constants(case: TrainedOnSample) -> dict:
    """n, delta, lambda_min(H_inf), Q = y^T H_inf^-1 y, and the index i of the smallest ball around the network."""
    complexity = case.complexity
    return {
        n: case.problem.n,
        delta: case.delta,
        lam: case.smallest_eigenvalue,
        quadratic: complexity,
        index: max(1.0, float(np.ceil(np.sqrt(complexity.hi)))),
    }
