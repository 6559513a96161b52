"""A network at its initial weights, and the problem on which it starts with given residuals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ntkfl import gram, kernel_regime
from ntkfl.exact_dynamics import KernelRegime, UnstableSteps
from ntkfl.problem import Problem, Setup

if TYPE_CHECKING:
    from ntkfl.training.model import Model
    from ntkfl.training.tree import Params


@dataclass(frozen=True, eq=False)
class StartedNetwork:
    """A network f at its initial weights; f(theta(0), x) need not be 0."""

    residuals: Problem  # data whose labels are r_0 = y - y_m(0), (n,)
    # network, start: as the engine trains it
    network: Model
    start: Params

    @classmethod
    def named(cls, spec: str, residuals: Problem, width: int | None, seed: int) -> StartedNetwork:
        """The network of this name, width and seed."""
        from ntkfl.training.models.wide_networks import WideNetwork  # torch is slow to load

        wide, own = WideNetwork.named(spec)
        chosen = width or own
        assert chosen is not None, "networks of cases name their width"
        network = wide.model((residuals.d,), chosen)
        return cls(residuals, network, network.initial(seed))

    @cached_property
    def first(self) -> np.ndarray:
        """y_m(0), (n,)."""
        return self.outputs(self.start)

    @cached_property
    def problem(self) -> Problem:
        """The data with labels y_m(0) + r_0."""
        return replace(self.residuals, y=self.first + self.residuals.y, x_test=None, y_test=None)

    def outputs(self, params: Params) -> np.ndarray:
        """f(theta, x), (n,)."""
        import torch

        return self.network.outputs(params, torch.tensor(np.array(self.residuals.x))).numpy()

    def kernel(self, params: Params) -> np.ndarray:
        """J(theta, x) J(theta, x)^T, (n, n)."""
        return gram.empirical(self.residuals.x, self.network, params)


def regime(problem: Problem, setup: Setup, matrix: np.ndarray) -> KernelRegime:
    """The kernel regime of a kernel, without warnings about its steps."""
    with warnings.catch_warnings(action="ignore", category=UnstableSteps):
        return kernel_regime(problem, setup, matrix)
