"""Series of charts from the cells of a study.

A series has a number for each value of an axis, such as a mean over cells, with its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bounds.ladders.slopes import LEVEL, RESAMPLES
from experiments.studies.answers import along, half_width
from experiments.studies.chart import Label, Panel, Role, Series
from experiments.studies.study import Cells, Numbers
from ntkfl.estimate import Estimate

BARS, STUDENT_BARS = (f"bars: {LEVEL:.0%} {kind} intervals over seeds" for kind in ("bootstrap", "Student"))
IN_PANEL = 6  # the largest number of series in a panel
WIDTHS = Label("width m", "neurons", log=True)
Columns = tuple[list[float], list[float], list[float]]  # values, and the lower and the upper ends of their intervals
Over = Callable[[Sequence[np.ndarray]], Columns]


def root_mean_square(samples: Sequence[np.ndarray]) -> Columns:
    """The root mean square of each sample, and the ends of its bootstrap interval; NaN for an empty sample."""
    return _columns(_resampled, samples)


def _resampled(sample: np.ndarray) -> tuple[float, float, float]:
    value = float(np.sqrt((sample**2).mean()))
    picks = np.random.default_rng(0).choice(sample, (RESAMPLES, len(sample)))
    low, high = np.quantile(np.sqrt((picks**2).mean(axis=1)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value, min(value, float(low)), max(value, float(high))


def mean(samples: Sequence[np.ndarray]) -> Columns:
    """The mean of each sample, and the ends of Student's interval.

    The interval of a single number has no width.
    """
    return _columns(_student, samples)


def _student(sample: np.ndarray) -> tuple[float, float, float]:
    value = float(sample.mean())
    half = half_width(sample, LEVEL) if len(sample) > 1 else 0.0
    return value, value - half, value + half


def _columns(of: Callable[[np.ndarray], tuple[float, float, float]], samples: Sequence[np.ndarray]) -> Columns:
    rows = [of(sample) if len(sample) else (np.nan, np.nan, np.nan) for sample in samples]
    value, low, high = ([row[place] for row in rows] for place in range(3))
    return value, low, high


def points(name: str, values: Numbers, axis: str, over: Over = root_mean_square) -> Series:
    """Points of a measured quantity along an axis, with their intervals."""
    return Series(name, "measured", places(values, axis), *over(along(values, axis)))


def line(
    name: str, values: Numbers, axis: str, role: Role = "theory", *, of: str = "", over: Over = root_mean_square
) -> Series:
    """A line along an axis without intervals, for the values of theory."""
    return Series(name, role, places(values, axis), over(along(values, axis))[0], of=of)


def places(values: Numbers | Cells, axis: str) -> list[float]:
    """The values of a numerical axis."""
    return [float(value) for value in values[axis].to_numpy()]


def power_line(power: float, x: Sequence[float], last: float, *, name: str = "", of: str = "") -> Series:
    """A power of x, scaled such that it is `last` at the last x."""
    return Series(name or f"m^({power:g})", "theory", x, [last * (place / x[-1]) ** power for place in x], of=of)


def width_panels(
    title: str, y: Label, values: Numbers, axis: str, members: Sequence[str], powers: Mapping[float, str]
) -> list[Panel]:
    """Panels of a quantity against the width, with a series for each of `members`, which are values of an axis.

    A panel has at most six series.
    """
    widths, panels = places(values, "width"), []
    for some in (members[first : first + IN_PANEL] for first in range(0, len(members), IN_PANEL)):
        measured = [points(place, values.sel({axis: place}), "width") for place in some]
        last = float(np.mean([measured_line.y[-1] for measured_line in measured]))
        theory = (power_line(power, widths, last, name=name) for power, name in powers.items())
        panels.append(Panel(title, WIDTHS, y, (*measured, *theory)))
    return panels


def measured_numbers(name: str, at: Sequence[float], estimates: Sequence[Estimate | None]) -> Series:
    """A series of numbers with their intervals at these places; NaN for a number that was not measured."""
    value, low, high = (
        [np.nan if number is None else float(getattr(number, end)) for number in estimates]
        for end in ("value", "lo", "hi")
    )
    return Series(name, "measured", at, value, low, high)


def numbers_panel(title: str, names: Sequence[str], series: Sequence[Series], says: str = "exponent") -> Panel:
    """A panel of numbers with their intervals, in which each name has a row for its numbers."""
    return Panel(title, Label("", names=tuple(names)), Label(says), tuple(series), sideways=True)
