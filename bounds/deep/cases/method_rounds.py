"""The case of rounds of a method with memory from a checkpoint of a smooth network, with two clients.

Memory is what the server or the clients keep from round to round, such as a velocity or control variates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from bounds import Family
from bounds.cases.method_steps import WITH_MEMORY, MethodSteps, named
from bounds.deep.cases.federated_rounds import LOST, OWNER, ROUNDING, SPECS, SmallNetwork, at_start, unit_rows
from ntkfl import Problem, RoundsCertificate, Setup, certify_rounds, networks
from ntkfl.smooth_networks.rounds import MethodStart, method_inequalities
from ntkfl.smooth_networks.window import Rounds

if TYPE_CHECKING:  # torch loads slowly, so it is loaded when a case runs
    from torch import Tensor

KINDS = tuple(WITH_MEMORY)
ROUNDS = 25


@dataclass(frozen=True, eq=False)
class MethodRounds(SmallNetwork):
    """A smooth network, a method with its step sizes, and rounds of the method."""

    setup: Setup  # the step sizes and steps that are certified
    kind: str
    longer: float = 1.0  # the run's local step size divided by the certificate's
    remembered: float = 0.0  # norm of the server's and of the clients' memory at the start

    @cached_property
    def certificate(self) -> RoundsCertificate:
        """The certificate of the network for an empty memory, made before these rounds."""
        name, options = named(self.kind)
        return certify_rounds(
            networks.wide(self.spec), self.params, self.problem, self.setup, method=name, options=options
        )

    @property
    def known(self) -> MethodStart:
        """The certificate's bounds on the method's rounds at the checkpoint.

        Raises:
            ArithmeticError: nothing is certified.
        """
        if not isinstance(self.certificate.start, MethodStart):
            raise ArithmeticError(self.certificate.why)
        return self.certificate.start

    @property
    def claimed(self) -> Rounds:
        """The claim of the certificate. If nothing is certified: the claim for a network without curvature.

        A network without curvature is linear in its weights.

        Raises:
            ArithmeticError: neither exists.
        """
        flat = self.certificate.rounds or method_inequalities(self.known.steps, self.known.linear, 0.0, 1e6)
        if not isinstance(flat, Rounds):
            raise ArithmeticError(flat.why)
        return flat

    @cached_property
    def run(self) -> MethodRun:
        """The run of the rounds, by torch in float64."""
        run = MethodRun(self)
        for _ in range(ROUNDS):
            run.round()
        return run

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        steps = {"K": self.setup.local_steps, "eta_local": self.setup.eta_local}
        return {"network": self.spec, "m": self.width, "n": self.problem.n, "method": self.kind} | steps


class MethodRun(MethodSteps):
    """The method as the papers write it, on the network itself rather than on its linear model."""

    def __init__(self, case: MethodRounds) -> None:
        import torch

        super().__init__(case.kind, case.problem.members, case.longer * case.setup.eta_local, case.setup.local_steps)
        self.case, self.at, self.moved = case, case.start, 0.0
        kept = torch.zeros_like(self.at)
        if case.remembered:
            kept = torch.randn(len(self.at), generator=torch.Generator().manual_seed(case.seed), dtype=self.at.dtype)
            kept = kept * case.remembered / kept.norm()
        self.server, self.own = kept, [kept.clone() for _ in self.clients]
        j = case.jacobian(self.at, np.arange(case.problem.n))
        self.whitener = torch.linalg.inv(torch.linalg.cholesky(j @ j.T))
        self.sizes = [self.size()]

    def size(self) -> float:
        """(r' K^-1 r)^(1/2), the size of the residual r."""
        return float((self.whitener @ self.case.residuals(self.at, np.arange(self.case.problem.n))).norm())

    @property
    def sizes_off(self) -> float:
        """The float64 error of each entry of `sizes`."""
        return LOST * float(self.whitener.norm()) * self.case.problem.n**0.5

    @property
    def moved_off(self) -> float:
        """The float64 error of `moved`."""
        return ROUNDING * float(self.case.start.norm())

    def gradient(self, at: Tensor, members: np.ndarray) -> Tensor:
        """The gradient of half the sum of squares over these samples."""
        return self.case.gradient(at, members)

    def record(self, at: Tensor) -> None:
        """Record the largest distance of a model from the checkpoint."""
        self.moved = max(self.moved, float((at - self.case.start).norm()))

    def round(self) -> None:
        """One round of all clients and the server."""
        super().round()
        self.sizes.append(self.size())


def method_case(
    seed: int,
    kind: str,
    residual: float,
    spec: str,
    width: int,
    steps: int,
    part: float,
    **broken: Any,
) -> MethodRounds:
    """Three samples of two clients, with a residual along the slowest direction of K.

    `residual` is the length of the residual, divided by the length that the certificate needs. `part` is eta_l times
    the largest eigenvalue of the clients' kernels.
    """
    x = unit_rows(np.random.default_rng([seed, 29]), len(OWNER), 4)
    params, outputs, j = at_start(spec, x, width, seed)
    kernel = j @ j.T
    longest = 1 / max(np.linalg.eigvalsh(kernel[np.ix_(m, m)])[-1] for m in (OWNER == 0, OWNER == 1))
    setup = Setup(width=width, eta_local=float(part * longest), local_steps=steps)
    slowest = np.linalg.eigh(kernel)[1][:, 0]
    far = Problem(x, outputs + slowest, OWNER, name="small smooth networks, methods")
    name, options = named(kind)
    needed = certify_rounds(networks.wide(spec), params, far, setup, method=name, options=options).needed_residual
    near = replace(far, y=outputs + residual * (needed or 0.0) * slowest)
    return MethodRounds(near, spec, width, seed, setup, kind, **broken)


def _small(seed: int) -> MethodRounds:
    steps, part = ((1, 0.9), (2, 0.6), (4, 0.3))[seed // 2 % 3]
    return method_case(
        seed, KINDS[seed % len(KINDS)], (0.03, 0.9)[seed // 6 % 2], SPECS[seed % len(SPECS)], 40, steps, part
    )


ANY_SMALL = st.builds(
    method_case,
    st.integers(0, 2**31),
    st.sampled_from(KINDS),
    st.floats(0.01, 0.95),
    st.sampled_from(SPECS),
    st.integers(8, 40),
    st.integers(1, 5),
    st.floats(0.1, 0.8),
)
SMALL_METHOD_ROUNDS = Family("small smooth networks, methods", _small, ANY_SMALL, trials=24)
