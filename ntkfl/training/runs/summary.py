"""The summary of a run: each measured quantity's last value, best value and mean over the last five rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean

from ntkfl.training.metrics import Row

MEASURES = {
    "test_accuracy": max,
    "test_loss": min,
    "train_loss": min,
    "client_accuracy": max,
    "personal_accuracy": max,
}
LAST = 5  # number of last rounds whose mean is reported, as in FedGuCci


@dataclass(frozen=True)
class Summary:
    """The last value, the best value with its round, and the mean over the last `rounds`, of a measured quantity."""

    last: float
    best: float
    best_round: int
    mean: float
    rounds: int


def summary(rows: Sequence[Row]) -> dict[str, Summary]:
    """A summary of each measured quantity. The values before training count only if there was no round.

    The best loss is the smallest, the best accuracy the largest. Among equally good rounds the earliest counts.
    """
    trained = [row for row in rows if row.round] or list(rows)
    summaries = {}
    for name, better in MEASURES.items():
        values = {row.round: getattr(row, name) for row in trained if not isnan(getattr(row, name))}
        if values:
            best = better(values, key=lambda number: values[number])
            final = list(values.values())[-LAST:]
            summaries[name] = Summary(final[-1], values[best], best, fmean(final), len(final))
    return summaries
