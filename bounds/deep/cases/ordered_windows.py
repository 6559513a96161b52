"""The case of training from a checkpoint of a smooth network, with samples in random order or in order of residuals.

Training consists of windows. In a window every sample is used in at least one step, unless the case leaves one out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.deep.cases.federated_rounds import ROUNDING, SmallNetwork, at_start, claimed_radius, unit_rows, with_outputs
from ntkfl import NetworkCertificate, Problem, certify_network, interruption, networks
from ntkfl.any_order.targets import nearest_in_box
from ntkfl.limit.convex_loss import HINGE, SQUARES, ConvexLoss, band, huber
from ntkfl.smooth_networks.certificate import HALVINGS
from ntkfl.smooth_networks.window import Failed, Start, Window, in_ball, largest_step, needed_residual

if TYPE_CHECKING:  # torch loads slowly, so it is loaded when a case runs
    from torch import Tensor

Order = Literal["random", "largest", "smallest"]
ORDERS: tuple[Order, ...] = ("random", "largest", "smallest")
SPECS = "fc:3:erf", "fc:2:gelu", "fc:3:gelu:bias=0.2", "fc:4:erf", "fc:3:erf:standard"
WINDOWS, NEWTON = 4, 6
OFTEN = 20  # number of steps in a window that use the sample that `uneven_case` repeats
LOSSES = HINGE, band(0.2), huber(0.05)
# For an output f inside its loss's interval of minimisers: |f| - |y|, divided by the smaller one of the interval's
# length and 1
INSIDE = 0.4


@dataclass(frozen=True, eq=False)
class WindowedRun:
    """The measurements of W windows."""

    distance: np.ndarray  # the distances to the nearest fit, before the first window and after each window, (W+1,)
    moved: float  # largest distance of a model from the checkpoint
    farthest: float  # the largest distance of an output from the minimisers of its loss, at any step
    rounding: float  # a bound on the rounding error of each distance


@dataclass(frozen=True, eq=False)
class OrderedWindows(SmallNetwork):
    """A smooth network and some windows of steps on batches of any sizes.

    One model is trained, or two models are trained, which are averaged after each window.
    """

    order: Order  # the order of the samples in a window
    clients: int = 1  # number of models that train until they are averaged, each on its part of the samples
    ball: float | None = None  # the radius in which the claim is made; None: the radius of the certificate
    # factors of the step sizes (`longer`) and of the server's step (`server`); a factor above 1 breaks a hypothesis
    longer: float = 1.0
    server: float = 1.0
    left_out: bool = False  # whether one sample is never used
    # if above 1: in a window, the first sample's summed step sizes / the last sample's summed step sizes
    uneven: float = 1.0
    loss: ConvexLoss = SQUARES
    wanted: np.ndarray | None = None  # outputs, (n,), that a change of the readout produces; None: no change

    @cached_property
    def params(self) -> Mapping[str, Tensor]:
        """The parameters at which training begins."""
        if self.wanted is None:
            return self.model.initial(self.seed)
        return with_outputs(self.spec, self.problem.x, self.width, self.seed, self.wanted)

    @cached_property
    def certificate(self) -> NetworkCertificate:
        """The certificate of the network, made before these windows."""
        return certify_network(networks.wide(self.spec), self.params, self.problem, loss=self.loss)

    @property
    def known(self) -> Start:
        """The bounds at the checkpoint. For losses other than squares they include the intervals of minimisers."""
        return replace(self.certificate.start, intervals=self.loss is not SQUARES)

    @cached_property
    def proved(self) -> Window | str:
        """What is proved about windows that use every sample once, or the reason why nothing is proved."""
        if self.known.intervals == self.certificate.start.intervals:
            return self.certificate.window or self.certificate.why
        return largest_step(self.known, float(self.certificate.residual.hi), 1.0, HALVINGS)

    @property
    def radius(self) -> float:
        """rho, the radius of the ball in the proof, unless another radius is given."""
        return claimed_radius(self.ball, self.proved if isinstance(self.proved, Window) else None, str(self.proved))

    @property
    def step(self) -> float:
        """eta of the claim, which is the certified step; if nothing is certified, it is 1 / lambda_max(J J')."""
        return self.proved.step if isinstance(self.proved, Window) else 1 / self.known.largest

    @cached_property
    def judged(self) -> Window | Failed | str:
        """The result of the theorem's inequalities in the ball in which the claim is made."""
        if self.ball is None:
            return self.proved
        return in_ball(self.known, float(self.certificate.residual.hi), self.step, 1.0, self.ball)

    @property
    def least(self) -> float:
        """eta', the least value over the samples of the sum of a sample's step sizes in a window."""
        return self.step * (OFTEN / self.uneven if self.uneven > 1 else 1.0)

    @property
    def share(self) -> float:
        """p, the weight of a model in a mean."""
        return 1 / self.clients

    @cached_property
    def run(self) -> WindowedRun:
        """The run of the windows, by torch in float64."""
        import torch

        rng, samples = np.random.default_rng([self.seed, 3]), np.arange(self.problem.n - self.left_out)
        start = theta = self.start
        distance, moved, farthest = [self._to_fit(theta)], [0.0], 0.0
        for _ in range(WINDOWS):
            parts = np.array_split(samples, self.clients)
            ends, off = zip(*(self._visited(theta, part, rng) for part in parts), strict=True)
            farthest = max(farthest, *off)
            moved += [float((end - start).norm()) for end in ends]
            theta = theta + self.server * (torch.stack(ends).mean(0) - theta)
            moved.append(float((theta - start).norm()))
            distance.append(self._to_fit(theta))
        return WindowedRun(np.array(distance), max(moved), farthest, ROUNDING * float(start.norm()))

    def _ends(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the intervals in which the losses of these samples are minimal."""
        assert self.loss.minimisers is not None
        return self.loss.minimisers(self.problem.y[samples])

    def _visited(self, theta: Tensor, samples: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, float]:
        """The model after steps that use each of these samples once.

        The second value is the largest distance of an output from the minimisers of its loss.
        """
        farthest = 0.0
        left, size = list(samples), int(rng.integers(1, len(samples) + 1))
        for _ in range(OFTEN - 1 if self.uneven > 1 else 0):
            theta = self._stepped(theta, samples[:1])
        while left:
            interruption.check()
            members = np.array(left)
            f = self.outputs(theta, members).numpy()
            pulls = -self.loss.slope(f, self.problem.y[members])
            farthest = max(farthest, float(np.abs(np.clip(f, *self._ends(members)) - f).max()))
            by = {"random": rng.permutation(len(left)), "largest": np.argsort(-np.abs(pulls))}
            batch = members[by.get(self.order, by["largest"][::-1])[:size]]
            theta = self._stepped(theta, batch)
            left = [i for i in left if i not in batch]
        return theta, farthest

    def _stepped(self, theta: Tensor, batch: np.ndarray) -> Tensor:
        """The model after a step on these samples."""
        import torch

        last = (batch == self.problem.n - 1) & (self.uneven > 1)
        steps = np.where(last, self.least, self.longer * self.step)
        with torch.enable_grad():
            at = theta.detach().requires_grad_()
            outputs = self.outputs(at, batch)
            slope = self.loss.slope(outputs.detach().numpy(), self.problem.y[batch])
            return theta - torch.autograd.grad(outputs @ torch.tensor(steps * slope), at)[0]

    def _to_fit(self, theta: Tensor) -> float:
        """The distance |theta - theta*| to a fit theta*, computed by Newton steps.

        theta* - theta is a combination of the gradients of the `kept` outputs.
        """
        import torch

        kept, at = self.certificate.kept, theta
        low, high = self._ends(kept)
        for _ in range(NEWTON):
            j = self.jacobian(at, kept)
            kernel, here = j @ j.T, (self.outputs(at, kept) - j @ (at - theta)).numpy()
            change = torch.tensor(nearest_in_box(kernel.numpy(), low - here, high - here))
            last, at = at, theta + j.T @ torch.linalg.solve(kernel, change)
            if (at - last).norm() <= ROUNDING / 10 * theta.norm():
                break
        return float((at - theta).norm())

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        return {"network": self.spec, "m": self.width, "n": self.problem.n, "order": self.order, "N": self.clients} | (
            {} if self.loss is SQUARES else {"loss": self.loss.name}
        )


def small_case(
    seed: int, residual: float, spec: str, width: int, order: Order, clients: int = 1, **broken: Any
) -> OrderedWindows:
    """Two to four samples, with a residual along the slowest direction of the kernel.

    The length of the residual is `residual` times the certifiable length.
    """
    rng = np.random.default_rng([seed, 17])
    x = unit_rows(rng, int(rng.integers(2, 5)), 4)
    params, outputs, j = at_start(spec, x, width, seed)
    slowest = np.linalg.eigh(j @ j.T)[1][:, 0]
    far = certify_network(networks.wide(spec), params, Problem(x, outputs + 1))
    size = residual * (far.needed_residual or 0.0)
    problem = Problem(x, outputs + size * slowest, name="small smooth networks in windows")
    return OrderedWindows(problem, spec, width, seed, order, clients, **broken)


def loss_case(
    seed: int,
    residual: float,
    spec: str,
    width: int,
    order: Order,
    clients: int = 1,
    loss: ConvexLoss = HINGE,
    **broken: Any,
) -> OrderedWindows:
    """Three or four samples with labels +-1. Some outputs miss the minimisers of their losses.

    If the minimisers are an interval, an output may instead be well inside it. A change of the readout produces these
    outputs. The vector of the distances to the minimisers has `residual` times the certifiable length. This vector is
    along the slowest direction of the kernel of the outputs that miss, except for signs that the loss does not allow.
    """
    import torch

    rng = np.random.default_rng([seed, 19])
    n = int(rng.integers(3, 5))
    x, y = unit_rows(rng, n, 4), rng.choice([-1.0, 1.0], n)
    problem, network = Problem(x, y, name="small smooth networks in windows, other losses"), networks.wide(spec)
    assert loss.minimisers is not None
    low, high = loss.minimisers(y)
    inside = (rng.random(n) < 0.4) & (low < high)
    inside[-1] = False
    params = with_outputs(spec, x, width, seed, np.where(y > 0, low, high))
    j = network.model((4,), width).jacobian(params, torch.tensor(x[~inside]))[:, 0].numpy()
    pulls = np.linalg.eigh(j @ j.T)[1][:, 0]
    upper = np.isfinite(high)[~inside] & ((pulls < 0) | np.isinf(low)[~inside])
    start = certify_network(network, params, problem, loss=loss).start
    size = residual * needed_residual(replace(start, intervals=True), 1.0, None, HALVINGS, 1.0)
    wanted = y * (1 + INSIDE * np.minimum(high - low, 1))
    wanted[~inside] = np.where(upper, high[~inside], low[~inside]) + np.where(upper, 1, -1) * size * np.abs(pulls)
    return OrderedWindows(problem, spec, width, seed, order, clients, loss=loss, wanted=wanted, **broken)


def uneven_case(seed: int, spec: str, width: int, loss: ConvexLoss = SQUARES, inside: float = 0.0) -> OrderedWindows:
    """Two samples, of which the first is used far more often than the second.

    Steps on the first sample alone lead away from the models that fit both samples. The gradient of the first sample
    leads to models that fit this sample. From such a model to the nearest fit of both samples it is about as far as
    from the checkpoint to the nearest fit of both samples. Only second derivatives decide which of these two distances
    is smaller. `inside` is how far each label lies inside its interval of minimisers, measured from an end.
    """
    import torch

    x = unit_rows(np.random.default_rng([seed, 23]), 2, 4)
    params, outputs, j = at_start(spec, x, width, seed)
    needed = certify_network(networks.wide(spec), params, Problem(x, outputs + 1)).needed_residual or 0.0
    across = j[1] - (j[0] @ j[1]) / (j[0] @ j[0]) * j[0]
    way, drawn = (
        0.5 * needed / (across @ across) * across,
        OrderedWindows(Problem(x, outputs), spec, width, seed, "random"),
    )
    ends = [drawn.outputs(drawn.start + torch.tensor(part * way), np.arange(2)).numpy() for part in (1.0, -1.0)]
    # The end is chosen so that the first sample's Lagrange multiplier, in the problem of the nearest fit, has the sign
    # of its loss's negative slope. Then the nearest fit is at the end of the interval.
    wanted = ends[int((ends[0] - outputs)[0] * (j[0] @ j[1]) > 0)]
    y = wanted + inside * np.sign(wanted - outputs)
    return OrderedWindows(Problem(x, y), spec, width, seed, "random", loss=loss, uneven=1e9)


def _small(seed: int) -> OrderedWindows:
    spec = SPECS[seed % len(SPECS)]
    return small_case(seed, (0.9, 0.3, 0.05)[seed % 3], spec, 40, ORDERS[seed // 2 % 3], 1 + seed % 2)


def _small_with_loss(seed: int) -> OrderedWindows:
    spec, share = SPECS[seed % len(SPECS)], (0.05, 0.7, 0.3)[seed // 3 % 3]
    return loss_case(seed, share, spec, 40, ORDERS[seed // 2 % 3], 1 + seed % 2, LOSSES[seed % 3])


ANY_SMALL = st.builds(
    small_case,
    st.integers(0, 2**31),
    st.floats(0.01, 0.95),
    st.sampled_from(SPECS),
    st.integers(8, 40),
    st.sampled_from(ORDERS),
    st.integers(1, 2),
)
ANY_LOSS = st.builds(
    loss_case,
    st.integers(0, 2**31),
    st.floats(0.01, 0.8),
    st.sampled_from(SPECS),
    st.integers(8, 40),
    st.sampled_from(ORDERS),
    st.integers(1, 2),
    st.sampled_from(LOSSES),
)
OTHER_LOSSES = Family("small smooth networks in windows, other losses", _small_with_loss, ANY_LOSS)
SMALL_NETWORKS = Family("small smooth networks in windows", _small, ANY_SMALL)
