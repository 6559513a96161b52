"""One sample: the only data on which appendix C's bounds are near enough to the truth for their powers to show."""

from dataclasses import replace

import numpy as np

from bounds.family import Family
from bounds.federated_run import FederatedRun, federated_run, federated_runs
from ntkfl.algorithm1.reference import BALL
from ntkfl.problem import Problem, Setup


def one_point_run(setup: Setup, *, label: float = 1.0, length: float = 1.0) -> FederatedRun:
    """A Gaussian network on the single sample (length, 0), one client, in balls: H_inf = length^2 / 2."""
    problem = Problem(length * np.eye(2)[:1], np.array([label]), name="one point")
    run = federated_run(problem, setup)
    return run.with_arithmetic(BALL, bits=128 + 8 * setup.rounds * setup.local_steps)


def _one_point(setup: Setup, label: float, seed: int) -> FederatedRun:
    """One unit sample and a Gaussian network; odd seeds take two local steps of half the size."""
    steps = 1 + seed % 2
    return one_point_run(replace(setup, seed=seed, local_steps=steps, eta_local=setup.eta_local / steps), label=label)


def _family(name: str, setup: Setup, label: float = 1.0) -> Family:
    """Such runs; searched in balls, with any label, network and steps, of up to 256 rounds."""
    runs = federated_runs(n=(1, 1), clients=(1, 1), rounds=(1, 256), in_balls=True)
    return Family(f"one point, {name}", _one_point, runs, (setup, label), trials=10, fixed=True)


def quick(width: int, label: float = 1.0) -> Family:
    """Two rounds; the first removes most of the residual, so that all flips happen in it."""
    setup = Setup(width, eta_local=1.8, local_steps=1, rounds=2)
    return _family(f"width {width}, y = {label:g}", setup, label)


def at_most_half(width: int) -> Family:
    """Eight rounds at eta_l K = 1/2 = lambda: the printed step lambda/(n^2 K kappa), its O-constant taken as 1."""
    setup = Setup(width, eta_local=0.5 * (1 - 1e-6), local_steps=1, rounds=8)
    return _family(f"width {width}, the printed step", setup)


# Twenty-four rounds at the printed step from a thin start, sigma = 1/4: the movement comes near its limit.
THIN_START = _family("width 4096, the printed step, sigma 1/4", Setup(4096, 0.25, 0.5 * (1 - 1e-6), rounds=24))
# Twenty-four rounds at a quarter of the largest eigenvalue: patterns flip while there is residual left.
GRADUAL = _family("small steps", Setup(512, eta_local=0.5, local_steps=1, rounds=24))
