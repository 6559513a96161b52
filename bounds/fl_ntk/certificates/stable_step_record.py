"""The result of the stable-step certificate, as a record and as a page of text."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bounds.fl_ntk.certificates.certificate_record import Condition, above, below, certificate_text


@dataclass(frozen=True)
class StableStepCertificate:
    """The theorem's numbers at one radius R and one norm |S^-1 r|, each rounded to the side that weakens the claim."""

    radius: float  # R, exact
    power: float  # p; S is H^(p/2) in float64, and p = 1 gives the H^-1 norm
    perturbation: float  # E
    local_perturbation: float  # E_c
    frozen_rate: float  # |S^-1 M S|, of the frozen kernel
    rate: float  # q, of the network
    need: float | None  # bound on the movement; None if q >= 1
    norm: float  # |S^-1 (y - y(0))|
    norm_bound: float  # |S|, so that |y - y(t)| <= norm_bound * norm * rate^t
    r0: float  # |y - y(0)|
    lam: float  # lower end of lambda_min(H)
    mu: float  # |H|
    x_norm: float  # |X|
    width: int  # m
    doubtful: int  # neuron-sample pairs whose pattern rounding leaves undecided, counted against the certificate
    conditions: tuple[Condition, ...]
    radii: int  # number of radii that were scanned, from smallest_radius to largest_radius
    smallest_radius: float
    largest_radius: float
    root: np.ndarray = field(repr=False, compare=False)  # S

    @property
    def certified(self) -> bool:
        """Whether every condition holds."""
        return all(condition.holds for condition in self.conditions)

    @property
    def residual_factor(self) -> float:
        """q, the factor of the residual's norm per round, by which certificates are compared."""
        return self.rate

    @property
    def shortfall(self) -> float:
        """need / R, or infinity if q >= 1; a certificate needs at most 1."""
        return float("inf") if self.need is None else self.need / self.radius

    def to_dict(self) -> dict[str, Any]:
        """Everything but S as JSON-safe values, `certified` first."""
        numbers = {name: value for name, value in asdict(self).items() if name != "root"}
        return {"certified": self.certified} | numbers

    def __str__(self) -> str:
        numbers = {
            "width m": str(self.width),
            "radius R": above(self.radius),
            "movement needed": above(self.need),
            "norm |H^(-p/2) r|, p": f"{self.power:g}",
            "factor q per round": above(self.rate),
            "factor of the frozen kernel": above(self.frozen_rate),
            "lambda_min(H)": below(self.lam),
            "|H|": above(self.mu),
            "perturbation E": above(self.perturbation),
            "of the clients' blocks, E_c": above(self.local_perturbation),
            "|X|": above(self.x_norm),
            "|y - y(0)|": above(self.r0),
            "|S^-1 (y - y(0))|": above(self.norm),
            "patterns in doubt": str(self.doubtful),
        }
        footer = f"best of {self.radii} radii from {self.smallest_radius:.3g} to {self.largest_radius:.3g}"
        return certificate_text(self._headline(), numbers, self.conditions, footer)

    def _headline(self) -> str:
        if self.certified:
            bound, rate = self.norm_bound * self.norm * (1 + 1e-9), above(self.rate, 9)
            converges = "" if self.rate < 1 and float(rate) < 1 else " (no convergence: the factor rounds to 1)"
            return (
                f"CERTIFIED: |y - y(t)| <= {above(bound, 4)} * {rate}^t for all t, and no neuron moves farther than "
                f"{above(self.radius, 4)}{converges}"
            )
        if not self.lam > 0:
            return (
                "NOT CERTIFIED: H is singular at these weights, or not surely positive; no step helps, more width may"
            )
        if not self.frozen_rate < 1:
            return (
                "NOT CERTIFIED: the steps are too large for these data even with the kernel frozen; take smaller ones"
            )
        if self.need is None:
            return (
                "NOT CERTIFIED: too many neurons are near a kink for this rate; "
                "more width, or steps that contract faster, would help"
            )
        rounds = int(np.ceil(np.log(self.shortfall) / -np.log(self.frozen_rate)))
        return (
            f"NOT CERTIFIED: the residual asks for {self.shortfall:.2g} times the radius; "
            f"about {rounds} more rounds (an estimate), or more width, would help"
        )
