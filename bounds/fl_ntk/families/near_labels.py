"""Small finite networks in balls, with labels so near the outputs that no pattern flips: the kernel regime."""

import numpy as np

from bounds import Family
from bounds.family import with_own
from bounds.federated_run import FederatedRun, federated_run, federated_runs
from bounds.fl_ntk.families.few_points import small_steps
from ntkfl import gram
from ntkfl.algorithm1.reference import BALL
from ntkfl.initialisation import draw
from ntkfl.problem import Problem, Setup, Weights


def near_run(x: np.ndarray, direction: np.ndarray, owner: np.ndarray, weights: Weights, setup: Setup) -> FederatedRun:
    """The run in balls whose initial residual y - y(0) has the length 1e-6 and this direction.

    The direction need not have unit length.
    """
    outputs = weights.outputs(x)
    problem = Problem(x, outputs + 1e-6 * direction / np.linalg.norm(direction), owner, name="labels near the outputs")
    return federated_run(problem, setup, weights).with_arithmetic(BALL)


def unit_points(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Random unit rows."""
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _near_labels(seed: int) -> FederatedRun:
    """Four points, one or two clients, one to three local steps at .1 to .7 of a step that surely contracts.

    Every third residual is the bottom eigenvector of H(0), which contracts the slowest.
    """
    rng = np.random.default_rng([seed, 5])
    n, d, width, steps, clients = 4, 6, 32, 1 + seed // 2 % 3, 1 + seed % 2
    x, weights = unit_points(rng, n, d), draw(width, d, seed)
    values, vectors = np.linalg.eigh(gram.finite(x, weights.hidden))
    direction = vectors[:, 0] if seed % 3 == 0 else rng.normal(size=n)
    limit = values[0] / (values[-1] ** 2 * steps)
    setup = Setup(
        width=width,
        eta_local=float(rng.uniform(0.1, 0.7) * limit),
        local_steps=steps,
        rounds=3,
        seed=seed,
    )
    return near_run(x, direction, np.arange(n) % clients, weights, setup)


NEAR_LABELS = Family("labels near the outputs", _near_labels, federated_runs(rounds=(1, 4), in_balls=True), fixed=True)


def overshooting_client() -> FederatedRun:
    """One client, eta_l = 3/|H(0)|, and a residual along the top eigenvector: every local step doubles the residual."""
    x, weights = unit_points(np.random.default_rng(0), 4, 6), draw(32, 6, 0)
    values, vectors = np.linalg.eigh(gram.finite(x, weights.hidden))
    setup = Setup(width=32, eta_local=3 / float(values[-1]), local_steps=3, rounds=1)
    return near_run(x, vectors[:, -1], np.zeros(4, int), weights, setup)


def growing_round() -> FederatedRun:
    """Twenty stable local steps, eta_l q < 2 on every client and eta_g = 1/2: the residual grows in the first round.

    The round map M is not symmetric: its spectral radius is below 1, its norm above. The residual is the direction
    that M stretches the most.
    """
    n, d, width, steps, clients = 6, 2, 64, 20, 2
    x, weights, owner = unit_points(np.random.default_rng(112), n, d), draw(width, d, 112), np.arange(n) % clients
    h = gram.finite(x, weights.hidden)
    blocks = h * (owner[:, None] == owner)
    eta_local = 1 / float(np.linalg.eigvalsh(blocks)[-1])
    response = eta_local * sum(np.linalg.matrix_power(np.eye(n) - eta_local * blocks, k) for k in range(steps))
    stretched = np.linalg.svd(np.eye(n) - 0.5 / clients * h @ response)[2][0]
    setup = Setup(width=width, eta_local=eta_local, eta_global=0.5, local_steps=steps, rounds=1)
    return near_run(x, stretched, owner, weights, setup)


contracting_families = with_own(small_steps, NEAR_LABELS)  # few runs of the default families surely contract
