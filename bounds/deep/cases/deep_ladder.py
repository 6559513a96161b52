"""Case: deep networks of several widths, trained on clients' and on pooled data, with their kernel regimes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family
from bounds.case import prepared
from bounds.deep.cases.deep_run import points
from bounds.deep.cases.network_stack import NetworkStack, regime
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.ladders.rungs import SPACING, Rungs
from bounds.ladders.slopes import slope
from ntkfl import Estimate, Problem, Setup
from ntkfl.exact_dynamics import KernelRegime

if TYPE_CHECKING:
    from ntkfl.training.models.wide_networks import WideNetwork
    from ntkfl.training.tree import Params

SHALLOW = {round(2 ** (7 + half / 2)): 12 for half in range(11)}  # width -> number of networks, of depth 2
# fewer networks at large widths: a layer has width^2 weights
DEEP = {round(2 ** (5 + half / 2)): 32 for half in range(7)} | {362: 24, 512: 20, 724: 16}
NARROW = 3  # smallest widths, at which chance moves a run by a third of its distance from the limit
FEWEST_WIDTHS = 6  # least number of widths of a second opinion
SETUP = Setup(eta_local=0.2, local_steps=3, rounds=8)
RELU, ERF = "fc:2:relu", "fc:3:erf"
LEFT = "log-log slopes over widths of the RMS over networks, trained by the engine from the residual r_0, of "
SECTION = "docs/proofs/finite_width.md#deep-networks"


class Trained(NamedTuple):
    """The measurements of the runs of one network, from the residual r_0, in T rounds of K steps."""

    # mean_c |theta_c - theta'| in the last round; `neuron` is this over sqrt m, `divergence` this over |theta' - theta|
    neuron: float
    divergence: float
    # max_t |y_m(t) - y_p(t)| / |r_0|, y_p the same network after K t steps of gradient descent on all data
    pooled: float


class Seen(NamedTuple):
    """The measurements of the runs and kernels of one network; the last three fields are those of `Trained`."""

    kernel: float  # |H(0) - H_inf| over |H_inf|
    # limit, own: max_t |y_m(t) - y(t)| / |r_0|, y(t) the regime of H_inf, of H(0)
    limit: float
    own: float
    drift: float  # |H(T) - H(0)| over |H_inf|
    neuron: float
    divergence: float
    pooled: float


@dataclass(frozen=True, eq=False)
class DeepLadder(Rungs):
    """One kind of network over widths and seeds; labels are y_m(0) + r_0 with r_0 = problem.y."""

    problem: Problem  # its clients have equal weight
    setup: Setup  # the same for every run, eta_global 1
    network: str  # as `WideNetwork.named` takes it
    seed: int
    # widths, counts, seed: as `Rungs`
    widths: tuple[int, ...]
    counts: tuple[int, ...]

    @cached_property
    def wide(self) -> WideNetwork:
        """The network before a width is chosen."""
        from ntkfl.training.models.wide_networks import WideNetwork  # torch is slow to load

        return WideNetwork.named(self.network)[0]

    @prepared
    def seen(self) -> list[list[Seen]]:
        """The measurements of every network, by width."""
        return self.in_rungs("seen", partial(self._row, kernels=True))

    @cached_property
    def trained(self) -> list[list[Trained]]:
        """The measurements of the runs of every network, by width; a second opinion needs no kernels."""
        return self.in_rungs("trained", partial(self._row, kernels=False))

    def fresh(self) -> DeepLadder:
        """Other networks, for a second opinion, without the two largest widths, which take two thirds of the time."""
        return self._other(self.counts[: max(FEWEST_WIDTHS, len(self.counts) - 2)])

    def _row(self, row: int, places: range, kernels: bool) -> Iterator[Any]:
        seeds = self.seeds(row)[places.start : places.stop]
        for stack in NetworkStack.of_seeds(self.network, self.problem, self.widths[row], seeds):
            yield from self._runs(stack, self.widths[row], kernels)

    def samples(self, name: str) -> list[np.ndarray]:
        """One field of `Seen` of every network, (networks,) for each width."""
        known = any("seen" in vars(ladder) for ladder in (self, *self.looks))
        rows = self.seen if known or name not in Trained._fields else self.trained
        return [np.array([getattr(run, name) for run in row]) for row in rows]

    def exponent(self, name: str, biased: bool = False) -> Estimate:
        """The exponent of a field in the width; `biased` as in `slope`."""
        return slope(self.sizes, self.samples(name), biased=biased)

    def tends_to(self, name: str) -> tuple[Estimate, Estimate]:
        """The exponent of a field at all but the NARROW least widths, and the logarithm of its limit, extrapolated."""
        values = self.samples(name)
        exponent = slope(self.sizes[NARROW:], values[NARROW:], biased=False)
        return exponent, leading_coefficient(self.sizes, values, 0.0).log()

    def root_mean_square(self, name: str) -> Estimate:
        """The root mean square of a field over the networks of each width, (widths,)."""
        return Estimate.exact(np.array([np.sqrt((sample**2).mean()) for sample in self.samples(name)]))

    @cached_property
    def limit(self) -> KernelRegime:
        """The exact limit, from outputs 0; its labels are r_0."""
        return regime(self.problem, self.setup, self.wide.kernel(self.problem.x))

    @property
    def limit_pooled(self) -> float:
        """`Seen.pooled` at infinite width."""
        t, central = np.arange(self.setup.rounds + 1), regime(*pooled(self.problem, self.setup), self.limit.gram)
        apart = np.linalg.norm(self.limit.outputs(t) - central.outputs(t), axis=1)
        return float(apart.max() / np.linalg.norm(self.problem.y))

    @property
    def limit_divergence(self) -> float:
        """`Seen.divergence` at infinite width: clients move by J' P_c r_c."""
        regime, clients = self.limit, self.problem.n_clients
        last = regime.residual(self.setup.rounds - 1)
        moved = regime.blocks.apply(regime.blocks.response(), last[:, None])[:, 0]

        def size(c: np.ndarray) -> float:
            return float(np.sqrt(c @ regime.gram @ c))

        apart = [size(np.where(self.problem.owner == c, moved, 0) - moved / clients) for c in range(clients)]
        return float(np.mean(apart)) / size(moved / clients)

    def _runs(self, stack: NetworkStack, width: int, kernels: bool) -> Iterator[Trained | Seen]:
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
            yield Seen(
                float(np.linalg.norm(start - self.limit.gram) / norm),
                farthest(outputs, network.first + limit),
                farthest(outputs, regime(network.problem, self.setup, start).outputs(rounds, network.first)),
                float(np.linalg.norm(end - start) / norm),
                *apart,
            )

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "network": self.network} | super().describe()


def _apart(models: Params, others: Params) -> np.ndarray:
    """The distance of each network from another, over all weights; leading axes of `models` are kept."""
    squares = [(models[name] - others[name]) ** 2 for name in others]
    kept = [square.ndim - other.ndim + 1 for square, other in zip(squares, others.values(), strict=True)]
    return np.sqrt(sum(square.flatten(axes).sum(axes).numpy() for square, axes in zip(squares, kept, strict=True)))


def pooled(problem: Problem, setup: Setup) -> tuple[Problem, Setup]:
    """All data on one client, with the step that makes its K steps gradient descent on the mean over clients."""
    alone = replace(problem, owner=np.zeros(problem.n, int))
    return alone, replace(setup, eta_local=setup.eta_local / problem.n_clients)


def rungs(network: str) -> dict[int, int]:
    """The number of networks at each width."""
    return SHALLOW if network.split(":")[1] == "2" else DEEP


@lru_cache(maxsize=8)
def deep_ladder(network: str, seed: int) -> DeepLadder:
    """The ladder on the points of a seed, made once."""
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
    """A ladder for each of these networks, on its own points; statements share the ladders."""
    return tuple(
        Family(
            f"sphere, n=12, d=8, N=2, {network}, widths {min(rungs(network))} to {max(rungs(network))}",
            deep_ladder,
            _any_ladder,
            (network,),
            trials=1,
            needs=20,  # a number of runs, not of ladders
            fixed=True,
        )
        for network in networks
    )
