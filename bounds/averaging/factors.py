"""The factors of the loss decomposition as symbols, and their values on an ensemble; ensembles with given outputs."""

from typing import Any

import numpy as np
import sympy as sp

from bounds.cases.ensembles import Ensemble, estimated
from bounds.symbols import n
from ntkfl.balls import precision
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem

clients, samples = sp.symbols("k s", positive=True)  # the numbers of rows and columns of the matrices
shares = sp.MatrixSymbol("p", clients, 1)
train = sp.MatrixSymbol("B_train", samples, clients)
heter = sp.MatrixSymbol("B_heter", samples, clients)
variance = sp.MatrixSymbol("V", clients, clients)
covariance = sp.MatrixSymbol("C", clients, clients)

MEANINGS = {
    shares: "n_k / n, one entry per client",
    train: "y - E f_k(x) where sample x is client k's own, else 0",
    heter: "y - E f_k(x) where sample x is another client's, else 0",
    variance: "diagonal: Var f_k averaged over D",
    covariance: "off the diagonal: Cov of f_k and f_k' averaged over D; zero diagonal",
    n: "number of samples of all clients",
}

BIAS = sp.Trace(shares.T * (train + heter).T * (train + heter) * shares) / n
VARIANCE = sp.Trace(shares.T * variance * shares)
COVARIANCE = sp.Trace(shares.T * covariance * shares)


def factors(case: Ensemble) -> dict[Any, Any]:
    """Shares, biases, variances and covariances of an ensemble, by symbol."""
    with precision():
        off = case.labels[:, None] - case.mean_outputs.T
        own = case.problem.owner[:, None] == np.arange(case.clients)
        mean = case.covariances.sum(axis=2) / case.problem.n
        same = np.eye(case.clients, dtype=bool)
    return {
        shares: estimated(case.shares[:, None]),
        train: masked(off, own),
        heter: masked(off, ~own),
        variance: masked(mean, same),
        covariance: masked(mean, ~same),
        n: case.problem.n,
    }


def masked(values: np.ndarray, where: np.ndarray) -> Estimate:
    """A matrix of intervals (balls) as an Estimate, in which all entries outside the mask are exactly 0."""
    return estimated(values) * where


def across_a_kink() -> Ensemble:
    """Two clients with the networks relu(x) and relu(-x), both times 1e-6; their average is 0.

    At x = 1 one network is active and the other is not.
    """
    problem = Problem(np.ones((2, 1)), np.array([0.5, 0.5]), np.array([0, 1]), name="a kink between two clients")
    return Ensemble(problem, 1e-6 * np.array([[[[1.0]], [[-1.0]]]]), np.ones((1, 2, 1)))


def one_coin_each(values: np.ndarray, name: str) -> Ensemble:
    """Clients with one sample x = 1 each and outputs values[m, k] in draw m; all labels are 1."""
    draws, clients = values.shape
    problem = Problem(np.ones((clients, 1)), np.ones(clients), np.arange(clients), name=name)
    return Ensemble(problem, np.ones((draws, clients, 1, 1)), values[:, :, None])
