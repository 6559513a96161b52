"""The ways in which the library runs Algorithm 1: the weights of every round by each of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bounds.family import Family
from bounds.federated_run import FEW_NEURONS, ORDER_SAFETY, FederatedRun, federated_run, federated_runs
from ntkfl import data
from ntkfl.algorithm1.reference import BALL
from ntkfl.algorithm1.simulation import simulate
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup, Weights
from ntkfl.trajectory import Trajectory

ROUNDINGS = 64  # of a weight: it is kept as u(0) plus what it has moved

Way = Callable[..., Trajectory]


def _on_devices(*run: Any, **named: Any) -> Trajectory:
    import jax  # slow to load

    return simulate(*run, movements=False, devices=jax.devices()[:1], **named)


def _by_the_engine(*run: Any, **named: Any) -> Trajectory:
    from ntkfl.training.engine_trajectory import engine_trajectory  # torch is slow to load

    return engine_trajectory(*run, movements=False, **named)


WAYS: dict[str, Way] = {
    # functions, not partials: a fault planted in `simulate` is to reach them
    "in arrays": lambda *run, **named: simulate(*run, compiled=False, **named),
    "compiled": lambda *run, **named: simulate(*run, compiled=True, **named),
    "by the host's threads": lambda *run, **named: simulate(
        *run, movements=False, grouped=True, compiled=False, **named
    ),
    "tracking switches": lambda *run, **named: simulate(*run, movements=False, grouped=True, compiled=True, **named),
    "on JAX devices": _on_devices,
    "by the training engine": _by_the_engine,
}


def updates_by_all_ways(run: FederatedRun) -> list[Estimate]:
    """u(t+1) - u(t) of every round, (T, m, d), by each of the ways; none for a network of very few neurons.

    The error is ten times the difference to the same network with its neurons in the opposite order, and some roundings
    of the weights. FEW_NEURONS say too little of it. It is measured, not proved.
    """
    if run.setup.width < FEW_NEURONS:
        return []
    return [_updates(run, way) for way in WAYS.values()]


def _updates(run: FederatedRun, way: Way) -> Estimate:
    rounds = range(run.setup.rounds + 1)
    other = Weights(run.weights.hidden[::-1], run.weights.signs[::-1])
    kept, again = (way(run.problem, run.setup, network, keep=rounds).weights for network in (run.weights, other))
    value = np.diff([kept[t] for t in rounds], axis=0)
    difference = np.abs(value - np.diff([again[t][::-1] for t in rounds], axis=0)).max()
    rounding = ROUNDINGS * np.finfo(float).eps * float(np.abs([kept[t] for t in rounds]).max())
    return Estimate(value, np.full(value.shape, ORDER_SAFETY * difference + rounding), "two orders of the neurons")


def _every_way(d: int, n: int, width: int, seed: int) -> FederatedRun:
    """Two clients of unlike sizes on the sphere, three local steps, two rounds: few enough neurons for balls.

    All seeds have clients of the same sizes, so that what is compiled for one serves all. In two dimensions the clients
    have samples enough to be trained in weight space by what trains in groups, else by coefficients.
    """
    whole = data.sphere(n, d, seed=seed, clients=1, labels="uniform")
    problem = Problem(whole.x, whole.y, (np.arange(n) < n // 2 - 1).astype(int), name=whole.name)
    setup = Setup(width=width, eta_local=0.05, eta_global=1.3, local_steps=3, rounds=2, seed=seed)
    return federated_run(problem, setup).with_arithmetic(BALL)


WAYS_DRAWS = tuple(
    Family(
        f"sphere, n={n}, d={d}, {width} neurons, every way",
        _every_way,
        federated_runs(width=(1, 12), local_steps=(1, 3), rounds=(1, 2), in_balls=True),
        (d, n, width),
        trials=2,
    )
    for d, n, width in ((8, 7, 128), (2, 17, 64))
)
