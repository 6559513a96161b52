"""Case: a centred Gaussian and a threshold, Pr[|X| <= t] = erf(t / (sigma sqrt 2))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate


@dataclass(frozen=True)
class GaussianTail:
    """X ~ N(0, sigma^2) and t > 0."""

    t: float
    sigma: float = 1.0

    def probability(self) -> Estimate:
        """Pr[|X| <= t], a ball."""
        with precision():
            return enclosure((ball(self.t) / (ball(self.sigma) * arb(2).sqrt())).erf())

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"t": self.t, "sigma": self.sigma}


@dataclass(frozen=True)
class GaussianTailDraw:
    """sigma in 1/16..16 and t/sigma from 1e-6 up to `largest`, both log-uniform."""

    name: str = "Gaussian tails"
    largest: float = 1.0
    unit_sigma: bool = False
    trials: int = 200
    required: int = 20

    def case(self, seed: int) -> GaussianTail:
        """The threshold of one seed; half of them lie within a factor 4 of the largest."""
        rng = np.random.default_rng(seed)
        sigma = 1.0 if self.unit_sigma else float(2 ** rng.uniform(-4, 4))
        lowest = 0.25 if seed % 2 else 1e-6
        ratio = float(np.exp(rng.uniform(np.log(lowest), np.log(self.largest))))
        return GaussianTail(ratio * sigma, sigma)

    def strategy(self) -> SearchStrategy[GaussianTail]:
        """The same family: sigma and t/sigma log-uniform."""
        from bounds.part_strategies import log_uniform

        sigma = st.just(1.0) if self.unit_sigma else log_uniform(1 / 16, 16)
        ratio = log_uniform(1e-6, self.largest)
        return st.builds(lambda ratio, sigma: GaussianTail(ratio * sigma, sigma), ratio, sigma)
