"""Case: one point, and a network as it is drawn."""

import numpy as np

from bounds.initial_network import InitialNetwork
from ntkfl.initialisation import draw
from ntkfl.problem import Problem


def one_point(length: float = 1.0, sigma: float = 1.0) -> InitialNetwork:
    """One sample, R = .05: a long row makes every entry of H large, a small sigma lets every pattern flip."""
    problem = Problem(length * np.eye(2)[:1], np.ones(1), name="one point")
    return InitialNetwork(problem, draw(4096, 2, 0, sigma), sigma, radius=0.05)
