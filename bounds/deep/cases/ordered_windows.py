"""Cases: windows of training, in an order that is random or by the residuals, from a checkpoint of a smooth network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.deep.cases.small_network import ROUNDING, SmallNetwork, at_start, claimed_radius, unit_rows
from ntkfl import interruption, networks
from ntkfl.problem import Problem
from ntkfl.smooth_networks import NetworkCertificate, certify_network
from ntkfl.smooth_networks.window import Failed, Window, in_ball

if TYPE_CHECKING:  # torch is slow to load, so it is loaded when a case runs
    from torch import Tensor

Order = Literal["random", "largest", "smallest"]
ORDERS: tuple[Order, ...] = ("random", "largest", "smallest")
SPECS = "fc:3:erf", "fc:2:gelu", "fc:3:gelu:bias=0.2", "fc:4:erf", "fc:3:erf:standard"
WINDOWS, NEWTON = 4, 6


@dataclass(frozen=True, eq=False)
class WindowedRun:
    """The measurements of W windows."""

    distance: np.ndarray  # to the nearest fit, before the first window and after each, (W+1,)
    moved: float  # how far any model was from the first
    rounding: float  # rounding of each distance


@dataclass(frozen=True, eq=False)
class OrderedWindows(SmallNetwork):
    """A smooth network, and some windows: batches of any sizes, by one model or by two whose mean is taken."""

    order: Order  # which samples come first in a window
    clients: int = 1  # models that train between means, each on its part of the samples
    ball: float | None = None  # the radius in which the claim is made; None: the certificate's
    longer: float = 1.0  # factors of the steps and of the server's step; above 1 they break the hypotheses
    server: float = 1.0
    left_out: bool = False  # whether a sample is never visited

    @cached_property
    def found(self) -> NetworkCertificate:
        """The certificate of the network before these windows."""
        return certify_network(networks.wide(self.spec), self.params, self.problem)

    @property
    def radius(self) -> float:
        """rho: the certificate's unless another is given."""
        return claimed_radius(self.ball, self.found.window, self.found.why)

    @property
    def step(self) -> float:
        """eta of the claim: the certificate's; if nothing is certified, 1 / lambda_max(J J')."""
        return self.found.step_limit or 1 / self.found.start.largest

    @property
    def judged(self) -> Window | Failed:
        """Whether the inequalities hold in the ball of the claim."""
        if self.ball is None and self.found.window is None:
            return Failed(self.found.why)
        return in_ball(self.found.start, float(self.found.residual.hi), self.step, 1.0, self.radius)

    @property
    def share(self) -> float:
        """p, the weight of a model in a mean."""
        return 1 / self.clients

    @cached_property
    def run(self) -> WindowedRun:
        """The windows, by torch in float64."""
        import torch

        rng, samples = np.random.default_rng([self.seed, 3]), np.arange(self.problem.n - self.left_out)
        start = theta = self.start
        distance, moved = [self._to_fit(theta)], [0.0]
        for _ in range(WINDOWS):
            parts = np.array_split(samples, self.clients)
            ends = [self._visited(theta, part, rng) for part in parts]
            moved += [float((end - start).norm()) for end in ends]
            theta = theta + self.server * (torch.stack(ends).mean(0) - theta)
            moved.append(float((theta - start).norm()))
            distance.append(self._to_fit(theta))
        return WindowedRun(np.array(distance), max(moved), ROUNDING * float(start.norm()))

    def _visited(self, theta: Tensor, samples: np.ndarray, rng: np.random.Generator) -> Tensor:
        """The model after steps that visit each of these samples once."""
        import torch

        left, size = list(samples), int(rng.integers(1, len(samples) + 1))
        while left:
            interruption.check()
            residual = self.residuals(theta, np.array(left))
            by = {"random": rng.permutation(len(left)), "largest": np.argsort(-np.abs(residual.numpy()))}
            chosen = by.get(self.order, by["largest"][::-1])[:size]
            batch = np.array(left)[chosen]
            pull = residual[torch.tensor(chosen.copy())]
            theta = theta + self.longer * self.step * self.jacobian(theta, batch).T @ pull
            left = [i for i in left if i not in batch]
        return theta

    def _to_fit(self, theta: Tensor) -> float:
        """|theta - theta*|, theta* a fit whose difference to theta is in the span of the gradients there (Newton)."""
        import torch

        everything, at = np.arange(self.problem.n), theta
        for _ in range(NEWTON):
            j = self.jacobian(at, everything)
            off = self.residuals(at, everything) + j @ (at - theta)
            at = theta + j.T @ torch.linalg.solve(j @ j.T, off)
        return float((at - theta).norm())

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"network": self.spec, "m": self.width, "n": self.problem.n, "order": self.order, "N": self.clients}


def small_case(
    seed: int, residual: float, spec: str, width: int, order: Order, clients: int = 1, **broken: Any
) -> OrderedWindows:
    """Two to four samples; the residual, along the slowest direction of the kernel, is so many times the one needed."""
    rng = np.random.default_rng([seed, 17])
    x = unit_rows(rng, int(rng.integers(2, 5)), 4)
    params, outputs, j = at_start(spec, x, width, seed)
    slowest = np.linalg.eigh(j @ j.T)[1][:, 0]
    far = certify_network(networks.wide(spec), params, Problem(x, outputs + 1))
    size = residual * (far.needed_residual or 0.0)
    problem = Problem(x, outputs + size * slowest, name="small smooth networks in windows")
    return OrderedWindows(problem, spec, width, seed, order, clients, **broken)


def _small(seed: int) -> OrderedWindows:
    spec = SPECS[seed % len(SPECS)]
    return small_case(seed, (0.9, 0.3, 0.05)[seed % 3], spec, 40, ORDERS[seed // 2 % 3], 1 + seed % 2)


ANY_SMALL = st.builds(
    small_case,
    st.integers(0, 2**31),
    st.floats(0.01, 0.95),
    st.sampled_from(SPECS),
    st.integers(8, 40),
    st.sampled_from(ORDERS),
    st.integers(1, 2),
)
SMALL_NETWORKS = Family("small smooth networks in windows", _small, ANY_SMALL)
