"""A chart as data, and the table of its numbers, which can be saved, tested and read aloud."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["measured", "theory", "bound"]
Row = tuple[str, str, str, float, float, float | None, float | None, float | None]

COLUMNS = ("panel", "series", "role", "x", "y", "lower", "upper", "value")


@dataclass(frozen=True)
class Label:
    """What an axis shows, and the unit ("1" for a pure number).

    On an axis without numbers, `names` are the names of its places 0, 1, 2 and so on.
    """

    says: str
    unit: str = "1"
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    `lower` and `upper` are the ends of the points' intervals, if they have intervals.

    If the series shows theory, `of` names the measured series that it is compared with. Both are drawn in the same
    colour.

    Raises:
        ValueError: the columns have different lengths, or only one end of the intervals is given.
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
    """A pair of axes with its series.

    If `sideways` is true, x runs down the page and y across it.
    """

    title: str
    x: Label
    y: Label
    series: tuple[Series, ...]
    sideways: bool = False


@dataclass(frozen=True)
class Heatmap:
    """Values over two axes as colours, with `values[i][j]` at (x[j], y[i]), and the curves `over` drawn on top."""

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
    """A figure of one or several panels.

    `name` is the name of its files, and `alt` describes it for readers who do not see it. The `caption` says the number
    n of samples and the number of seeds.
    """

    name: str
    caption: str
    alt: str
    panels: tuple[Panel | Heatmap, ...]


def table(chart: Chart) -> list[Row]:
    """The drawn numbers, in a row for each point with the columns COLUMNS.

    The column "value" has the number that a colour of a heatmap shows.

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
