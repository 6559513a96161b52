"""Two kinds of cases: a deep network linearised in its parameters, and deep networks of several widths.

The networks of several widths are compared with their kernel regimes. The case of all widths together is called a
ladder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Case, Family, Options
from bounds.case import described, prepared
from bounds.deep.cases.network_stack import NetworkStack, StartedNetwork
from bounds.federated_run import ORDER_SAFETY, federated_families
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.fl_ntk.terms.limit_kernel import limit_divergence
from bounds.ladders.rungs import SPACING, Rungs
from bounds.ladders.slopes import slope
from ntkfl import Estimate, Problem, Setup, data, gram
from ntkfl.limit.infinite_width import KernelRegime, algorithm1_limit

if TYPE_CHECKING:
    from ntkfl import Trajectory
    from ntkfl.training.models.wide_networks import WideNetwork
    from ntkfl.training.tree import Params


# Least error, in units of eps times the largest value. Without a least error the error could be 0, since sums of few
# neurons in two orders may agree by chance.
ROUNDINGS = 32
NETWORKS = ("fc:2:relu:32", "fc:3:erf:24", "fc:3:gelu:32:bias=0.2", "conv:3:relu:12")


class RunOutputs(NamedTuple):
    """A run of the linearised network, and the network's outputs (n,) and kernel J(x) J(x)^T (n, n) at the start."""

    run: Trajectory
    first: np.ndarray
    kernel: np.ndarray


@dataclass(frozen=True, eq=False)
class DeepRun(Case):
    """Algorithm 1 on a `WideNetwork`, linearised in all its parameters."""

    problem: Problem
    setup: Setup
    network: str  # the network's name with its width, as `WideNetwork.named` takes it

    @prepared
    def orders(self) -> tuple[RunOutputs, RunOutputs]:
        """The run, and a second run with features and neurons in the opposite order. Their sums round differently."""
        from ntkfl.training.engine_trajectory import network_trajectory  # here, since torch loads slowly

        one = StartedNetwork.named(self.network, self.problem, None, self.setup.seed)
        turned = replace(self.problem, x=self.problem.x[:, ::-1])
        flipped = {name: value.flip(tuple(range(value.ndim))) for name, value in one.start.items()}

        def outputs_of(of: StartedNetwork) -> RunOutputs:
            run = network_trajectory(of.residuals, self.setup, of.network, of.start, linearised=True)
            return RunOutputs(run, of.first, of.kernel(of.start))

        return outputs_of(one), outputs_of(StartedNetwork(turned, one.network, flipped))

    @cached_property
    def residuals(self) -> Estimate:
        """y(t) - y for t = 0..T, (n, T+1)."""
        return between(*((order.run.outputs - self.problem.y).T for order in self.orders))

    @cached_property
    def start(self) -> Estimate:
        """f(theta(0), x) - y, where f is the network before it is linearised, (n, 1)."""
        return between(*((order.first - self.problem.y)[:, None] for order in self.orders))

    @cached_property
    def movement(self) -> Estimate:
        """|theta(T) - theta(0)|."""
        return between(*(np.asarray(order.run.total_movement)[-1] for order in self.orders))

    @cached_property
    def kernel(self) -> Estimate:
        """J(x) J(x)^T at the start, (n, n)."""
        return between(*(order.kernel for order in self.orders))

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """The smallest eigenvalue of the kernel, certified."""
        return gram.smallest_eigenvalue(self.kernel)

    describe = described("problem", "network", "N", "K", seed="setup.seed")


def between(value: np.ndarray, other: np.ndarray) -> Estimate:
    """The first of two values that differ only in the order of summation.

    The error of the result is the largest difference of the two values times a factor, plus some roundings.
    """
    rounding = ROUNDINGS * np.finfo(float).eps * float(np.abs(value).max())
    error = ORDER_SAFETY * float(np.abs(value - other).max()) + rounding
    return Estimate(value, np.full(np.shape(value), error), "two summation orders")


def _run(network: str, setup: Setup, options: Options, seed: int) -> DeepRun:
    """A run on seven points, with three on one client and four on the other, or on the user's data and clients."""
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
    # the convolutional network is left out for the user's data, whose rows may be no images
    networks = NETWORKS if options.data is None else NETWORKS[:-1]
    where = options.data or "sphere, n=7, d=9, N=2"
    return tuple(
        Family(f"{where}, {network}", _run, _small_runs, (network, setup, options), trials=5, needs=4)
        for network in networks
    )


SHALLOW = {round(2 ** (7 + half / 2)): 12 for half in range(11)}  # maps a width to the number of networks, for depth 2
# fewer networks at large widths: a layer has width^2 weights
DEEP = {round(2 ** (5 + half / 2)): 32 for half in range(7)} | {362: 24, 512: 20, 724: 16}
NARROW = 3  # number of the smallest widths, at which chance changes a run by a third of its distance from the limit
FEWEST_WIDTHS = 6  # least number of widths at which a failure is checked again on other networks
SETUP = Setup(eta_local=0.2, local_steps=3, rounds=8)
RELU, ERF = "fc:2:relu", "fc:3:erf"
LEFT = "log-log slopes over widths of the RMS over networks, trained by the engine from the residual r_0, of "
SECTION = "docs/proofs/finite_width.md#deep-networks"


class Trained(NamedTuple):
    """The measurements of the runs of one network, from the residual r_0, in T rounds of K steps."""

    # mean_c |theta_c - theta'| in the last round, divided by sqrt m for `neuron`, and by |theta' - theta| for
    # `divergence`; theta_c is the model of client c, theta and theta' are the server's before and after the round
    neuron: float
    divergence: float
    # max_t |y_m(t) - y_p(t)| / |r_0|, where y_p(t) are the outputs of the same network after K t steps of gradient
    # descent on all data
    pooled: float


class Measured(NamedTuple):
    """The measurements of the runs and kernels of one network; the last three fields are those of `Trained`."""

    kernel: float  # |H(0) - H_inf| / |H_inf|
    # max_t |y_m(t) - y(t)| / |r_0|, where y(t) are the outputs in the kernel regime of H_inf for `limit`, and of H(0)
    # for `own`
    limit: float
    own: float
    drift: float  # |H(T) - H(0)| / |H_inf|
    neuron: float
    divergence: float
    pooled: float


@dataclass(frozen=True, eq=False)
class DeepLadder(Rungs):
    """One kind of network over widths and seeds. The labels are y_m(0) + r_0 with r_0 = problem.y."""

    problem: Problem  # a problem whose clients have equal weight
    setup: Setup  # the same for every run, with eta_global 1
    network: str  # the network's name, as `WideNetwork.named` takes it
    seed: int
    # widths, counts and seed have the meaning that they have in `Rungs`
    widths: tuple[int, ...]
    counts: tuple[int, ...]

    @cached_property
    def wide(self) -> WideNetwork:
        """The network before a width is chosen."""
        from ntkfl.training.models.wide_networks import WideNetwork  # here, since torch loads slowly

        return WideNetwork.named(self.network)[0]

    @prepared
    def measured(self) -> list[list[Measured]]:
        """The measurements of every network, by width."""
        return self.in_rungs("measured", partial(self._row, kernels=True))

    @cached_property
    def trained(self) -> list[list[Trained]]:
        """The measurements of the runs of every network, by width.

        No kernels are computed. So a statement on these measurements is checked faster on other networks (`fresh`).
        """
        return self.in_rungs("trained", partial(self._row, kernels=False))

    def fresh(self) -> DeepLadder:
        """The ladder with other networks, on which a failure is checked again.

        The new ladder leaves out the two largest widths, which take two thirds of the time.
        """
        return self._other(self.counts[: max(FEWEST_WIDTHS, len(self.counts) - 2)])

    def _row(self, row: int, places: range, kernels: bool) -> Iterator[Any]:
        seeds = self.seeds(row)[places.start : places.stop]
        for stack in NetworkStack.of_seeds(self.network, self.problem, self.widths[row], seeds):
            yield from self._runs(stack, self.widths[row], kernels)

    def samples(self, name: str) -> list[np.ndarray]:
        """The values of one field of `Measured` for every network: an array (networks,) for each width."""
        all_measured = any("measured" in vars(ladder) for ladder in (self, *self.sharing))
        rows = self.measured if all_measured or name not in Trained._fields else self.trained
        return [np.array([getattr(run, name) for run in row]) for row in rows]

    def exponent(self, name: str, biased: bool = False) -> Estimate:
        """The exponent of a field in the width. `biased` has the meaning that it has in `slope`."""
        return slope(self.sizes, self.samples(name), biased=biased)

    def tends_to(self, name: str) -> tuple[Estimate, Estimate]:
        """The exponent of a field without the NARROW smallest widths, and the logarithm of its extrapolated limit."""
        values = self.samples(name)
        exponent = slope(self.sizes[NARROW:], values[NARROW:], biased=False)
        return exponent, leading_coefficient(self.sizes, values, 0.0).log()

    def root_mean_square(self, name: str) -> Estimate:
        """The root mean square of a field over the networks of each width, (widths,)."""
        return Estimate.exact(np.array([np.sqrt((sample**2).mean()) for sample in self.samples(name)]))

    @cached_property
    def limit(self) -> KernelRegime:
        """The exact limit at infinite width, which starts from outputs 0 and has the labels r_0."""
        return algorithm1_limit(self.problem, self.setup, self.wide.kernel(self.problem.x))

    @property
    def limit_pooled(self) -> float:
        """The value of `Measured.pooled` at infinite width."""
        t = np.arange(self.setup.rounds + 1)
        central = algorithm1_limit(*pooled(self.problem, self.setup), self.limit.gram)
        apart = np.linalg.norm(self.limit.outputs(t) - central.outputs(t), axis=1)
        return float(apart.max() / np.linalg.norm(self.problem.y))

    @property
    def limit_divergence(self) -> float:
        """The value of `Measured.divergence` at infinite width."""
        return limit_divergence(self.limit)

    def _runs(self, stack: NetworkStack, width: int, kernels: bool) -> Iterator[Trained | Measured]:
        trained, central = stack.run(self.problem, self.setup), stack.run(*pooled(self.problem, self.setup))
        rounds, norm = np.arange(self.setup.rounds + 1), np.linalg.norm(self.limit.gram)
        limit, size = self.limit.outputs(rounds), np.linalg.norm(self.problem.y)

        def farthest(run: np.ndarray, other: np.ndarray) -> float:
            return float(np.linalg.norm(run - other, axis=1).max() / size)

        between = _apart(trained.ends, trained.after).mean(axis=0)
        moved = _apart(trained.after, trained.before)
        starts, ends = (stack.kernels(params) if kernels else None for params in (stack.start, trained.after))
        for place, network in enumerate(stack.networks):
            outputs = trained.outputs[place]
            apart = Trained(
                neuron=float(between[place] / np.sqrt(width)),
                divergence=float(between[place] / moved[place]),
                pooled=farthest(outputs, central.outputs[place]),
            )
            if starts is None or ends is None:
                yield apart
                continue
            start, end = starts[place], ends[place]
            yield Measured(
                float(np.linalg.norm(start - self.limit.gram) / norm),
                farthest(outputs, network.first + limit),
                farthest(outputs, algorithm1_limit(network.problem, self.setup, start).outputs(rounds, network.first)),
                float(np.linalg.norm(end - start) / norm),
                *apart,
            )

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "network": self.network} | super().describe()


def _apart(models: Params, others: Params) -> np.ndarray:
    """For every i the distance, over all weights, of network i of `models` from network i of `others`.

    Additional leading axes of `models` are kept.
    """
    squares = [(models[name] - others[name]) ** 2 for name in others]
    kept = [square.ndim - other.ndim + 1 for square, other in zip(squares, others.values(), strict=True)]
    return np.sqrt(sum(square.flatten(axes).sum(axes).numpy() for square, axes in zip(squares, kept, strict=True)))


def pooled(problem: Problem, setup: Setup) -> tuple[Problem, Setup]:
    """All data on one client, with another step size.

    With this step size, K steps on the one client are K steps of gradient descent on the mean over clients.
    """
    alone = replace(problem, owner=np.zeros(problem.n, int))
    return alone, replace(setup, eta_local=setup.eta_local / problem.n_clients)


def rungs(network: str) -> dict[int, int]:
    """The number of networks at each width."""
    return SHALLOW if network.split(":")[1] == "2" else DEEP


@lru_cache(maxsize=8)
def deep_ladder(network: str, seed: int) -> DeepLadder:
    """The ladder on the points of a seed. A ladder is made once for each network and seed."""
    widths = rungs(network)
    return DeepLadder(equal_points(seed), SETUP, network, seed, tuple(widths), tuple(widths.values()))


def equal_points(seed: int) -> Problem:
    """Twelve points on the sphere, six on each of two clients."""
    return replace(points(12, 8, seed), owner=np.arange(12) % 2, name="sphere, n=12, d=8, N=2")


def _any_ladder(network: str) -> SearchStrategy[DeepLadder]:
    """Ladders of six networks at each width, on other points and with other steps."""
    widths = tuple(rungs(network))

    def ladder(seed: int, steps: int, eta: float) -> DeepLadder:
        setup = replace(SETUP, eta_local=eta, local_steps=steps, rounds=4)
        return DeepLadder(equal_points(seed), setup, network, seed * SPACING, widths, (6,) * len(widths))

    return st.builds(ladder, st.integers(0, 99), st.integers(2, 4), st.floats(0.1, 0.2))


def deep_ladders(*networks: str) -> tuple[Family, ...]:
    """A ladder for each of these networks, on its own points. Statements share the ladders."""
    return tuple(
        Family(
            f"sphere, n=12, d=8, N=2, {network}, widths {min(rungs(network))} to {max(rungs(network))}",
            deep_ladder,
            _any_ladder,
            (network,),
            trials=1,
            needs=20,  # this is a number of runs, not of ladders
            fixed=True,
        )
        for network in networks
    )
