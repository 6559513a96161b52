"""Residuals of other methods than Algorithm 1, trained by the engine on a network linearised in its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy

from bounds.federated_run import ORDER_SAFETY, FederatedRun, federated_run, federated_runs
from ntkfl import data
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup, Weights

ROUNDINGS = 256  # of the outputs: between two orders of few neurons chance may hide some

Options = tuple[tuple[str, Any], ...]


def engine_residuals(
    case: FederatedRun,
    method: str,
    options: Mapping[str, Any],
    momentum: float | None = None,
    window: int | None = None,
    client_steps: tuple[int, ...] = (),
    factors: tuple[float, ...] = (),
) -> Estimate:
    """y(t) - y, t = 0..T, (n, T+1), under a method with its options on the sum of squares.

    Args:
        case: data, network and steps. method: its name. options: of the method.
        momentum: of the clients' steps, begun anew each round; None: plain steps.
        window: models whose mean IMA sends out; None: the model itself.
        client_steps: local steps of each client; (): those of the case. factors: of the size of each local step; (): 1.
    """
    return _engine_residuals(case, method, tuple(options.items()), momentum or 0.0, window, client_steps, factors)


@lru_cache(maxsize=16)
def _engine_residuals(
    case: FederatedRun,
    method: str,
    options: Options,
    momentum: float,
    window: int | None,
    client_steps: tuple[int, ...],
    factors: tuple[float, ...],
) -> Estimate:
    from ntkfl.training.engine.local_plan import LocalWork
    from ntkfl.training.ima import averaged  # torch is slow to load
    from ntkfl.training.methods import build
    from ntkfl.training.objectives import HalfSquares
    from ntkfl.training.optimizers import SGD
    from ntkfl.training.wide_training import wide_federation

    rule = build(method, HalfSquares("sum"), **dict(options))
    trained = rule if window is None else averaged(rule, window, 0)

    def residuals(weights: Weights) -> np.ndarray:
        optimizer, steps = SGD(momentum, factors=factors), client_steps or case.setup.local_steps
        run = wide_federation(case.problem, case.setup, weights, linearised=True, method=trained, optimizer=optimizer)
        run = replace(run, work=LocalWork(batch_size=None, steps=steps))
        states = islice(run.states(), case.setup.rounds + 1)
        found = [run.model.outputs(state.model, run.data.x).numpy() - case.problem.y for state in states]
        return np.stack(found, axis=1)

    orders = (case.weights, Weights(case.weights.hidden[::-1], case.weights.signs[::-1]))
    value, other = map(residuals, orders)
    rounding = ROUNDINGS * np.finfo(float).eps * float(np.abs(value).max())
    error = ORDER_SAFETY * float(np.abs(value - other).max()) + rounding
    return Estimate(value, np.full(value.shape, error), "two summation orders")


@dataclass(frozen=True)
class MethodsDraw:
    """Eight points on the sphere, three on one client and five on the other, 256 neurons, two local steps."""

    trials: int = 6
    required: int = 5
    name: str = "sphere, n=8, N=2, other methods"

    def case(self, seed: int) -> FederatedRun:
        """The run of one seed."""
        whole = data.sphere(8, 8, seed=seed, clients=1, labels="uniform")
        problem = Problem(whole.x, whole.y, (np.arange(8) < 3).astype(int), name=whole.name)
        setup = Setup(width=256, eta_local=0.2, eta_global=1.2, local_steps=2, rounds=5, seed=seed)
        return federated_run(problem, setup)

    def strategy(self) -> SearchStrategy[FederatedRun]:
        """Small runs of two local steps on any data, network and steps."""
        return federated_runs(n=(1, 4), width=(4, 64), local_steps=(2, 2), rounds=(3, 5))
