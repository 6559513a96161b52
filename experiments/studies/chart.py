"""A chart as data, with a table of its numbers that can be saved, tested and read aloud."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["measured", "theory", "bound"]
Row = tuple[str, str, str, float, float, float | None, float | None, float | None]

COLUMNS = ("panel", "series", "role", "x", "y", "lower", "upper", "value")


@dataclass(frozen=True)
class Label:
    """The quantity of an axis, and its unit ("1" for a pure number).

    `names` has the names of the places 0, 1, 2, ... on an axis without numbers.
    """

    says: str
    unit: str = "1"
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """Points that belong together; `lower` and `upper` are the ends of their intervals, if they have intervals.

    For a theory, `of` names the measured series beside it; both are drawn in the same colour.

    Raises:
        ValueError: columns of different lengths, or only one end of the intervals.
    """

    name: str
    role: Role
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float] | None = None
    upper: Sequence[float] | None = None
    of: str = ""

    def __post_init__(self) -> None:
        if (self.lower is None) != (self.upper is None):
            raise ValueError(f"series {self.name!r} has one end of its intervals; it must have both or neither")
        lengths = [len(column) for column in (self.x, self.y, self.lower, self.upper) if column is not None]
        if len(set(lengths)) > 1:
            raise ValueError(f"series {self.name!r} has columns of the lengths {lengths}; they must agree")


@dataclass(frozen=True)
class Panel:
    """A pair of axes with its series; `sideways`: x runs down the page and y across it."""

    title: str
    x: Label
    y: Label
    series: tuple[Series, ...]
    sideways: bool = False


@dataclass(frozen=True)
class Heatmap:
    """Values over two axes, `values[i][j]` at (x[j], y[i]), with curves drawn over them."""

    title: str
    x: Label
    y: Label
    color: Label
    x_values: Sequence[float]
    y_values: Sequence[float]
    values: Sequence[Sequence[float]]
    over: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure: the `name` of its files, its `caption`, with n and seeds, and its `alt` text."""

    name: str
    caption: str
    alt: str
    panels: tuple[Panel | Heatmap, ...]


def table(chart: Chart) -> list[Row]:
    """The drawn numbers, a row for each point, in the order of COLUMNS; `value` is the colour of a heatmap's cell.

    Args:
        chart: the chart to draw.
    """
    return [row for panel in chart.panels for row in _rows(panel)]


def _rows(panel: Panel | Heatmap) -> list[Row]:
    rows: list[Row] = []
    if isinstance(panel, Heatmap):
        for y, line in zip(panel.y_values, panel.values, strict=True):
            cells = zip(panel.x_values, line, strict=True)
            rows += [(panel.title, panel.color.says, "measured", x, y, None, None, value) for x, value in cells]
    for series in panel.over if isinstance(panel, Heatmap) else panel.series:
        ends = [[None] * len(series.x) if end is None else end for end in (series.lower, series.upper)]
        points = zip(series.x, series.y, *ends, strict=True)
        rows += [(panel.title, series.name, series.role, x, y, low, high, None) for x, y, low, high in points]
    return rows
