"""Four points on the sphere and 128 neurons, in balls: runs in which patterns flip while there is residual left."""

from bounds.family import Family
from bounds.federated_run import FederatedRun, federated_run, federated_runs
from ntkfl import data
from ntkfl.algorithm1.reference import BALL
from ntkfl.problem import Setup


def _few_points(seed: int) -> FederatedRun:
    """Two clients, one to three local steps, five rounds."""
    problem = data.sphere(4, 3, seed=seed, clients=2)
    setup = Setup(width=128, eta_local=0.4, eta_global=1.0, local_steps=1 + seed % 3, rounds=5, seed=seed)
    return federated_run(problem, setup).with_arithmetic(BALL)


FEW_POINTS = Family("four points, 128 neurons", _few_points, federated_runs(in_balls=True), trials=10, fixed=True)
