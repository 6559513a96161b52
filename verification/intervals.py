"""Exact binomial (Clopper-Pearson) limits for the probability of an event seen in independent trials."""

from math import ceil

from scipy.special import betaincinv  # gives the same quantiles as scipy.stats.beta, which is slow to load

UPPER, LOWER = 0.025, 5e-7  # probability that a limit is wrong by chance


def upper_limit(failures: int, trials: int, level: float = 1 - UPPER) -> float:
    """The upper limit of the failure probability, after `failures` failures in `trials` trials.

    A failure probability above the limit is refuted by the observation of so few failures. The level is one-sided; by
    default it is the level of one end of a two-sided interval of 95%.
    """
    return 1.0 if failures >= trials else float(betaincinv(failures + 1, trials - failures, level))


def lower_limit(failures: int, trials: int, level: float = 1 - LOWER) -> float:
    """The lower limit of the failure probability, after `failures` failures in `trials` trials.

    A failure probability below the limit is refuted by the observation of so many failures. The level is one-sided; by
    default it is the level of one end of a two-sided interval of 1 - 1e-6.
    """
    return 0.0 if failures == 0 else float(betaincinv(failures, trials - failures + 1, 1 - level))


def percent(limit: float) -> str:
    """An upper limit, rounded up to a tenth of a percent."""
    return f"{ceil(1000 * limit) / 10:.1f}%"
