"""Case: a deep network, linearised in its parameters and trained by the engine, with its kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Case, Family, Options
from bounds.case import described, prepared
from bounds.deep.cases.network_stack import StartedNetwork
from bounds.federated_run import ORDER_SAFETY, federated_families
from ntkfl import Estimate, Problem, Setup, data, gram

if TYPE_CHECKING:
    from ntkfl import Trajectory

# least error, in units of eps times the largest value: sums of few neurons in two orders may agree by chance
ROUNDINGS = 32
NETWORKS = ("fc:2:relu:32", "fc:3:erf:24", "fc:3:gelu:32:bias=0.2", "conv:3:relu:12")


class Seen(NamedTuple):
    """A run of the linearised network, and the network's outputs (n,) and kernel J(x) J(x)^T (n, n) at the start."""

    run: Trajectory
    first: np.ndarray
    kernel: np.ndarray


@dataclass(frozen=True, eq=False)
class DeepRun(Case):
    """Algorithm 1 on a `WideNetwork`, linearised in all its parameters."""

    problem: Problem
    setup: Setup
    network: str  # with its width, as `WideNetwork.named` takes it

    @prepared
    def orders(self) -> tuple[Seen, Seen]:
        """The run, and the run with features and neurons in the opposite order, whose sums round differently."""
        from ntkfl.training.engine_trajectory import network_trajectory  # torch is slow to load

        one = StartedNetwork.named(self.network, self.problem, None, self.setup.seed)
        turned = replace(self.problem, x=self.problem.x[:, ::-1])
        flipped = {name: value.flip(tuple(range(value.ndim))) for name, value in one.start.items()}

        def seen(of: StartedNetwork) -> Seen:
            run = network_trajectory(of.residuals, self.setup, of.network, of.start, linearised=True)
            return Seen(run, of.first, of.kernel(of.start))

        return seen(one), seen(StartedNetwork(turned, one.network, flipped))

    @cached_property
    def residuals(self) -> Estimate:
        """y(t) - y, t = 0..T, (n, T+1)."""
        return between(*((seen.run.outputs - self.problem.y).T for seen in self.orders))

    @cached_property
    def start(self) -> Estimate:
        """f(theta(0), x) - y, f the network before it is linearised, (n, 1)."""
        return between(*((seen.first - self.problem.y)[:, None] for seen in self.orders))

    @cached_property
    def movement(self) -> Estimate:
        """|theta(T) - theta(0)|."""
        return between(*(np.asarray(seen.run.total_movement)[-1] for seen in self.orders))

    @cached_property
    def kernel(self) -> Estimate:
        """J(x) J(x)^T at the start, (n, n)."""
        return between(*(seen.kernel for seen in self.orders))

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """The smallest eigenvalue of the kernel, certified."""
        return gram.smallest_eigenvalue(self.kernel)

    describe = described("problem", "network", "N", "K", seed="setup.seed")


def between(value: np.ndarray, other: np.ndarray) -> Estimate:
    """The first of two values that differ only in the order of summation; the error is their difference, enlarged."""
    rounding = ROUNDINGS * np.finfo(float).eps * float(np.abs(value).max())
    error = ORDER_SAFETY * float(np.abs(value - other).max()) + rounding
    return Estimate(value, np.full(np.shape(value), error), "two summation orders")


def _run(network: str, setup: Setup, options: Options, seed: int) -> DeepRun:
    """A run on seven points, three on one client and four on the other, or on the user's data and clients."""
    problem = points(7, 9, seed) if options.data is None else federated_families(options)[0].problem(seed)
    return DeepRun(problem, replace(setup, seed=seed), network)


def _small_runs(network: str, setup: Setup, options: Options) -> SearchStrategy[DeepRun]:
    """Runs on other points, networks, steps and rounds."""

    def run(n: int, seed: int, network: str, steps: int, rounds: int, eta: float) -> DeepRun:
        chosen = replace(setup, eta_local=eta, local_steps=steps, rounds=rounds, seed=seed)
        return DeepRun(points(n, 9, seed), chosen, network)

    few, sizes = st.integers(1, 4), st.integers(2, 6)
    return st.builds(run, sizes, st.integers(0, 99), st.sampled_from(NETWORKS), few, few, st.floats(0.05, 0.2))


def points(n: int, d: int, seed: int) -> Problem:
    """Points on the sphere, three sevenths of them on the first of two clients."""
    whole = data.sphere(n, d, seed=seed, clients=1, labels="uniform")
    return Problem(
        whole.x, whole.y, (np.arange(n) >= max(1, 3 * n // 7)).astype(int), name=f"sphere, n={n}, d={d}, N=2"
    )


def deep_run_families(options: Options) -> tuple[Family, ...]:
    """Three local steps and five rounds on each of NETWORKS."""
    setup = options.setup(eta_local=0.15, eta_global=1.2, local_steps=3, rounds=5)
    # with other data without the convolution, the last network: their rows may be no images
    networks = NETWORKS if options.data is None else NETWORKS[:-1]
    where = options.data or "sphere, n=7, d=9, N=2"
    return tuple(
        Family(f"{where}, {network}", _run, _small_runs, (network, setup, options), trials=5, needs=4)
        for network in networks
    )
