"""A small smooth network on a few samples, as torch computes it, with one vector of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bounds.case import Case
from ntkfl import networks
from ntkfl.problem import Problem
from ntkfl.smooth_networks.window import Rounds, Window

if TYPE_CHECKING:  # torch is slow to load, so it is loaded when a case runs
    from torch import Tensor

    from ntkfl.training.model import Model

ROUNDING = 1e-13  # float64 error of a distance over the parameters' norm; tested


@dataclass(frozen=True, eq=False)
class SmallNetwork(Case):
    """The network of a seed, and labels near its outputs."""

    problem: Problem
    spec: str  # name of the network, as `ntkfl.networks.wide` takes it
    width: int
    seed: int

    @cached_property
    def model(self) -> Model:
        """The network as torch computes it."""
        return networks.wide(self.spec).model((self.problem.d,), self.width)

    @cached_property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters at which training begins."""
        return self.model.initial(self.seed)

    @cached_property
    def start(self) -> Tensor:
        """All parameters in one vector."""
        import torch

        return torch.cat([value.reshape(-1) for value in self.params.values()])

    def outputs(self, theta: Tensor, samples: np.ndarray) -> Tensor:
        """f(x) on these samples."""
        import torch

        return self.model.outputs(self._named(theta), torch.tensor(self.problem.x[samples]))

    def residuals(self, theta: Tensor, samples: np.ndarray) -> Tensor:
        """y - f(x) on these samples."""
        import torch

        return torch.tensor(self.problem.y[samples]) - self.outputs(theta, samples)

    def jacobian(self, theta: Tensor, samples: np.ndarray) -> Tensor:
        """The Jacobian of the outputs on these samples, by a backward pass for each sample."""
        import torch

        with torch.enable_grad():
            at = theta.detach().requires_grad_()
            outputs = -self.residuals(at, samples)
            rows = [torch.autograd.grad(output, at, retain_graph=True)[0] for output in outputs]
        return torch.stack(rows) if rows else theta.new_zeros(0, len(theta))

    def gradient(self, theta: Tensor, samples: np.ndarray) -> Tensor:
        """The gradient of half the sum of squares on these samples."""
        import torch

        with torch.enable_grad():
            at = theta.detach().requires_grad_()
            return torch.autograd.grad((self.residuals(at, samples) ** 2).sum() / 2, at)[0]

    def _named(self, theta: Tensor) -> dict[str, Tensor]:
        sizes = [value.numel() for value in self.params.values()]
        parts = zip(self.params.items(), theta.split(sizes), strict=True)
        return {name: part.reshape(value.shape) for (name, value), part in parts}


def claimed_radius(ball: float | None, proved: Window | Rounds | None, why: str) -> float:
    """The radius `ball` of the case, else the certified radius.

    Raises:
        ArithmeticError: there is neither; `why` says why nothing is certified.
    """
    if ball:
        return ball
    if proved is None:
        raise ArithmeticError(why)
    return proved.ball


def unit_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Random inputs of length 1, (n, d)."""
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def with_outputs(spec: str, x: np.ndarray, width: int, seed: int, wanted: np.ndarray) -> dict[str, Tensor]:
    """The parameters of a seed, with the least change of the readout that gives the outputs `wanted`, (n,)."""
    import torch

    params, outputs, j = at_start(spec, x, width, seed)
    readout = params["readout.weight"]
    change = np.linalg.lstsq(j[:, -readout.numel() :], wanted - outputs, rcond=None)[0]
    return {**params, "readout.weight": readout + torch.tensor(change).reshape(readout.shape)}


def at_start(spec: str, x: np.ndarray, width: int, seed: int) -> tuple[Mapping[str, Tensor], np.ndarray, np.ndarray]:
    """The parameters of a seed, the outputs (n,) and their Jacobian."""
    import torch

    model = networks.wide(spec).model((x.shape[1],), width)
    params, inputs = model.initial(seed), torch.tensor(x)
    return params, model.outputs(params, inputs).numpy(), model.jacobian(params, inputs)[:, 0].numpy()
