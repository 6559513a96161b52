"""One point or four: on more, appendix C's bounds are too far from the truth for their powers to show."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.federated_run import FederatedRun, federated_run, federated_runs
from ntkfl import data, gram
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


def _few_points(seed: int) -> FederatedRun:
    """Two clients, one to three local steps, five rounds."""
    problem = data.sphere(4, 3, seed=seed, clients=2)
    setup = Setup(width=128, eta_local=0.4, eta_global=1.0, local_steps=1 + seed % 3, rounds=5, seed=seed)
    return federated_run(problem, setup).with_arithmetic(BALL)


FEW_POINTS = Family("four points, 128 neurons", _few_points, federated_runs(in_balls=True), trials=10, fixed=True)


ROUNDS = 2000  # for the bound of C.7 to be near the truth at its own step


def printed_step_run(width: int, sigma: float, seed: int) -> FederatedRun:
    """Four points on one or two clients, labels +-1, one or two local steps, eta_l = .99 lambda/(n^2 K kappa)."""
    steps = 1 + seed % 2
    problem = data.sphere(4, 6, seed=seed, clients=1 + seed // 2 % 2, labels="sign")
    values = np.linalg.eigvalsh(gram.infinite(problem.x))
    eta_local = 0.99 * values[0] ** 2 / (values[-1] * problem.n**2 * steps)
    setup = Setup(width, sigma=sigma, eta_local=float(eta_local), local_steps=steps, rounds=ROUNDS, seed=seed)
    return federated_run(problem, setup)


FOUR_POINTS = Family(
    f"four points, the printed step, {ROUNDS} rounds",
    printed_step_run,
    st.builds(printed_step_run, st.sampled_from([64, 256, 1024]), st.floats(0.05, 1.0), st.integers(0, 2**16)),
    (1024, 0.25),
    trials=10,
    fixed=True,
)
