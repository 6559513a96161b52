"""The results of certificates: numbers and conditions as records, and as pages of text.

`Trial` and `Certificate` are the records of fl-ntk/B.3-certificate and of X.11, which is the same theorem from a
checkpoint in place of the initial weights. `StableStepCertificate` is the record of fl-ntk/X.12.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from ntkfl.problem import Setup


@dataclass(frozen=True)
class Condition:
    """One inequality of the theorem. `margin` is the right side minus the left, rounded down, or None if undefined."""

    name: str
    inequality: str
    margin: float | None
    holds: bool


@dataclass(frozen=True)
class Trial:
    """The theorem's numbers at one radius R. Each is rounded to the side that weakens the claim."""

    radius: float  # R, which is exact
    perturbation: float  # E
    h: float
    beta: float | None
    # q, the factor of |r|^2 per round. beta is None if lam <= 0; rate and need are None if beta <= 0.
    rate: float | None
    need: float | None
    conditions: tuple[Condition, ...]

    @property
    def certified(self) -> bool:
        """Whether every condition holds at this radius."""
        return all(condition.holds for condition in self.conditions)

    @property
    def shortfall(self) -> float:
        """need / R if the other conditions hold, otherwise infinite. For a certificate it must be at most 1."""
        admissible = all(condition.holds for condition in self.conditions[:2])
        return self.need / self.radius if admissible and self.need is not None else float("inf")


@dataclass(frozen=True)
class Certificate(Trial):
    """The certified trial with the largest beta, with the quantities that do not depend on the radius.

    If no trial certifies, it is the trial that comes closest.
    """

    # lam and lam_c are lower ends of the least eigenvalues of H(0) and of the clients' blocks
    lam: float
    mu: float  # the upper end of |H(0)|
    lam_c: float
    x_norm: float  # the upper end of |X|
    r0: float  # the upper end of |y - y(0)|
    rho: float  # the lower end of eta_g eta_l K / N
    width: int  # m
    # number of pairs (neuron, sample) whose initial activation is undecided by rounding; all count against the
    # certificate
    doubtful: int
    # If there is no certificate, an ESTIMATE of a width that certifies. It assumes that r0, lam, mu and E(R) stay the
    # same, and that need scales as 1/sqrt(m). None if there is a certificate, or if no width helps.
    width_needed: int | None
    trials: tuple[Trial, ...]  # the trials at every radius tried, ascending

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-safe values, `certified` first."""
        return {"certified": self.certified} | asdict(self)

    @property
    def residual_factor(self) -> float | None:
        """The upper end of sqrt(q), the factor of |y - y(t)| per round. Certificates are compared by this number."""
        return None if self.rate is None else float(np.nextafter(np.sqrt(self.rate), np.inf))

    def stable_step(self, setup: Setup) -> float | None:
        """The largest eta_local with which the two conditions on the steps hold, rounded down to three digits.

        The two conditions are local stability and contraction, at the radius that allows the largest step. The third
        condition is on the width. None: no step is small enough, since lambda_min(H(0)) is not known to exceed E.
        """
        mean = self.rho / setup.eta_local  # eta_g K / N
        limits = []
        for trial in self.trials:
            lowest, top = self.lam - trial.perturbation, self.mu + trial.perturbation
            if min(lowest, self.lam_c - trial.perturbation) > 0:
                local = 2 * (self.lam_c - trial.perturbation) / trial.h**2
                drift = self.mu * trial.h * (setup.local_steps - 1)
                limits.append(min(local, 2 * lowest / (drift + mean * top**2)))
        if not limits:
            return None
        return float(below(max(limits) * (1 - 1e-9), 3))

    def __str__(self) -> str:
        numbers = {
            "width m": str(self.width),
            "radius R": above(self.radius),
            "movement needed": above(self.need),
            "beta": below(self.beta),
            "factor of |r|^2 per round": above(self.rate),
            "lambda_min(H(0))": below(self.lam),
            "|H(0)|": above(self.mu),
            "min_c lambda_min(H_cc)": below(self.lam_c),
            "perturbation E": above(self.perturbation),
            "h = max_c |H_cc| + E": above(self.h),
            "|X|": above(self.x_norm),
            "|y - y(0)|": above(self.r0),
            "rho": below(self.rho),
            "patterns in doubt": str(self.doubtful),
        }
        passed = sum(trial.certified for trial in self.trials)
        first, last = self.trials[0].radius, self.trials[-1].radius
        footer = f"{passed} of {len(self.trials)} radii from {first:.3g} to {last:.3g} certify"
        return certificate_text(self._headline(), numbers, self.conditions, footer)

    def _headline(self) -> str:
        if self.certified:
            return (
                f"CERTIFIED: |y - y(t)|^2 <= {above(self.rate, 9)}^t |y - y(0)|^2 for all t, "
                f"and no neuron moves farther than {above(self.radius, 4)}"
            )
        if self.width_needed is None:
            return (
                "NOT CERTIFIED, and more width does not help: the steps are too large for these data, "
                "or lambda_min(H(0)) is not positive"
            )
        return f"NOT CERTIFIED at width {self.width}; it would take about {self.width_needed:.1e} neurons (an estimate)"


def above(value: float | None, digits: int = 6) -> str:
    """A number with `digits` digits, rounded up, so that the printed claim is no stronger than the certified claim."""
    return _decimal(value, digits, ROUND_CEILING)


def below(value: float | None, digits: int = 6) -> str:
    """A number with `digits` digits, rounded down."""
    return _decimal(value, digits, ROUND_FLOOR)


def _decimal(value: float | None, digits: int, rounding: str) -> str:
    if value is None:
        return "undefined"
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))):.{digits}g}"


def certificate_text(headline: str, numbers: Mapping[str, str], conditions: tuple[Condition, ...], footer: str) -> str:
    """A certificate as text: the theorem in one sentence, the numbers, and each condition with its margin."""
    lines = [headline, "", *(f"  {meaning:<28}{shown}" for meaning, shown in numbers.items()), ""]
    for condition in conditions:
        margin = "not reached" if condition.margin is None else f"margin {_signed(condition.margin)}"
        verdict = "holds" if condition.holds else "FAILS"
        lines.append(f"  {verdict}  {condition.name:<16} {condition.inequality:<28} {margin}")
    return "\n".join([*lines, "", f"  {footer}"])


def _signed(margin: float) -> str:
    shown = below(margin, 3)
    return shown if shown.startswith("-") else f"+{shown}"


@dataclass(frozen=True)
class StableStepCertificate:
    """The theorem's numbers at one radius R and in one norm |S^-1 r|.

    Each is rounded to the side that weakens the claim.
    """

    radius: float  # R, which is exact
    power: float  # p; S is H^(p/2) in float64, and p = 1 gives the H^-1 norm
    perturbation: float  # E
    local_perturbation: float  # E_c
    frozen_rate: float  # |S^-1 M S| for the frozen kernel
    rate: float  # q, for the network
    need: float | None  # the bound on the movement; None if q >= 1
    norm: float  # |S^-1 (y - y(0))|
    norm_bound: float  # |S|, so that |y - y(t)| <= norm_bound * norm * rate^t
    r0: float  # |y - y(0)|
    lam: float  # the lower end of lambda_min(H)
    mu: float  # |H|
    x_norm: float  # |X|
    width: int  # m
    # number of pairs (neuron, sample) whose activation is undecided by rounding; they count against the certificate
    doubtful: int
    conditions: tuple[Condition, ...]
    radii: int  # number of radii that were tried, from smallest_radius to largest_radius
    smallest_radius: float
    largest_radius: float
    root: np.ndarray = field(repr=False, compare=False)  # S

    @property
    def certified(self) -> bool:
        """Whether every condition holds."""
        return all(condition.holds for condition in self.conditions)

    @property
    def residual_factor(self) -> float:
        """q, the factor of the residual's norm per round. Certificates are compared by this number."""
        return self.rate

    @property
    def shortfall(self) -> float:
        """need / R, or infinity if q >= 1. For a certificate it must be at most 1."""
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
