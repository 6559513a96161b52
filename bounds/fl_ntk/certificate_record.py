"""What a certificate finds: its numbers and conditions as a record, and as a page to read.

`Trial` and `Certificate` are those of fl-ntk/B.3-certificate and X.11, the same theorem from the first weights or from
a checkpoint; other theorems keep their own record and share `Condition` and `page`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Condition:
    """One inequality of the theorem; `margin` (right minus left, rounded down) is None where it has no value."""

    name: str
    inequality: str
    margin: float | None
    holds: bool


@dataclass(frozen=True)
class Trial:
    """The theorem's numbers at one radius R, each rounded to the side that weakens the claim.

    Args:
        radius: R, exact. perturbation: E. h, beta, need: as in the theorem. rate: q, the factor of |r|^2 per round.
            beta is None if lam <= 0; rate and need are None if beta <= 0.
    """

    radius: float
    perturbation: float
    h: float
    beta: float | None
    rate: float | None
    need: float | None
    conditions: tuple[Condition, ...]

    @property
    def certified(self) -> bool:
        """Whether every condition holds at this radius."""
        return all(condition.holds for condition in self.conditions)


@dataclass(frozen=True)
class Certificate(Trial):
    """The trial with the largest beta among the certified ones (else the one that came closest), and its setting.

    Args:
        lam, lam_c: least eigenvalues of H(0) and of the clients' blocks, lower ends. mu: |H(0)|, upper end.
        x_norm: |X|, upper end. r0: |y - y(0)|, upper end. rho: eta_g eta_l K / N, lower end.
        width: m. doubtful: neuron-sample pairs whose initial pattern rounding leaves undecided; all of them were
            counted against the certificate.
        width_needed: if not certified, an ESTIMATE of the width at which it would be: r0, lam, mu and E(R) kept, need
            scaled as 1/sqrt(m). None if certified, or if no width helps.
        trials: every radius tried, ascending.
    """

    lam: float
    mu: float
    lam_c: float
    x_norm: float
    r0: float
    rho: float
    width: int
    doubtful: int
    width_needed: int | None
    trials: tuple[Trial, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-safe values, `certified` first."""
        return {"certified": self.certified} | asdict(self)

    @property
    def residual_factor(self) -> float | None:
        """The factor of |y - y(t)| per round, sqrt(q), upper end: what certificates are compared by."""
        return None if self.rate is None else float(np.nextafter(np.sqrt(self.rate), np.inf))

    @property
    def shortfall(self) -> float:
        """need / R where the other conditions hold, else infinite: how far this is from certifying."""
        admissible = all(condition.holds for condition in self.conditions[:2])
        return self.need / self.radius if admissible and self.need is not None else float("inf")

    def __str__(self) -> str:
        numbers = {
            "width m": self.width,
            "radius R": self.radius,
            "movement needed": self.need,
            "beta": self.beta,
            "factor of |r|^2 per round": self.rate,
            "lambda_min(H(0))": self.lam,
            "|H(0)|": self.mu,
            "min_c lambda_min(H_cc)": self.lam_c,
            "perturbation E": self.perturbation,
            "h = max_c |H_cc| + E": self.h,
            "|X|": self.x_norm,
            "|y - y(0)|": self.r0,
            "rho": self.rho,
            "patterns in doubt": self.doubtful,
        }
        passed = sum(trial.certified for trial in self.trials)
        first, last = self.trials[0].radius, self.trials[-1].radius
        footer = f"{passed} of {len(self.trials)} radii from {first:.3g} to {last:.3g} certify"
        return page(self._headline(), numbers, self.conditions, footer)

    def _headline(self) -> str:
        if self.certified:
            return (
                f"CERTIFIED: |y - y(t)|^2 <= {self.rate:.9g}^t |y - y(0)|^2 for all t, "
                f"and no neuron moves farther than {self.radius:.4g}"
            )
        if self.width_needed is None:
            return (
                "NOT CERTIFIED, and more width does not help: the steps are too large for these data, "
                "or lambda_min(H(0)) is not positive"
            )
        return f"NOT CERTIFIED at width {self.width}; it would take about {self.width_needed:.1e} neurons (an estimate)"


def page(headline: str, numbers: Mapping[str, float | None], conditions: tuple[Condition, ...], footer: str) -> str:
    """The page of a certificate: the theorem in one sentence, the numbers, each condition with its margin."""
    lines = [headline, ""]
    for meaning, value in numbers.items():
        shown = "undefined" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"
        lines.append(f"  {meaning:<28}{shown}")
    lines.append("")
    for condition in conditions:
        margin = "not reached" if condition.margin is None else f"margin {condition.margin:+.3g}"
        verdict = "holds" if condition.holds else "FAILS"
        lines.append(f"  {verdict}  {condition.name:<16} {condition.inequality:<28} {margin}")
    return "\n".join([*lines, "", f"  {footer}"])
