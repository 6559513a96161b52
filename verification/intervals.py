"""Exact binomial (Clopper-Pearson) limits for the probability of an event seen in independent trials."""

from math import ceil

from scipy.special import betaincinv  # gives the quantiles of scipy.stats.beta, which is slow to load

UPPER, LOWER = 0.025, 5e-7  # probability that a limit is wrong by chance


def upper_limit(failures: int, trials: int, level: float = 1 - UPPER) -> float:
    """The smallest failure probability that the observation of `failures` or fewer failures in `trials` trials refutes.

    The level is one-sided; by default it is the level of one end of a two-sided interval of 95%.
    """
    return 1.0 if failures >= trials else float(betaincinv(failures + 1, trials - failures, level))


def lower_limit(failures: int, trials: int, level: float = 1 - LOWER) -> float:
    """The largest failure probability that the observation of `failures` or more failures in `trials` trials refutes.

    The level is one-sided; by default it is the level of one end of a two-sided interval of 1 - 1e-6.
    """
    return 0.0 if failures == 0 else float(betaincinv(failures, trials - failures + 1, 1 - level))


def percent(limit: float) -> str:
    """An upper limit, rounded up to a tenth of a percent."""
    return f"{ceil(1000 * limit) / 10:.1f}%"
