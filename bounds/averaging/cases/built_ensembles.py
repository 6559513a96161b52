"""Ensembles with given outputs: clients on either side of a kink, and clients that toss coins."""

import numpy as np

from bounds.cases.ensembles import Ensemble
from ntkfl.problem import Problem


def across_a_kink() -> Ensemble:
    """Clients with the networks relu(x) and relu(-x), whose patterns at x = 1 differ; their average is 0."""
    problem = Problem(np.ones((2, 1)), np.array([0.5, 0.5]), np.array([0, 1]), name="a kink between two clients")
    return Ensemble(problem, 1e-6 * np.array([[[[1.0]], [[-1.0]]]]), np.ones((1, 2, 1)))


def one_coin_each(values: np.ndarray, name: str) -> Ensemble:
    """Clients with one sample x = 1 each and outputs values[m, k] in draw m; all labels are 1."""
    draws, clients = values.shape
    problem = Problem(np.ones((clients, 1)), np.ones(clients), np.arange(clients), name=name)
    return Ensemble(problem, np.ones((draws, clients, 1, 1)), values[:, :, None])
