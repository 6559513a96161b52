"""Case: a centred Gaussian and a threshold, Pr[|X| <= t] = erf(t / (sigma sqrt 2))."""

from dataclasses import dataclass

import numpy as np
from flint import arb
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.case import Case
from bounds.family import Family
from bounds.part_strategies import log_uniform
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate


@dataclass(frozen=True)
class GaussianTail(Case):
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


def _tail(largest: float, unit_sigma: bool, seed: int) -> GaussianTail:
    """sigma in 1/16..16 and t/sigma from 1e-6 to `largest`, log-uniform; half of them at least `largest` / 4."""
    rng = np.random.default_rng(seed)
    sigma = 1.0 if unit_sigma else float(2 ** rng.uniform(-4, 4))
    lowest = 0.25 if seed % 2 else 1e-6
    ratio = float(np.exp(rng.uniform(np.log(lowest), np.log(largest))))
    return GaussianTail(ratio * sigma, sigma)


def _any_tail(largest: float, unit_sigma: bool) -> SearchStrategy[GaussianTail]:
    """Tails with log-uniform sigma and t/sigma."""
    sigma = st.just(1.0) if unit_sigma else log_uniform(1 / 16, 16)
    ratio = log_uniform(1e-6, largest)
    return st.builds(lambda ratio, sigma: GaussianTail(ratio * sigma, sigma), ratio, sigma)


def gaussian_tails(largest: float = 1.0, unit_sigma: bool = False) -> Family:
    """Thresholds up to `largest` standard deviations, for any sigma or for sigma = 1."""
    return Family("Gaussian tails", _tail, _any_tail, (largest, unit_sigma), trials=200, needs=20)
