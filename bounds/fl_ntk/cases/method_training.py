"""Training under any method: by the engine, for networks and linearised networks, and by the kernel regime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bounds import Family
from bounds.federated_run import ORDER_SAFETY, FederatedRun, federated_run, federated_runs
from ntkfl import Estimate, Problem, Setup, Weights, data

if TYPE_CHECKING:
    from ntkfl.exact_dynamics import KernelRegime, LinearRegime
    from ntkfl.training.engine.federation import Federation

# Least error, in roundings of the outputs. Without a least error the error could be 0, since sums over few neurons in
# two orders may agree by chance.
ROUNDINGS = 256


@dataclass(frozen=True)
class Training:
    """A method on the sum of squares, and how its clients take steps."""

    method: str
    options: Mapping[str, Any]  # the options of the method, as `ntkfl.training` takes them
    # the clients' momentum, numbers of steps and factors of steps, as `kernel_regime` takes them; if empty, as in the
    # setup
    momentum: float = 0.0
    client_steps: tuple[int, ...] = ()
    step_factors: tuple[float, ...] = ()
    # number of models whose mean the server sends out (IMA); None: the server sends its model
    window: int | None = None

    def __hash__(self) -> int:
        return hash(
            (self.method, *self.options.items(), self.momentum, self.client_steps, self.step_factors, self.window)
        )

    def federation(self, problem: Problem, setup: Setup, weights: Weights, *, linearised: bool = False) -> Federation:
        """The rounds of the training engine."""
        from ntkfl.training.engine.ima import averaged
        from ntkfl.training.engine.local_plan import LocalWork  # here, since torch loads slowly
        from ntkfl.training.methods import build
        from ntkfl.training.objectives import HalfSquares
        from ntkfl.training.optimizers import SGD
        from ntkfl.training.wide_training import wide_federation

        method = build(self.method, HalfSquares("sum"), **self.options)
        method = method if self.window is None else averaged(method, self.window, 0)
        optimizer = SGD(self.momentum, factors=self.step_factors)
        run = wide_federation(problem, setup, weights, method=method, linearised=linearised, optimizer=optimizer)
        return replace(run, work=LocalWork(batch_size=None, steps=self.client_steps or setup.local_steps))

    def residuals(self, problem: Problem, setup: Setup, weights: Weights, *, linearised: bool = False) -> np.ndarray:
        """y - y_m(t) for t = 0..T, (T+1, n), of a network that the engine trains.

        The arguments have the meaning that they have in `federation`.
        """
        run = self.federation(problem, setup, weights, linearised=linearised)
        states = islice(run.states(), setup.rounds + 1)
        return np.array([problem.y - run.model.outputs(state.model, run.data.x).numpy() for state in states])

    def residuals_together(self, runs: Sequence[FederatedRun], setup: Setup) -> np.ndarray:
        """The `residuals` of the networks of these runs, (runs, T+1, n).

        The runs differ only in their weights and labels.
        """
        from torch import as_tensor

        from ntkfl.training.wide_training import displaced_networks

        labels = np.stack([run.problem.y for run in runs], axis=1)
        alone = self.federation(runs[0].problem, setup, runs[0].weights)
        data = replace(alone.data, y=as_tensor(labels))
        networks = displaced_networks([run.weights for run in runs])
        at_once = alone.together(alone.model.initial(0), len(runs) * data.clients)
        together = replace(alone, model=networks, data=data, at_once=max(1, at_once // len(runs)))
        states = islice(together.states(), setup.rounds + 1)
        outputs = np.array([together.model.outputs(state.model, data.x).numpy() for state in states])
        return (labels - outputs).transpose(2, 0, 1)

    def regime(self, problem: Problem, setup: Setup, gram: ArrayLike | None = None) -> KernelRegime | LinearRegime:
        """The kernel regime. Its warnings are suppressed."""
        from ntkfl import kernel_regime
        from ntkfl.exact_dynamics import MovingWindow, UnstableSteps

        with warnings.catch_warnings(action="ignore", category=UnstableSteps):
            return kernel_regime(
                problem,
                setup,
                gram,
                self.method,
                self.options,
                self.momentum,
                client_steps=self.client_steps or None,
                step_factors=self.step_factors,
                ima=None if self.window is None else MovingWindow(self.window),
            )


@lru_cache(maxsize=16)
def engine_residuals(case: FederatedRun, training: Training) -> Estimate:
    """y(t) - y for t = 0..T, (n, T+1), of the case's network, which is linearised and trained by the engine."""
    orders = (case.weights, Weights(case.weights.hidden[::-1], case.weights.signs[::-1]))
    value, other = (-training.residuals(case.problem, case.setup, w, linearised=True).T for w in orders)
    # Outputs are rounded before y is subtracted. So a residual that is much smaller than y loses its last digits.
    rounding = ROUNDINGS * np.finfo(float).eps * float(np.abs(value).max() + np.abs(case.problem.y).max())
    error = ORDER_SAFETY * float(np.abs(value - other).max()) + rounding
    return Estimate(value, np.full(value.shape, error), "two summation orders")


def final_residuals(case: FederatedRun, trainings: Sequence[Training]) -> tuple[Estimate, ...]:
    """y(T) - y under each training: by the engine on the linearised network, then by the library's kernel regime."""
    setup, h = case.setup, case.initial_gram
    alone = Setup(eta_local=setup.eta_local, local_steps=setup.local_steps)
    outputs = case.weights.outputs(case.problem.x)
    residuals = []
    for training in trainings:
        value = -training.regime(case.problem, alone, h.value).residual(setup.rounds, outputs)
        rounding = ROUNDINGS * np.finfo(float).eps * case.problem.n * (1 + float(np.abs(value).max()))
        residuals.append(Estimate(value, np.full(value.shape, rounding + float(h.error.max())), "rounding, generous"))
    return (*(engine_residuals(case, training)[:, setup.rounds] for training in trainings), *residuals)


def _two_steps(seed: int) -> FederatedRun:
    """Eight points on the sphere, three on one client and five on the other, with 256 neurons and two local steps."""
    whole = data.sphere(8, 8, seed=seed, clients=1, labels="uniform")
    problem = Problem(whole.x, whole.y, (np.arange(8) < 3).astype(int), name=whole.name)
    return federated_run(problem, Setup(width=256, eta_local=0.2, eta_global=1.2, local_steps=2, rounds=5, seed=seed))


OTHER_METHODS = Family(
    "sphere, n=8, N=2, other methods",
    _two_steps,
    federated_runs(n=(1, 4), width=(4, 64), local_steps=(2, 2), rounds=(3, 5)),
    trials=6,
    most=6,
)
