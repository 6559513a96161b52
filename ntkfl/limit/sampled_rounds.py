"""Independent runs of random rounds: estimates of the moments of |r|^2, with their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ntkfl.estimate import Estimate, Rigour

ERRORS = 3  # number of standard errors in an estimate's error


@dataclass(frozen=True, eq=False)
class SampledRounds:
    """Squared residuals of independent runs; made by `RandomRegime.sampled`.

    An error is three standard errors, estimated from the runs. That is too little if few runs dominate the mean, as
    happens where the mean square is close to growing.

    Args:
        rounds: t, (T,).
        of_mean: |E r(t)|^2, which is exact, (T,).
        squares: |r(t)|^2 of each of R runs, (T, R).
        spreads: |r(t) - E r(t)|^2 of each run, (T, R).
    """

    rounds: np.ndarray
    of_mean: Float[np.ndarray, " T"]
    squares: Float[np.ndarray, "T R"]
    spreads: Float[np.ndarray, "T R"]

    @property
    def mean_square(self) -> Estimate:
        """E |r(t)|^2, (T,): |E r|^2 plus the mean of the spreads."""
        runs = self.spreads.shape[-1]
        error = ERRORS * self.spreads.std(axis=-1, ddof=1) / runs**0.5
        return Estimate(self.of_mean + self.spreads.mean(axis=-1), error, self._how, Rigour.SAMPLED)

    @property
    def square_variance(self) -> Estimate:
        """The variance of |r(t)|^2, (T,)."""
        runs = self.squares.shape[-1]
        deviations = (self.squares - self.squares.mean(axis=-1, keepdims=True)) ** 2
        error = ERRORS * deviations.std(axis=-1, ddof=1) / runs**0.5
        return Estimate(self.squares.var(axis=-1, ddof=1), error, self._how, Rigour.SAMPLED)

    def chance_above(self, level: float) -> Estimate:
        """The chance that |r(t)|^2 exceeds a level, (T,), by Clopper and Pearson's interval of 95%.

        Args:
            level: the level of |r|^2.
        """
        from ntkfl.connectivity.low_loss_region import binomial_share

        runs = self.squares.shape[-1]
        shares = [binomial_share(int(hits), runs) for hits in (self.squares > level).sum(axis=-1)]
        low, high = ([float(getattr(share, end)) for share in shares] for end in ("lo", "hi"))
        return Estimate.between(low, high, f"Clopper-Pearson 95%, {runs} runs", Rigour.SAMPLED)

    @property
    def _how(self) -> str:
        return f"{ERRORS} standard errors of {self.squares.shape[-1]} runs"
