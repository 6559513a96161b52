"""The default runs, and runs on few points. Some bounds that are loose on many points are sharp on few points.

At nearly equal points with all neurons active, the crude bounds of appendix B are sharp up to small factors. On one
point or four points a wrong power in a bound of appendix C can be noticed. A wedge has two points at a small angle: few
neurons must separate the labels, and they move far.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bounds import Family, Options, with_own
from bounds.federated_run import FederatedFamily, FederatedRun, federated_families, federated_run, federated_runs
from bounds.strategies import log_uniform, sizes
from ntkfl import Problem, Setup, Weights, data, gram
from ntkfl.algorithm1.reference import BALL


def aligned_run(
    seed: int = 0,
    *,
    n: int = 1,
    local_steps: int = 1,
    rounds: int = 10,
    eta_local: float = 0.001,
    eta_global: float = 1.0,
    width: int = 64,
    spread: float = 1e-3,
    residual: float = 1.0,
    length: float = 1.0,
) -> FederatedRun:
    """n unit points within about `spread` of each other.

    Every neuron is active on all points, and residuals are equal.

    H(0) is nearly the all-ones matrix, whose norm is n, and the residual is nearly the top eigenvector of H(0). So two
    bounds of the proofs are nearly attained: |H(0)| <= n, and sum_i |r_i| <= sqrt(n) |r| for the residual r. The runs
    are small, and in ball arithmetic. A `length` of the rows other than 1 shows that unit rows are needed.
    """
    rng, d = np.random.default_rng(seed), 3
    x = np.eye(d)[0] + spread * rng.normal(size=(n, d))
    x *= length / np.linalg.norm(x, axis=1, keepdims=True)
    hidden = rng.normal(size=(width, d))
    hidden[:, 0] = 6 + np.abs(hidden[:, 0])
    weights = Weights(hidden, np.where(np.arange(width) % 2, 1.0, -1.0))
    problem = Problem(x, weights.outputs(x) + residual, name=f"aligned(n={n}, seed={seed})")
    run = federated_run(problem, Setup(width, 1.0, eta_local, eta_global, local_steps, rounds, seed), weights)
    return run.with_arithmetic(BALL, bits=256 + 8 * rounds * local_steps)


def _aligned_four(seed: int, **changes: Any) -> FederatedRun:
    """Four nearly equal points, with one or two local steps."""
    return aligned_run(seed, n=4, local_steps=1 + seed % 2, **changes)


# Nearly equal points with any step size, spread, width and residual.
ANY_STEPS = st.builds(
    _aligned_four,
    seed=st.integers(0, 2**16),
    eta_local=log_uniform(1e-4, 4),
    eta_global=log_uniform(0.05, 10),
    spread=log_uniform(1e-6, 1),
    residual=log_uniform(1e-6, 10),
    width=sizes(1, 64),
    rounds=st.integers(1, 5),
)
ALIGNED_POINTS = Family("aligned points", _aligned_four, ANY_STEPS, needs=20)


def overshooting_clients() -> FederatedRun:
    """One point and twenty local steps of size 3. Every step overshoots, so that the local outputs grow like 2^k.

    The residual is so small that no activation pattern changes meanwhile.
    """
    return aligned_run(eta_local=3.0, rounds=2, residual=1e-7, local_steps=20)


def overshooting_server() -> FederatedRun:
    """One point, one small local step, and a server step of 100.

    In each round the global outputs overshoot ninefold.
    """
    return aligned_run(eta_local=0.1, eta_global=100.0, rounds=3, residual=1e-3)


def long_row() -> FederatedRun:
    """One row of norm 6, at a step size that would be small for a unit row."""
    return aligned_run(eta_local=0.15, rounds=1, residual=1e-3, length=6.0)


def long_row_converging() -> FederatedRun:
    """A converging run on a row of norm 30.

    lambda grows with the square of the norm, while the movement falls with the norm.
    """
    return aligned_run(eta_local=5e-4, rounds=20, residual=1e-3, length=30.0)


def wedge(angle: float, width: int, rounds: int) -> FederatedRun:
    """Two points at `angle`, and neurons evenly spread over the circle. lambda_min(H(0)) is about angle / (2 pi).

    The angle is in radians.
    """
    turn = 2 * np.pi * (np.arange(width) + 0.5) / width
    hidden = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    # for K = 1 only the product of eta_l and eta_g matters
    setup = Setup(width, eta_local=0.01, eta_global=60.0, local_steps=1, rounds=rounds)
    return _wedge_run(angle, hidden, setup, f"wedge(angle={angle:g})")


def one_neuron_wedge() -> FederatedRun:
    """256 neurons and two points. lambda is about 1/512.

    Half of the neurons are active on both points, one on the first point only, and all others on neither. The run is
    small enough for ball arithmetic. The residual lies along the bottom eigenvector, so that only the neuron that is
    active on one point can remove it. This neuron moves by r_0 / (sqrt 2 sqrt m lambda), mostly within 440 rounds at
    eta_l eta_g = 1.8.
    """
    width = 256
    hidden = np.zeros((width, 2))
    hidden[:, 0] = np.where(np.arange(width) % 2, 1.0, -1.0)
    hidden[0] = 0.0, 1.0
    setup = Setup(width, eta_local=0.018, eta_global=100.0, local_steps=1, rounds=440)
    return _wedge_run(0.02, hidden, setup, "one neuron in the wedge")


def _wedge_run(angle: float, hidden: np.ndarray, setup: Setup, name: str) -> FederatedRun:
    """The run with the residual 1e-4 (1, -1)/sqrt 2.

    The residual is too small for an activation pattern to change, so that the network moves as if linearised.
    """
    x = np.array([[np.cos(side * angle / 2), np.sin(side * angle / 2)] for side in (1, -1)])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = Weights(hidden, np.where(np.arange(len(hidden)) % 4 < 2, 1.0, -1.0))
    problem = Problem(x, weights.outputs(x) + 1e-4 * np.array([1.0, -1.0]) / np.sqrt(2), name=name)
    return federated_run(problem, setup, weights)


def _wedge(seed: int) -> FederatedRun:
    """Wedges of eight angles from .3 to .03 in turn. All have 600 rounds, so that code is compiled only once."""
    return wedge(float(np.geomspace(0.3, 0.03, 8)[seed % 8]), 512, rounds=600)


# The counterexample search draws wedges of any angle. These runs have few neurons and rounds, since the search makes
# hundreds of runs.
ANY_WEDGE = st.builds(wedge, log_uniform(1e-3, 1), sizes(4, 128), st.integers(1, 40))
WEDGES = Family("wedges", _wedge, ANY_WEDGE, trials=8)


def one_point_run(setup: Setup, *, label: float = 1.0, length: float = 1.0) -> FederatedRun:
    """A Gaussian network on the single sample (length, 0) of one client, in ball arithmetic. H_inf is length^2 / 2."""
    problem = Problem(length * np.eye(2)[:1], np.array([label]), name="one point")
    return federated_run(problem, setup).with_arithmetic(BALL, bits=128 + 8 * setup.rounds * setup.local_steps)


def _one_point(setup: Setup, label: float, seed: int) -> FederatedRun:
    """One unit sample and a Gaussian network. Odd seeds have two local steps of half the size."""
    steps = 1 + seed % 2
    return one_point_run(replace(setup, seed=seed, local_steps=steps, eta_local=setup.eta_local / steps), label=label)


def _family(name: str, setup: Setup, label: float = 1.0) -> Family:
    """Runs on one point.

    The counterexample search draws any label, network, step sizes and up to 256 rounds, in ball arithmetic.
    """
    runs = federated_runs(n=(1, 1), clients=(1, 1), rounds=(1, 256), in_balls=True)
    return Family(f"one point, {name}", _one_point, runs, (setup, label), trials=10, fixed=True)


def quick(width: int, label: float = 1.0) -> Family:
    """Runs of two rounds on one point.

    The first round removes most of the residual, and all changes of patterns happen in this round.
    """
    return _family(f"width {width}, y = {label:g}", Setup(width, eta_local=1.8, local_steps=1, rounds=2), label)


def at_most_half(width: int) -> Family:
    """Eight rounds at the step size that the paper prints, eta_l = lambda/(n^2 K kappa), with the O-constant 1.

    On one point n = kappa = 1 and lambda = 1/2, so that eta_l K = 1/2.
    """
    setup = Setup(width, eta_local=0.5 * (1 - 1e-6), local_steps=1, rounds=8)
    return _family(f"width {width}, the printed step", setup)


# Twenty-four rounds at the printed step from sigma = 1/4. The movement comes near its limit.
THIN_START = _family("width 4096, the printed step, sigma 1/4", Setup(4096, 0.25, 0.5 * (1 - 1e-6), rounds=24))
# Twenty-four rounds, with eta_l times the largest eigenvalue equal to 1/4. Activation patterns change while there is
# still a residual.
GRADUAL = _family("small steps", Setup(512, eta_local=0.5, local_steps=1, rounds=24))


def _few_points(seed: int) -> FederatedRun:
    """Four points on two clients, with one to three local steps and five rounds."""
    problem = data.sphere(4, 3, seed=seed, clients=2)
    setup = Setup(width=128, eta_local=0.4, eta_global=1.0, local_steps=1 + seed % 3, rounds=5, seed=seed)
    return federated_run(problem, setup).with_arithmetic(BALL)


FEW_POINTS = Family("four points, 128 neurons", _few_points, federated_runs(in_balls=True), trials=10, fixed=True)


ROUNDS = 2000  # enough rounds for the bound of C.7 to be sharp at the printed step


def printed_step_run(width: int, sigma: float, seed: int) -> FederatedRun:
    """Four points with labels +-1 on one or two clients, with one or two local steps.

    eta_l is .99 lambda/(n^2 K kappa).
    """
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


def linearised_families(options) -> tuple:
    """Networks linearised in their weights.

    There are few rounds, since some formulas, such as X.1, are evaluated on matrices with a column for each round.
    """
    return federated_families(options, label="linearised", linearised=True, movements=True, rounds=40)


def small_steps(options: Options) -> tuple[FederatedFamily, ...]:
    """The default families, or the user's data, at eta_l = .03."""
    return federated_families(options, label="eta_l=.03", movements=True, eta_local=0.03)


def small_step_runs(options: Options) -> tuple[FederatedFamily, ...]:
    """The default families at eta_l = .03. On the user's data eta_l n K <= 1.2, unless the user chose a step size."""
    if options.data is None:
        return small_steps(options)
    size = federated_families(options)[0].problem(options.seed).n
    step = min(0.03, 1.2 / (size * (options.local_steps or 2)))
    return federated_families(options, label=f"eta_l={step:.2g}", movements=True, eta_local=step)


small_step_families = with_own(small_step_runs, ALIGNED_POINTS)  # for aligned points the bounds are sharp
moving_families = with_own(small_step_runs, WEDGES)  # for wedges the bound's power of lambda matters
