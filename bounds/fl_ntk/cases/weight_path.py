"""Small runs of Algorithm 1 in ball arithmetic, with all local weights of each step, and the matrices J(k,t).

Balls are intervals with midpoint and radius (python-flint). The global weights are also computed by `plain_run`.
Gradients change where activation patterns change, which happens at neurons near a kink. The bound `NEAR` on the share
of these neurons holds for all distances R at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import sympy as sp
from flint import arb
from hypothesis.strategies import SearchStrategy

from bounds import Family, Options
from bounds.cases.snapshot import snapshot
from bounds.federated_run import (
    FederatedFamily,
    FederatedRun,
    federated_families,
    federated_run,
    federated_runs,
    run_values,
)
from bounds.fl_ntk.terms.limit_kernel import limit_kernel
from bounds.symbols import R, delta, lam, m, n, sigma
from ntkfl import Estimate, Problem, Setup, gram
from ntkfl.algorithm1.reference import BALL, plain_run
from ntkfl.balls import precision


@dataclass(frozen=True, eq=False)
class WeightRound:
    """One round in balls: u(t), u(t+1) and Delta u(t), (m, d), and what the clients compute.

    `local` is w_{k,c}(t), (K+1, N, m, d). `active` is 1{w_{k,c(j),r}(t).x_j >= 0}, (K+1, n, m), and `residual` is y_j -
    y^{(k)}(t)_j, (K+1, n). Both are under the weights of the sample's own client.
    """

    start: np.ndarray
    end: np.ndarray
    update: np.ndarray
    local: np.ndarray
    active: np.ndarray
    residual: np.ndarray


@dataclass(frozen=True, eq=False)
class WeightPath:
    """All rounds of a run, computed from the weights, with the inputs of the run as balls."""

    run: FederatedRun
    x: np.ndarray
    signs: np.ndarray
    root_m: arb
    rounds: tuple[WeightRound, ...]

    def of_every_round(self, quantity: Callable[[WeightRound], np.ndarray]) -> Estimate:
        """A quantity of every round, stacked, in ball arithmetic of the run's precision."""
        with precision(self.run.bits):
            return BALL.estimate(np.array([quantity(round_) for round_ in self.rounds], dtype=object))

    def negative_gradients(self, round_: WeightRound, steps: Iterable[int]) -> np.ndarray:
        """Minus sqrt(m) times the gradients at w_{k,c}(t), (m, d), summed over the clients and the k in `steps`."""
        weighted = np.array([round_.active[k].T * round_.residual[k] for k in steps]).sum(axis=0)
        return self.signs[:, None] * (weighted @ self.x)

    def sums(self, hidden: np.ndarray) -> np.ndarray:
        """sum_r a_r relu(u_r.x_i), (n,)."""
        z = self.x @ hidden.T
        return BALL.total(z, BALL.active(z), self.run.weights.signs)


@lru_cache(maxsize=2)
def weight_path(run: FederatedRun) -> WeightPath:
    """The run in ball arithmetic, computed from the weights, client by client.

    The result is kept for later calls, since several statements use the same run.
    """
    problem, setup = run.problem, run.setup
    with precision(run.bits):
        x, y, u, signs = (BALL.convert(v) for v in (problem.x, problem.y, run.weights.hidden, run.weights.signs))
        eta_local, eta_global, width = BALL.convert(np.array([setup.eta_local, setup.eta_global, setup.width]))
        root_m = width.sqrt()
        rounds = []
        for _ in range(setup.rounds):
            local = np.empty((setup.local_steps + 1, problem.n_clients, *u.shape), dtype=object)
            active = np.empty((setup.local_steps + 1, problem.n, setup.width), dtype=bool)
            residual = np.empty((setup.local_steps + 1, problem.n), dtype=object)
            for c, members in enumerate(problem.members):
                w = u
                for k in range(setup.local_steps + 1):
                    z = x[members] @ w.T
                    on = BALL.active(z)
                    local[k, c], active[k, members] = w, on
                    residual[k, members] = y[members] - BALL.total(z, on, run.weights.signs) / root_m
                    if k < setup.local_steps:
                        pull = np.where(on.T, signs[:, None] * residual[k, members], 0)
                        w = w + (eta_local / root_m) * (pull @ x[members])
            update = (local[-1] - local[0]).sum(axis=0) / problem.n_clients
            end = u + eta_global * update
            rounds.append(WeightRound(u, end, update, local, active, residual))
            u = end
        return WeightPath(run, x, signs, root_m, tuple(rounds))


@lru_cache(maxsize=2)
def global_weights(run: FederatedRun) -> tuple[np.ndarray, ...]:
    """The weights u(0), ..., u(T) of the run, (m, d) each, by the public `plain_run` in ball arithmetic."""
    rounds = range(run.setup.rounds + 1)
    run_kept = plain_run(run.problem, run.setup, run.weights, BALL, bits=run.bits, keep=rounds)
    return tuple(run_kept.weights[t] for t in rounds)


def updates(run: FederatedRun) -> Estimate:
    """u(t+1) - u(t) for every round, (T, m, d), by the public `plain_run` in ball arithmetic."""
    path = global_weights(run)
    with precision(run.bits):
        return BALL.estimate(np.array([after - before for before, after in pairwise(path)], dtype=object))


def _small_run(base: FederatedFamily, local_steps: int | None, seed: int) -> FederatedRun:
    """A run in ball arithmetic on at most six samples of a FederatedFamily.

    The run has twelve neurons, two rounds, and one to three local steps. Clients without a drawn sample are left out.
    """
    rng = np.random.default_rng([seed, 4])
    whole = base.problem(seed)
    chosen = rng.permutation(whole.n)[:6]
    _, owner = np.unique(whole.owner[chosen], return_inverse=True)
    problem = Problem(whole.x[chosen], whole.y[chosen], owner, name=whole.name)
    setup = Setup(
        width=12,
        sigma=base.setup.sigma,
        eta_local=float(rng.uniform(0.05, 0.3)),
        eta_global=float(rng.uniform(0.5, 1.5)),
        local_steps=local_steps or 1 + seed % 3,
        rounds=2,
        seed=seed,
    )
    return federated_run(problem, setup).with_arithmetic(BALL)


def _any_run(base: FederatedFamily, local_steps: int | None) -> SearchStrategy[FederatedRun]:
    """Very small runs in balls on any data, network and steps."""
    steps = (1, 3) if local_steps is None else (local_steps, local_steps)
    return federated_runs(width=(1, 12), local_steps=steps, rounds=(1, 2), in_balls=True)


def weight_families(options: Options, local_steps: int | None = None) -> tuple[Family, ...]:
    """The default data, or the user's data, in runs that are small enough for ball arithmetic."""
    single = "" if local_steps is None else f", K={local_steps}"
    return tuple(
        Family(
            f"{base.name}, small runs in balls{single}",
            _small_run,
            _any_run,
            (base, local_steps),
            options.trials or 20,
            needs=5,
        )
        for base in federated_families(options)
    )


def small_run(seed: int = 0) -> FederatedRun:
    """A run on six points on the sphere, with two clients, twelve neurons, and three local steps."""
    return weight_families(Options(), local_steps=3)[1].case(seed)


CROWDING = 0.01  # the delta_1 of the statements
crowding = sp.Symbol("delta_1", positive=True)
NEAR = sp.sqrt(2 / sp.pi) * R / sigma + sp.sqrt(sp.log(2 * n / crowding) / (2 * m))  # Eq (11), uniform in R


def change_constants(case: FederatedRun, failure: float) -> dict:
    """The values of n, m, sigma, the movement R of the run, delta, delta_1, and the smallest eigenvalue of H_inf."""
    return run_values(case, n, m, sigma) | {
        R: farthest(case),
        delta: failure,
        crowding: CROWDING,
        lam: limit_kernel(case).smallest,
    }


def jacobian(path: WeightPath, active: np.ndarray) -> np.ndarray:
    """a_r x_i 1{active} / sqrt m as balls, (m d, n), for activation patterns (n, m)."""
    columns = path.signs[:, None, None] * path.x.T[None] * active.T[:, None, :] / path.root_m
    return columns.reshape(-1, len(path.x))


def all_jacobians(path: WeightPath, round_: WeightRound) -> list[np.ndarray]:
    """The matrices J(k,t) for k = 0..K-1 of one round."""
    return [jacobian(path, active) for active in round_.active[:-1]]


def jacobian_changes(case: FederatedRun) -> Estimate:
    """|J(k,t) - J(0,0)|_F.

    For a run in balls it is computed for every round and k, (T K,), else for the middle round, (K,).
    """
    return _changes_in_balls(case) if case.arithmetic is BALL else _changes_at_snapshot(case)


def _changes_in_balls(case: FederatedRun) -> Estimate:
    changed = case.observed("local_flips").value[:, :-1].reshape(-1, case.problem.n)
    with precision(case.bits):
        x, counts, width = (BALL.convert(v) for v in (case.problem.x, changed, np.array(case.setup.width)))
        return BALL.estimate(BALL.root(counts @ (x * x).sum(axis=1) / width))


def _changes_at_snapshot(case: FederatedRun) -> Estimate:
    x, start = case.problem.x, gram.activations(case.problem.x, case.weights.hidden)
    squares, uncertain = (x**2).sum(axis=1), gram.doubtful(x, case.weights.hidden)
    sums, doubts = [], []
    inside = snapshot(case)
    for active, doubtful in zip(inside.local_active, inside.local_doubtful, strict=True):
        sums.append(squares @ (active != start).sum(axis=1).astype(float) / case.setup.width)
        doubts.append(squares @ (doubtful + uncertain) / case.setup.width + 1e-13 * sums[-1])
    low, high = np.maximum(np.array(sums) - doubts, 0), np.array(sums) + doubts
    return Estimate.between(np.sqrt(low), np.sqrt(high), "counts, rounding bound")


def farthest(case: FederatedRun) -> Estimate:
    """R, the largest distance of any global or local weight vector from its start, over all rounds."""
    return Estimate.stacked(case.observed(name).max() for name in ("movement", "local_movement")).max()
