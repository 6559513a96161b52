"""Small networks whose labels lie near their outputs."""

import numpy as np

from ntkfl.problem import Problem, Weights


def outputs(x, hidden, signs):
    return np.maximum(x @ hidden.T, 0) @ signs / np.sqrt(len(signs))


def nearly_fitted(seed, setup, distance, n=5, d=6, clients=2, unit=True):
    """Returns a problem and the weights of a small network whose labels lie `distance` from its outputs.

    The clients differ in size.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 if unit else rng.uniform(0.7, 1.5, (n, 1)))
    weights = Weights(rng.standard_normal((setup.width, d)), rng.choice([-1.0, 1.0], setup.width))
    direction = rng.standard_normal(n)
    y = outputs(x, *weights) + distance * direction / np.linalg.norm(direction)
    return Problem(x, y, np.minimum(np.arange(n), clients - 1)), weights
