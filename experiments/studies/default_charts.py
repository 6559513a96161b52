"""The charts of a study that defines no charts.

One chart shows the quantities along an axis. Another chart shows the measured numbers beside the numbers of theory.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from experiments.studies.chart import Chart, Label, Panel, Series
from experiments.studies.series import STUDENT_BARS, mean, measured_numbers, numbers_panel, points
from experiments.studies.study import SEED, Axis, Cells, Quantity, Study

MOST = 6  # the largest number of series in a panel
DECADE = 10.0  # numbers whose largest is more than this multiple of the smallest are drawn on a logarithmic axis


def charts_of(study: Study, cells: Cells) -> tuple[Chart, ...]:
    """The charts that the study defines, or else the default charts."""
    return default_charts(study, cells) if study.charts is None else tuple(study.charts(cells))


def default_charts(study: Study, cells: Cells) -> tuple[Chart, ...]:
    """A figure with a panel for each quantity, and a figure of answers.

    The figure of answers has those answers that have both a measured number and a number from theory.
    """
    seeds = f"{cells.sizes[SEED]} seeds; {STUDENT_BARS}" if SEED in cells.sizes else "each point is one run"
    panels = tuple(_panel(study, quantity, cells) for quantity in study.quantities)
    shown = ", ".join(quantity.name for quantity in study.quantities)
    charts = [Chart(study.name, f"{study.question} {seeds}.", f"{shown}, each along an axis of the grid.", panels)]
    answers = [answer for answer in study.answers(cells) if answer.theory is not None and answer.measured is not None]
    if answers:
        at = [float(row) for row in range(len(answers))]
        measured = measured_numbers("measured", at, [answer.measured for answer in answers])
        theory = Series("theory", "theory", at, [float(answer.theory or 0.0) for answer in answers])
        panel = numbers_panel("answers", [answer.claim for answer in answers], (measured, theory), "number")
        caption = f"What was measured, with its interval, beside theory. {study.question}"
        charts.append(
            Chart(
                f"{study.name}-answers", caption, "Measured numbers beside theory's, one claim in each line.", (panel,)
            )
        )
    return tuple(charts)


def _panel(study: Study, quantity: Quantity, cells: Cells) -> Panel:
    """The panel of a quantity.

    An inner axis is an axis of an array that is measured in one cell. The quantity is drawn along its own inner axis,
    or else along the longest numerical axis of the grid. Each combination of values of the other axes has a series; if
    there are more than six combinations, at most six of them are drawn.
    """
    inner = [axis for axis in study.inner if axis.name in quantity.along]
    grid = [axis for axis in study.axes if axis.name != SEED]
    along = max(
        inner or grid or study.axes, key=lambda axis: (not isinstance(axis.values[0], str), cells.sizes[axis.name])
    )
    others = [axis.name for axis in (*grid, *inner) if axis is not along]
    at = list(product(*(cells[name].to_numpy().tolist() for name in others)))
    series = tuple(
        _series(quantity, cells, along, dict(zip(others, place, strict=True))) for place in at[:: -(-len(at) // MOST)]
    )
    y = np.array([value for line in series for value in line.y])
    names = tuple(cells[along.name].to_numpy().tolist()) if isinstance(along.values[0], str) else ()
    x = Label(along.name, along.unit, log=not names and _spans(cells[along.name].to_numpy()), names=names)
    return Panel(f"{quantity.name}: {quantity.says}", x, Label(quantity.name, quantity.unit, log=_spans(y)), series)


def _series(quantity: Quantity, cells: Cells, along: Axis, place: dict[str, object]) -> Series:
    values = cells[quantity.name].sel(place)
    if isinstance(along.values[0], str):
        values = values.assign_coords({along.name: range(values.sizes[along.name])})
    name = ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in place.items()
    )
    return points(name or quantity.name, values, along.name, mean)


def _spans(values: Sequence[float] | np.ndarray) -> bool:
    """Whether these numbers are positive and span more than a decade."""
    finite = np.asarray(values, float)[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() / finite.min() > DECADE)
