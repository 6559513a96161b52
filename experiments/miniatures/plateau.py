"""Whether training has ended: how much a curve still moves over its last third, with an error over the seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

State = Literal["flat", "moves", "unclear"]


@dataclass(frozen=True)
class LastThird:
    """What curves of one setting do over their last third.

    Args:
        change: mean over the seeds of the rise of each seed's straight line through these rounds; NaN: not known.
        error: standard error of `change`; NaN: not known.
        state: "flat" where change and twice its error together are below the limit, "moves" where it is beyond that
            error, else "unclear".
    """

    change: float
    error: float
    state: State


def last_third(curves: Sequence[Sequence[float]], limit: float, beyond: float) -> LastThird:
    """The rule by which a plateau is called one.

    Args:
        curves: of one setting, one a seed, a value a round.
        limit: what a flat curve moves by at most.
        beyond: standard errors that a change must exceed to be called one.

    Raises:
        ValueError: a curve of fewer than 6 rounds, whose last third is no line.
    """
    changes = [_rise(np.asarray(curve, float)) for curve in curves]
    if len(changes) < 2:
        return LastThird(changes[0] if changes else math.nan, math.nan, "unclear")
    change, error = float(np.mean(changes)), float(np.std(changes, ddof=1)) / math.sqrt(len(changes))
    if abs(change) + beyond * error <= limit:
        return LastThird(change, error, "flat")
    return LastThird(change, error, "moves" if abs(change) > beyond * error else "unclear")


def _rise(curve: np.ndarray) -> float:
    """Of the least-squares line through the last third, from its first round to its last."""
    if len(curve) < 6:
        raise ValueError(f"the curve has {len(curve)} rounds; a plateau needs 6 or more")
    end = curve[-(len(curve) // 3) :]
    return float(np.polyfit(np.arange(len(end)), end, 1)[0] * (len(end) - 1))
