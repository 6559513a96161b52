"""The outputs of a network at initialisation, and the values of the symbols in bounds on them."""

import numpy as np
import sympy as sp

from bounds.initial_network import InitialNetwork
from bounds.symbols import R, delta, label_bound, m, n
from ntkfl.estimate import Estimate

EPS = np.finfo(float).eps
STATED_OUTPUT = sp.sqrt(2 * sp.log(2 * m * n / delta)) * sp.log(8 * n / delta)  # the printed bound on each output


def network_constants(case: InitialNetwork) -> dict:
    """n, m, delta, R and the largest |y_i|."""
    return {
        n: case.problem.n,
        m: case.width,
        delta: case.delta,
        R: case.radius,
        label_bound: np.abs(case.problem.y).max(),
    }


def initial_outputs(case: InitialNetwork, below: float = np.inf) -> Estimate:
    """sum_r a_r relu(w_r.x_i) / sqrt m over the neurons with w_r.x_i at most `below`, (n,)."""
    z, m_ = case.preactivations, case.width
    kept = np.maximum(z, 0) * (z <= below)
    of_products = (case.problem.d + 4) * EPS * float(np.linalg.norm(case.weights.hidden, axis=1).sum()) * 2
    doubtful = np.abs(z - below) <= 1e-12 * abs(below) if np.isfinite(below) else np.zeros(z.shape, bool)
    error = (
        of_products + m_ * EPS * kept.sum(axis=1) + 2 * (below if np.isfinite(below) else 0.0) * doubtful.sum(axis=1)
    ) / np.sqrt(m_)
    return Estimate(kept @ case.weights.signs / np.sqrt(m_), error, "rounding bound")
