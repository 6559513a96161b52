"""Case: a stable setup, and labels for which the Euclidean residual grows the most in one round."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from bounds.family import Family
from bounds.federated_run import FederatedRun, federated_run
from bounds.part_strategies import log_uniform
from ntkfl import data, gram
from ntkfl.algorithm1.reference import BALL
from ntkfl.initialisation import draw
from ntkfl.problem import Setup


def most_growing(seed: int, *, n: int = 6, d: int = 2, width: int = 256, eta_global: float = 0.5) -> FederatedRun:
    """One round of a linearised network, in balls: 2 clients, 20 local steps of 0.999 / (largest block eigenvalue).

    y(0) - y is the unit vector that the round map stretches the most (to rounding).
    """
    problem = data.sphere(n, d, seed=seed, clients=2)
    weights = draw(width, d, seed, 1.0)
    h = gram.finite(problem.x, weights.hidden)
    blocks = h * (problem.owner[:, None] == problem.owner)
    eta, steps, one = 0.999 / np.linalg.eigvalsh(blocks)[-1], 20, np.eye(n)
    response, power = np.zeros((n, n)), one
    for _ in range(steps):
        response, power = response + eta * power, power - eta * blocks @ power
    round_map = one - eta_global / problem.n_clients * h @ response
    stretched = np.linalg.svd(round_map)[2][0]
    outputs = weights.outputs(problem.x)
    problem = replace(problem, y=outputs - stretched, x_test=None, y_test=None)
    setup = Setup(width, eta_local=float(eta), eta_global=eta_global, local_steps=steps, rounds=1, seed=seed)
    return replace(federated_run(problem, setup, weights), linearised=True).with_arithmetic(BALL)


# In some the residual grows in the first round, in others not; searched: any dimension, any server step up to 2.
GROWTH = Family(
    "six points on the circle, steps that all fit",
    most_growing,
    st.builds(
        most_growing,
        st.integers(0, 2**16),
        n=st.integers(2, 6),
        d=st.integers(2, 4),
        width=st.integers(16, 64),
        eta_global=log_uniform(0.05, 2),
    ),
    fixed=True,
)
