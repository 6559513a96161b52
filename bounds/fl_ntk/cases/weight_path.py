"""Small runs of Algorithm 1 in balls: step by step with every local weight kept, and by the public `plain_run`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from flint import arb
from hypothesis.strategies import SearchStrategy

from bounds import Family, Options
from bounds.federated_run import FederatedFamily, FederatedRun, federated_families, federated_run, federated_runs
from ntkfl import Estimate, Problem, Setup
from ntkfl.algorithm1.reference import BALL, plain_run
from ntkfl.balls import precision


@dataclass(frozen=True, eq=False)
class WeightRound:
    """One round in balls: u(t), u(t+1), Delta u(t), (m, d), and the clients' local weights.

    `local`: w_{k,c}(t), (K+1, N, m, d). `active`: 1{w_{k,c(j),r}(t).x_j >= 0}, (K+1, n, m), and `residual`: y_j -
        y^{(k)}(t)_j, (K+1, n), both under the weights of the sample's own client.
    """

    start: np.ndarray
    end: np.ndarray
    update: np.ndarray
    local: np.ndarray
    active: np.ndarray
    residual: np.ndarray


@dataclass(frozen=True, eq=False)
class WeightPath:
    """All rounds of a run in weight space, with its inputs as balls."""

    run: FederatedRun
    x: np.ndarray
    signs: np.ndarray
    root_m: arb
    rounds: tuple[WeightRound, ...]

    def each(self, quantity: Callable[[WeightRound], np.ndarray]) -> Estimate:
        """A quantity of every round, stacked, in balls of the run's precision."""
        with precision(self.run.bits):
            return BALL.estimate(np.array([quantity(round_) for round_ in self.rounds], dtype=object))

    def pulls(self, round_: WeightRound, steps: Iterable[int]) -> np.ndarray:
        """Minus sqrt(m) times the gradients at w_{k,c}(t), summed over the clients and the k in `steps`, (m, d)."""
        weighted = np.array([round_.active[k].T * round_.residual[k] for k in steps]).sum(axis=0)
        return self.signs[:, None] * (weighted @ self.x)

    def sums(self, hidden: np.ndarray) -> np.ndarray:
        """sum_r a_r relu(u_r.x_i), (n,)."""
        z = self.x @ hidden.T
        return BALL.total(z, BALL.active(z), self.run.weights.signs)


@lru_cache(maxsize=2)
def weight_path(run: FederatedRun) -> WeightPath:
    """The run in balls and in weight space, client by client; cached, since several statements use the same run."""
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
    """u(0), ..., u(T) of the run by the public `plain_run` in balls, (m, d) each."""
    rounds = range(run.setup.rounds + 1)
    run_kept = plain_run(run.problem, run.setup, run.weights, BALL, bits=run.bits, keep=rounds)
    return tuple(run_kept.weights[t] for t in rounds)


def updates(run: FederatedRun) -> Estimate:
    """u(t+1) - u(t) of every round, (T, m, d), by the public `plain_run` in balls."""
    path = global_weights(run)
    with precision(run.bits):
        return BALL.estimate(np.array([after - before for before, after in pairwise(path)], dtype=object))


def _small_run(base: FederatedFamily, local_steps: int | None, seed: int) -> FederatedRun:
    """A run in balls of at most six samples of a FederatedFamily: twelve neurons, two rounds, one to three local steps.

    Clients without a drawn sample are left out.
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
    """The default data, or the user's, in runs small enough for balls."""
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
    """Six points on the sphere, two clients, twelve neurons, three local steps."""
    return weight_families(Options(), local_steps=3)[1].case(seed)
