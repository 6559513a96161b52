"""Two kinds of cases whose tail probabilities are exact.

One kind is a centred Gaussian with a threshold. The other is a sum of independent two-point variables with a threshold.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, fmpq
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.case import Case, Family, described
from bounds.strategies import log_uniform
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate


@dataclass(frozen=True)
class GaussianTail(Case):
    """X ~ N(0, sigma^2) and a threshold t > 0."""

    t: float
    sigma: float = 1.0

    def probability(self) -> Estimate:
        """Pr[|X| <= t], as an enclosure."""
        with precision():
            return enclosure((ball(self.t) / (ball(self.sigma) * arb(2).sqrt())).erf())

    describe = described("t", "sigma")


def _tail(largest: float, unit_sigma: bool, seed: int) -> GaussianTail:
    """A tail with log-uniform sigma in 1/16..16, and log-uniform t/sigma from 1e-6 to `largest`.

    Odd seeds have t/sigma >= 1/4. If `unit_sigma`, sigma is 1.
    """
    rng = np.random.default_rng(seed)
    sigma = 1.0 if unit_sigma else float(2 ** rng.uniform(-4, 4))
    ratio = float(np.exp(rng.uniform(np.log(0.25 if seed % 2 else 1e-6), np.log(largest))))
    return GaussianTail(ratio * sigma, sigma)


def _any_tail(largest: float, unit_sigma: bool) -> SearchStrategy[GaussianTail]:
    """Tails with log-uniform sigma and t/sigma."""
    sigma = st.just(1.0) if unit_sigma else log_uniform(1 / 16, 16)
    ratio = log_uniform(1e-6, largest)
    return st.builds(lambda ratio, sigma: GaussianTail(ratio * sigma, sigma), ratio, sigma)


def gaussian_tails(largest: float = 1.0, unit_sigma: bool = False) -> Family:
    """Thresholds up to `largest` standard deviations, for any sigma or, if `unit_sigma`, for sigma = 1."""
    return Family("Gaussian tails", _tail, _any_tail, (largest, unit_sigma), trials=200, needs=20)


@dataclass(frozen=True)
class BoundedSum(Case):
    """n i.i.d. variables X_i of mean zero, and a threshold t. X_i = M with probability p <= 1/2, else -M p / (1-p)."""

    count: int
    p: Fraction
    bound: Fraction
    t: Fraction

    @property
    def variance(self) -> Fraction:
        """E X^2 = M^2 p / (1-p)."""
        return self.bound**2 * self.p / (1 - self.p)

    def probability(self, above: bool) -> Estimate:
        """Pr[sum >= t] if `above`, otherwise Pr[sum <= t], computed exactly."""
        low = -self.bound * self.p / (1 - self.p)
        total = Fraction(0)
        for k in range(self.count + 1):
            value = k * self.bound + (self.count - k) * low
            if value >= self.t if above else value <= self.t:
                total += math.comb(self.count, k) * self.p**k * (1 - self.p) ** (self.count - k)
        return exact(total)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"n": self.count, "p": str(self.p), "M": str(self.bound), "t": str(self.t)}


def exact_ball(value: Fraction) -> arb:
    """A rational number as a ball, an interval with midpoint and radius (python-flint)."""
    return arb(fmpq(value.numerator, value.denominator))


def exact(value: Fraction) -> Estimate:
    """A rational number as an Estimate: the nearest float, with an error that encloses the number."""
    with precision():
        return enclosure(exact_ball(value))


def _sum(seed: int) -> BoundedSum:
    """A sum of 1 to 40 variables of any skewness, with any t up to the largest value that the sum can take."""
    rng = np.random.default_rng(seed)
    count, bound = int(rng.integers(1, 41)), Fraction(int(rng.integers(1, 9)), 4)
    t = count * bound * Fraction(int(rng.integers(1, 33)), 32)
    return BoundedSum(count, Fraction(int(rng.integers(1, 9)), 16), bound, t)


def _any_sum(count: int, p: Fraction, bound: Fraction, share: Fraction) -> BoundedSum:
    return BoundedSum(count, p, bound, count * bound * share)


BOUNDED_SUMS = Family(
    "two-point sums",
    _sum,
    st.builds(
        _any_sum,
        st.integers(1, 40),
        st.integers(1, 16).flatmap(lambda whole: st.integers(1, whole).map(lambda part: Fraction(part, 2 * whole))),
        st.fractions(Fraction(1, 4), 4, max_denominator=4),
        st.fractions(0, 2, max_denominator=32).filter(bool),  # t is up to twice the largest sum
    ),
    trials=200,
    needs=20,
)
