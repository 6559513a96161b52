"""The case of full rounds of federated averaging from a checkpoint of a smooth network, for any client weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from bounds import Case, Family
from ntkfl import Problem, RoundsCertificate, Setup, certify_rounds, networks
from ntkfl.smooth_networks.rounds import RoundStart, inequalities
from ntkfl.smooth_networks.window import Failed, Rounds, Window

if TYPE_CHECKING:
    from torch import Tensor

    from ntkfl.training.model import Model


ROUNDING = 1e-13  # the float64 error of a distance, divided by the norm of the parameters; a test checks it


@dataclass(frozen=True, eq=False)
class SmallNetwork(Case):
    """The network of a seed, with labels near its outputs."""

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
        """The outputs f(x) on these samples."""
        import torch

        return self.model.outputs(self._named(theta), torch.tensor(self.problem.x[samples]))

    def residuals(self, theta: Tensor, samples: np.ndarray) -> Tensor:
        """The residuals y - f(x) on these samples."""
        import torch

        return torch.tensor(self.problem.y[samples]) - self.outputs(theta, samples)

    def jacobian(self, theta: Tensor, samples: np.ndarray) -> Tensor:
        """The Jacobian of the outputs on these samples, computed by a backward pass for each sample."""
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
    """The radius `ball` of the case; if it is None, the certified radius.

    Raises:
        ArithmeticError: both are None; `why` says why nothing is certified.
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
    """The parameters of a seed, with the smallest change of the readout that gives the outputs `wanted`, (n,)."""
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


SPECS = "fc:3:erf", "fc:2:gelu", "fc:3:gelu:bias=0.2", "fc:3:erf:standard"
OWNER = np.array([0, 1, 1])
ROUNDS = 12
LOST = 1e-13  # the float64 error of an output in a round; a test checks it


@dataclass(frozen=True, eq=False)
class RoundsRun:
    """The measurements of ROUNDS rounds."""

    size: np.ndarray  # phi, the size of the residuals, before the first round and after each round
    moved: float  # largest distance of a model of the server or a client from the checkpoint
    # the float64 errors of each phi, and of `moved`
    size_off: float
    moved_off: float


@dataclass(frozen=True, eq=False)
class FederatedRounds(SmallNetwork):
    """A smooth network, two clients with weights, and rounds of federated averaging."""

    setup: Setup  # the step sizes and steps that are certified
    shares: tuple[float, ...]
    ball: float | None = None  # the radius in which the claim is made; None: the radius of the certificate
    # local steps (`longer`) and server step (`farther`) of the run, divided by the steps of the certificate
    longer: float = 1.0
    farther: float = 1.0
    absent: bool = False  # whether the second client never takes part

    @cached_property
    def certificate(self) -> RoundsCertificate:
        """The certificate of the network, made before these rounds."""
        return certify_rounds(networks.wide(self.spec), self.params, self.problem, self.setup, shares=self.shares)

    @property
    def known(self) -> RoundStart:
        """The certificate's bounds on the network at the first round.

        Raises:
            ArithmeticError: nothing is certified.
        """
        if not isinstance(self.certificate.start, RoundStart):
            raise ArithmeticError(self.certificate.why)
        return self.certificate.start

    @property
    def radius(self) -> float:
        """rho, which is the radius of the certificate unless another is given."""
        return claimed_radius(self.ball, self.certificate.rounds, self.certificate.why)

    @property
    def turn(self) -> float:
        """L_J: |J(t) - J(t')| is at most L_J |t - t'| for any parameters t and t' in the ball of radius rho."""
        return self.certificate._curvature.of_all(self.radius)

    @property
    def judged(self) -> Rounds | Failed:
        """The result of the theorem's inequalities in the ball in which the claim is made."""
        if self.ball is None and self.certificate.rounds is None:
            return Failed(self.certificate.why)
        return inequalities(self.known, self.turn, self.radius)

    @cached_property
    def run(self) -> RoundsRun:
        """The run of the rounds, by torch in float64."""
        theta, sizes, moved = self.start, [self._size(self.start)], 0.0
        eta, server = self.longer * self.setup.eta_local, self.farther * self.setup.eta_global
        for _ in range(ROUNDS):
            total = 0 * theta
            for client, share in enumerate(self.shares):
                mine, at = np.flatnonzero(self.problem.owner == client), theta
                for _ in range(0 if self.absent and client else self.setup.local_steps):
                    at = at - eta * self.gradient(at, mine)
                    moved = max(moved, float((at - self.start).norm()))
                total = total + share * (at - theta)
            theta = theta + server * total
            moved = max(moved, float((theta - self.start).norm()))
            sizes.append(self._size(theta))
        heaviest = np.sqrt(max(self.shares) * self.setup.eta_local * self.setup.local_steps * self.problem.n)
        return RoundsRun(np.array(sizes), moved, float(LOST * heaviest), ROUNDING * float(self.start.norm()))

    def _size(self, theta: Tensor) -> float:
        """phi = (r' D r)^(1/2). On client c, D r is p_c times the sum over k of eta (I - eta K_cc)^k r_c."""
        total = 0.0
        for client, share in enumerate(self.shares):
            mine = np.flatnonzero(self.problem.owner == client)
            j, r = self.jacobian(theta, mine), self.residuals(theta, mine)
            left = r
            for _ in range(self.setup.local_steps):
                total += share * self.setup.eta_local * float(r @ left)
                left = left - self.setup.eta_local * (j @ (j.T @ left))
        return float(np.sqrt(total))

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        steps = {"K": self.setup.local_steps, "eta_local": self.setup.eta_local, "eta_global": self.setup.eta_global}
        return {"network": self.spec, "m": self.width, "n": self.problem.n, "shares": list(self.shares)} | steps


def rounds_case(
    seed: int,
    residual: float,
    spec: str,
    width: int,
    steps: int,
    part: float,
    shares: tuple[float, float] = (0.5, 0.5),
    server: float = 1.0,
    **broken: Any,
) -> FederatedRounds:
    """Three samples of two clients, with a residual along the slowest direction of K D.

    K is the kernel. D consists of the clients' blocks p_c eta sum_k (I - eta K_cc)^k. `residual` is the length of the
    residual, divided by the length that the certificate needs. `part` is eta_l times the largest eigenvalue of the
    clients' kernels.
    """
    x = unit_rows(np.random.default_rng([seed, 29]), len(OWNER), 4)
    params, outputs, j = at_start(spec, x, width, seed)
    kernel, blocks = j @ j.T, [np.flatnonzero(OWNER == c) for c in range(2)]
    longest = 1 / max(np.linalg.eigvalsh(kernel[np.ix_(mine, mine)])[-1] for mine in blocks)
    setup = Setup(width=width, eta_local=float(part * longest), local_steps=steps, eta_global=server)
    d = np.zeros_like(kernel)
    for mine, share in zip(blocks, shares, strict=True):
        step = np.eye(len(mine)) - setup.eta_local * kernel[np.ix_(mine, mine)]
        powers = sum(np.linalg.matrix_power(step, k) for k in range(steps))
        d[np.ix_(mine, mine)] = share * setup.eta_local * powers
    values, vectors = np.linalg.eig(kernel @ d)
    slowest = np.real(vectors[:, np.argmin(values.real)])
    near = Problem(x, outputs + 1e-3 * slowest, OWNER, name="small smooth networks in rounds")
    far = certify_rounds(networks.wide(spec), params, near, setup, shares=shares)
    size = residual * (far.needed_residual or 0.0) if not far.certified else 1e-3 * residual
    return FederatedRounds(replace(near, y=outputs + size * slowest), spec, width, seed, setup, shares, **broken)


def _small(seed: int) -> FederatedRounds:
    steps, part = ((1, 0.9), (2, 0.8), (4, 0.4), (6, 0.2))[seed % 4]
    shares, server = ((0.5, 0.5), (0.4, 0.6), (0.7, 0.2))[seed % 3], (1.0, 1.3)[seed // 3 % 2]
    return rounds_case(seed, (0.9, 0.2, 0.03)[seed // 2 % 3], SPECS[seed % len(SPECS)], 40, steps, part, shares, server)


ANY_SMALL = st.builds(
    rounds_case,
    st.integers(0, 2**31),
    st.floats(0.01, 0.95),
    st.sampled_from(SPECS),
    st.integers(8, 40),
    st.integers(1, 6),
    st.floats(0.1, 0.95),
    st.tuples(st.floats(0.2, 0.8), st.floats(0.2, 0.8)),
    st.floats(0.7, 1.4),
)
SMALL_ROUNDS = Family("small smooth networks in rounds", _small, ANY_SMALL, trials=24)
