"""Charts drawn at the size of publications, and saved with their tables.

Drawing the same chart again gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.formulas.prose import mathtext, prose
from experiments.studies.chart import COLUMNS, Chart, Heatmap, Label, Panel, Series, table

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container
    from matplotlib.figure import Figure

SINGLE, DOUBLE = 3.5, 7.0  # in inches, the widths of one and of two columns of a journal
# in inches, the heights of a panel, of a line of a legend, and of a named place on an axis
HEIGHT, LEGEND_LINE, PLACE = 2.3, 0.16, 0.2
DPI = 150
# By format, the metadata that say when and how a picture was made. These metadata are left out, so that a picture has
# the same bytes every time.
UNTOLD = {"png": ("Software",), "svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
LETTER, TITLE_LINE = 0.062, 0.14  # in inches, the width of a letter and the height of a further line of a title
# in inches, the margin beside titles and legends, and the largest width of the name of a place on an axis
MARGIN, NAME = 0.6, 4.0
WITHIN = 300.0  # a logarithmic axis whose ends have at most this ratio has numbers as ticks, not powers of ten
# a logarithmic axis has ticks at about FEW of its points, or at powers of ten if there are more than MANY points
FEW, MANY = 6, 12
# these colours can be told apart by colour-blind readers
COLORS = ("#0072B2", "#E69F00", "#8B3A8B", "#009E73", "#222222", "#D55E00", "#56B4E9")
MARKERS = "osD^vPX"
# these colours are visible on all colours of a heatmap, on light and on dark pages
OVER = ("#F5F5F5", "#FF6F59", "#7FFFD4")
DASHES = {"theory": "--", "bound": ":"}
LINES = {"measured": "points", "theory": "dashed", "bound": "dotted"}
STYLE: dict[Any, Any] = {  # Any, because matplotlib types the keys as a list of names
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "svg.fonttype": "path",
}


def save(chart: Chart, folder: Path) -> tuple[Path, ...]:
    """Write the chart as .png (150 dpi) and .svg and its table as .csv, and return the paths.

    Args:
        chart: the chart to draw.
        folder: the folder of the files.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, rows = (folder / f"{chart.name}.{suffix}" for suffix in ("png", "svg", "csv"))
    figure = draw(chart)
    for picture in (png, svg):
        picture.write_bytes(as_bytes(figure, picture.suffix[1:], chart.name))
    with rows.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(table(chart))
    return png, svg, rows


def as_bytes(figure: Figure, suffix: str, name: str) -> bytes:
    """The bytes of the figure as a .png, .svg or .pdf file, which are the same every time.

    Args:
        figure: the figure to write.
        suffix: the format, which is png, svg or pdf.
        name: the prefix of the ids of the SVG.
    """
    import matplotlib

    file = io.BytesIO()
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name, "pdf.fonttype": 42}):
        dpi = DPI if suffix == "png" else "figure"
        figure.savefig(file, format=suffix, dpi=dpi, metadata=dict.fromkeys(UNTOLD[suffix]))
    return file.getvalue()


def draw(chart: Chart) -> Figure:
    """The chart as a figure.

    The figure is as wide as one column of a journal, or as two columns if it has several panels or names along an axis.

    The legend of a panel is below the panel, where it hides nothing.

    Args:
        chart: the chart to draw.
    """
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(2, len(chart.panels))
    rows = [chart.panels[first : first + columns] for first in range(0, len(chart.panels), columns)]
    wide = columns == 2 or any(isinstance(panel, Panel) and panel.sideways for panel in chart.panels)
    across = DOUBLE if wide and columns == 1 else SINGLE
    heights: list[float] = []
    for side_by_side in rows:
        lines = (sum(entry.count("\n") + 1 for entry in _entries(panel, across).values()) for panel in side_by_side)
        heights += [max(_height(panel, across) for panel in side_by_side), 0.1 + LEGEND_LINE * max(lines)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(DOUBLE if wide else SINGLE, sum(heights)), layout="constrained")
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        for place, panel in enumerate(chart.panels):
            row, column = divmod(place, columns)
            axes, below = (figure.add_subplot(grid[2 * row + part, column]) for part in range(2))
            below.axis("off")
            if isinstance(panel, Heatmap):
                _draw_heatmap(figure, axes, below, panel, across)
            else:
                _draw_panel(axes, below, panel, across)
    return figure


def shown(text: str, across: float = DOUBLE) -> str:
    """A text with Greek letters, indices and powers, broken into lines of at most `across` inches.

    Args:
        text: plain text, such as "y_inf(t) ~ m^(-1/2)".
        across: the width in inches; default 7.
    """
    lines = textwrap.wrap(prose(text), int(across / LETTER), break_long_words=False)
    return "\n".join(map(mathtext, lines))


def _height(panel: Panel | Heatmap, across: float) -> float:
    places = len(panel.x.names) if isinstance(panel, Panel) and panel.sideways else 0
    return HEIGHT + PLACE * max(places - 8, 0) + TITLE_LINE * shown(panel.title, across - MARGIN).count("\n")


def _entries(panel: Panel | Heatmap, across: float) -> dict[str, str]:
    """The words of the legend for each series; a series of theory is named beside its measured series."""
    series = panel.over if isinstance(panel, Heatmap) else panel.series
    theories: dict[str, str] = {}
    for line in series:
        if line.of:
            theories[line.of] = theories.get(line.of, "") + f", {LINES[line.role]}: {line.name}"
    return {
        line.name: shown(line.name + theories.get(line.name, ""), across - MARGIN) for line in series if not line.of
    }


def _draw_panel(axes: Axes, below: Axes, panel: Panel, across: float) -> None:
    styles: dict[str, tuple[str, str]] = {}
    handles: dict[str, Any] = {}
    for series in panel.series:
        if series.of:
            style = styles[series.of]
        else:
            turn, place = divmod(len(styles), len(COLORS))  # the colours repeat from the eighth series on
            style = styles[series.name] = COLORS[place], MARKERS[(place + turn) % len(MARKERS)]
        handle = _draw_series(axes, series, *style, panel)
        if not series.of:
            handles[series.name] = handle
    _scale(axes, panel.x, panel.y, panel.sideways, sorted({at for series in panel.series for at in series.x}))
    axes.set_title(shown(panel.title, across - MARGIN))
    below.legend(handles.values(), _entries(panel, across).values(), loc="upper center", borderaxespad=0, frameon=False)


def _draw_series(axes: Axes, series: Series, color: str, marker: str, panel: Panel) -> Artist | Container:
    x, y = (
        np.where(label.log & (at <= 0), np.nan, at)  # a value that has no logarithm has no place on the axis
        for label, at in ((panel.x, np.asarray(series.x, float)), (panel.y, np.asarray(series.y, float)))
    )
    sideways = panel.sideways
    points = (y, x) if sideways else (x, y)
    if series.role != "measured":
        if sideways:
            return axes.plot(*points, "|", color=color, ms=11, mew=1.6, zorder=2)[0]
        return axes.plot(*points, DASHES[series.role], color=color, lw=1.2, zorder=2)[0]
    ends = None
    if series.lower is not None and series.upper is not None:
        ends = np.nan_to_num(np.clip(np.stack([y - series.lower, series.upper - y]), 0, None))
    return axes.errorbar(
        *points,
        xerr=ends if sideways else None,
        yerr=None if sideways else ends,
        fmt=marker if sideways or ends is None else f"{marker}-",
        color=color,
        ms=3.5,
        lw=0.6,
        elinewidth=1,
        capsize=2,
    )


def _draw_heatmap(figure: Figure, axes: Axes, below: Axes, panel: Heatmap, across: float) -> None:
    values = np.ma.masked_invalid(np.asarray(panel.values, float))
    edges = [_edges(at, label.log) for at, label in ((panel.x_values, panel.x), (panel.y_values, panel.y))]
    mesh = axes.pcolormesh(*edges, values, cmap="cividis", rasterized=True)
    figure.colorbar(mesh, ax=axes, label=_text(panel.color))
    lines = []
    for place, series in enumerate(panel.over):
        style = "o" if series.role == "measured" else ("--", ":", "-.")[place % 3]
        color = OVER[place % len(OVER)]
        lines += axes.plot(series.x, series.y, style, color=color, lw=1.6, ms=3, mec="#101010", mew=0.4)
    _scale(axes, panel.x, panel.y, False, panel.x_values)
    axes.grid(False)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    axes.set_title(shown(panel.title, across - MARGIN))
    if lines:
        names = _entries(panel, across).values()
        below.legend(lines, names, loc="upper center", borderaxespad=0, facecolor="#777777", labelcolor=OVER[0])


def _edges(centres: Sequence[float], log: bool) -> np.ndarray:
    """The edges of the intervals that surround these values."""
    at = np.log(centres) if log else np.asarray(centres, float)
    steps = np.diff(at) if len(at) > 1 else np.array([1.0])
    ends = np.concatenate([[at[0] - steps[0] / 2], at[:-1] + np.diff(at) / 2, [at[-1] + steps[-1] / 2]])
    return np.exp(ends) if log else ends


def _scale(axes: Axes, x: Label, y: Label, sideways: bool, places: Sequence[float] = ()) -> None:
    """Set scale, ticks and name of both axes.

    `places` are the abscissas of the points, a few of which become the ticks of a logarithmic axis.
    """
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    across, down = (y, x) if sideways else (x, y)
    for label, axis, scale, named, values in (
        (across, axes.xaxis, axes.set_xscale, axes.set_xlabel, places),
        (down, axes.yaxis, axes.set_yscale, axes.set_ylabel, []),
    ):
        if label.log:
            scale("log")
            if 1 < len(values) <= MANY:
                few = values[:: math.ceil(len(values) / FEW)]
                axis.set_ticks(few, [f"{value:g}" for value in few])
                axis.set_ticks([], minor=True)
            else:
                low, high = axis.get_view_interval()
                if 0 < low < high < WITHIN * low:
                    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                    axis.set_major_formatter(FormatStrFormatter("%g"))
                    axis.set_ticks([], minor=True)
        if label.names:
            axis.set_ticks(range(len(label.names)), [shown(name, NAME) for name in label.names])
        named(_text(label))
    if sideways:
        axes.invert_yaxis()


def _text(label: Label) -> str:
    return shown(label.says if label.unit == "1" else f"{label.says} [{label.unit}]", HEIGHT)
