"""Networks of one shape at their initial weights, which the engine trains side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ntkfl import Problem, Setup, gram

if TYPE_CHECKING:
    from ntkfl.training.model import Model
    from ntkfl.training.models.wide_networks import WideNetwork
    from ntkfl.training.tree import Params


@dataclass(frozen=True, eq=False)
class StartedNetwork:
    """A network f at its initial weights; f(theta(0), x) need not be 0."""

    residuals: Problem  # data whose labels are r_0 = y - y_m(0), (n,)
    # the network and its weights in the form in which the engine trains them
    network: Model
    start: Params

    @classmethod
    def named(cls, spec: str, residuals: Problem, width: int | None, seed: int) -> StartedNetwork:
        """The network of this name, width and seed."""
        from ntkfl.training.models.wide_networks import WideNetwork  # here, since torch loads slowly

        wide, own = WideNetwork.named(spec)
        chosen = width or own
        assert chosen is not None, "networks of cases name their width"
        network = wide.model((residuals.d,), chosen)
        return cls(residuals, network, network.initial(seed))

    @cached_property
    def first(self) -> np.ndarray:
        """y_m(0), the outputs at the start, (n,)."""
        return self.outputs(self.start)

    @cached_property
    def problem(self) -> Problem:
        """The data with labels y_m(0) + r_0."""
        return replace(self.residuals, y=self.first + self.residuals.y, x_test=None, y_test=None)

    def outputs(self, params: Params) -> np.ndarray:
        """f(theta, x), the outputs, (n,)."""
        import torch

        return self.network.outputs(params, torch.tensor(np.array(self.residuals.x))).numpy()

    def kernel(self, params: Params) -> np.ndarray:
        """J(theta, x) J(theta, x)^T, (n, n)."""
        return gram.empirical(self.residuals.x, self.network, params)


STACKED = 2**19  # largest number of weights of a stack, over all clients; these 4 MiB fit into a processor's cache


@dataclass(frozen=True, eq=False)
class StackRun:
    """A run of Algorithm 1 on every network of a stack.

    The first axis of the weights `before` and `after` is over networks. The first axis of `ends` is over clients.
    """

    outputs: np.ndarray  # the outputs after rounds 0..T, (networks, T + 1, n)
    before: Params  # the weights before the last round
    after: Params
    ends: Params  # the clients' own models at the end of the last round


@dataclass(frozen=True, eq=False)
class NetworkStack:
    """Networks that differ only in their initial weights and start with the same residuals."""

    networks: Sequence[StartedNetwork]
    wide: WideNetwork  # the kind of all networks
    width: int

    @classmethod
    def of_seeds(cls, spec: str, residuals: Problem, width: int, seeds: Sequence[int]) -> Iterator[NetworkStack]:
        """The networks of these seeds, in stacks whose size is the fastest to train."""
        from ntkfl.training.models.wide_networks import WideNetwork  # here, since torch loads slowly

        wide, _ = WideNetwork.named(spec)
        networks = [StartedNetwork.named(spec, residuals, width, seed) for seed in seeds]
        numbers = sum(value.numel() for value in networks[0].start.values()) * residuals.n_clients
        most = max(1, STACKED // numbers)
        return (cls(networks[first : first + most], wide, width) for first in range(0, len(networks), most))

    @cached_property
    def model(self) -> Model:
        """All networks as one model, which has an output for each network."""
        from ntkfl.training.wide_training import side_by_side  # here, since torch loads slowly

        return side_by_side(self.networks[0].network, len(self.networks))

    @cached_property
    def start(self) -> Params:
        """The initial weights of all networks, stacked along a first axis."""
        from ntkfl.training.tree import stacked  # here, since torch loads slowly

        return stacked([network.start for network in self.networks])

    def kernels(self, params: Params) -> np.ndarray:
        """J(theta, x) J(theta, x)^T of every network, (networks, n, n). The first axis of `params` is over networks."""
        import torch

        return self.wide.kernels(params, torch.tensor(np.array(self.networks[0].residuals.x)), self.width).numpy()

    def run(self, layout: Problem, setup: Setup) -> StackRun:
        """Train every network on its own labels y_m(0) + r_0. `layout` says which client has which sample."""
        import torch

        from ntkfl.training.wide_training import network_federation

        labels = np.stack([network.problem.y for network in self.networks], axis=1)
        run = network_federation(replace(layout, y=labels, x_test=None, y_test=None), setup, self.model)
        x = torch.tensor(np.array(layout.x))
        state = run.start(self.start)
        outputs = [np.stack([network.first for network in self.networks], axis=1)]
        for number in range(1, setup.rounds + 1):
            before, last = state.model, run.round(state, keep_ends=number == setup.rounds)
            state = last.state
            outputs.append(self.model.outputs(state.model, x).numpy())
        assert last.ends is not None
        return StackRun(np.array(outputs).transpose(2, 0, 1), before, state.model, last.ends)
