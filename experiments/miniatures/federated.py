"""Training runs of a miniature, and what is taken from them."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import numpy as np

from experiments.miniatures.miniature import Keys, Quantity, Setting
from ntkfl.training import Run, run

ACCURACY = "test accuracy"
LAST = 5  # rounds whose mean FedGuCci reports


def trained(keys: Keys, seed: int) -> Run:
    """The run that these keys of `RunConfig` name."""
    return run(**{**keys, "seed": seed})


def mean_accuracy(keys: Keys, seed: int) -> Mapping[str, float]:
    """The mean test accuracy of the last rounds, in percent."""
    return {ACCURACY: fmean(accuracies(trained(keys, seed))[-LAST:])}


def accuracies(done: Run) -> np.ndarray:
    """The test accuracy after each round, in percent, (T,)."""
    return 100 * done.metrics["test_accuracy"][1:]


def accuracy(**printed: str) -> Quantity:
    """That mean as a quantity, printed where these fields say."""
    return Quantity(ACCURACY, "%, mean of the last 5 rounds", printed or None)


def settings(
    common: Keys, variations: Mapping[str, Keys], baseline: str, printed: Mapping[str, Keys] | None = None
) -> tuple[Setting, ...]:
    """Settings of these names, their own keys beside the common ones, each compared with the baseline.

    Args:
        common: keys of all. variations: own keys, by the setting's name. baseline: the name that the others are
            compared with.
        printed: what picks the paper's rows, by the setting's name; those without an entry have none.
    """
    printed = printed or {}
    return tuple(
        Setting(name, {**common, **own}, None if name == baseline else baseline, printed.get(name))
        for name, own in variations.items()
    )
