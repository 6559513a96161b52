"""The summary of a run: of each measured quantity the last value, the best, and the mean of the last five rounds."""

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
LAST = 5  # rounds whose mean FedGuCci reports


@dataclass(frozen=True)
class Summary:
    """A measured quantity: its last value, its best value and round, and the mean of the last `rounds`."""

    last: float
    best: float
    best_round: int
    mean: float
    rounds: int


def summary(rows: Sequence[Row]) -> dict[str, Summary]:
    """A summary of each measured quantity; the model before training counts only if there was no round.

    The best loss is the least, the best accuracy the largest; among equals the earliest counts.
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
