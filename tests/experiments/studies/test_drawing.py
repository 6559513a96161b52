"""Tests of charts: their tables are complete, and their files have the same bytes every time."""

import csv

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from experiments.studies.chart import COLUMNS, Chart, Heatmap, Label, Panel, Series, table
from experiments.studies.drawing import COLORS, MARKERS, draw, save, shown

WIDTH = Label("width m", "neurons", log=True)
LINES = Panel(
    "both",
    WIDTH,
    Label("value", log=True),
    (
        Series("run", "measured", [64, 128], [1.0, 0.5], [0.9, 0.4], [1.1, float("nan")]),
        Series("m^(-1/2)", "theory", [64, 128], [1.0, 0.7], of="run"),
        Series("at most", "bound", [64, 128], [2.0, 2.0]),
    ),
)
MAP = Heatmap(
    "map",
    Label("a", log=True),
    Label("b"),
    Label("rate"),
    [0.1, 1.0, 10.0],
    [1.0, 2.0],
    [[1.0, 2.0, float("nan")], [4.0, 5.0, 6.0]],
    (Series("limit", "theory", [0.1, 10.0], [1.5, 1.5]),),
)
NAMED = Panel(
    "exponents",
    Label("", names=("first", "second")),
    Label("exponent"),
    (Series("measured", "measured", [0, 1], [-0.5, -0.6], [-0.6, -0.7], [-0.4, -0.5]),),
    sideways=True,
)
CHART = Chart("mixed", "A caption.", "What one would see.", (LINES, MAP, NAMED))


def test_the_table_has_a_row_for_every_point_and_every_cell_of_a_map():
    rows = table(CHART)
    assert len(rows) == 6 + 6 + 2 + 2
    assert rows[0] == ("both", "run", "measured", 64, 1.0, 0.9, 1.1, None)
    assert ("both", "at most", "bound", 128, 2.0, None, None, None) in rows
    assert ("map", "rate", "measured", 10.0, 2.0, None, None, 6.0) in rows


@pytest.mark.parametrize(
    ("lower", "upper", "says"),
    [([0.0], [1.0], r"columns of the lengths \[2, 2, 1, 1\]"), ([0.0, 0.0], None, "one end of its intervals")],
)
def test_columns_that_do_not_fit_are_refused(lower, upper, says):
    with pytest.raises(ValueError, match=says):
        Series("run", "measured", [1, 2], [1, 2], lower, upper)


def test_files_are_the_same_bytes_every_time_and_the_csv_is_the_table(tmp_path):
    first, second = (save(CHART, tmp_path / name) for name in ("one", "two"))
    assert [path.suffix for path in first] == [".png", ".svg", ".csv"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    with first[2].open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert rows == [["" if value is None else str(value) for value in row] for row in table(CHART)]


def test_the_figure_has_the_labels_scales_and_intervals_of_the_chart():
    figure = draw(CHART)
    lines, named = (next(axes for axes in figure.axes if axes.get_title() == title) for title in ("both", "exponents"))
    assert lines.get_xlabel() == "width m [neurons]" and lines.get_xscale() == lines.get_yscale() == "log"
    (bars,) = lines.containers
    ends = np.array(bars.lines[2][0].get_segments())[:, :, 1]
    # A NaN means that there is no upper bar.
    assert ends[0] == pytest.approx([0.9, 1.1]) and ends[1] == pytest.approx([0.4, 0.5])
    assert [tick.get_text() for tick in named.get_yticklabels()] == ["first", "second"]
    assert named.get_xlabel() == "exponent"


def test_a_theory_has_the_colour_of_what_is_measured_and_one_entry_with_it():
    figure = draw(Chart("one", "", "", (LINES,)))
    axes, below = figure.axes
    theory = next(line for line in axes.lines if line.get_linestyle() == "--")
    assert theory.get_color() == axes.containers[0].lines[0].get_color()
    legend = below.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["run, dashed: $m^{-1/2}$", "at most"]
    assert figure.get_size_inches()[0] == 3.5 and draw(CHART).get_size_inches()[0] == 7.0


def test_series_are_told_apart_in_grey():
    """Series that follow each other differ in marker, and differ in lightness by at least a tenth of the range."""
    assert len(set(MARKERS)) == len(MARKERS) == len(COLORS)
    rgb = np.array([[int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)] for color in COLORS])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness = 1.16 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 0.16
    assert np.abs(np.diff(lightness)).min() > 0.1


def test_what_has_no_logarithm_is_left_out_of_a_logarithmic_axis():
    nothing = Series("run", "measured", [1, 2], [0.0, -1.0], [0.0, -2.0], [0.1, 0.0])
    (axes, _) = draw(Chart("none", "", "", (Panel("", WIDTH, Label("value", log=True), (nothing,)),))).axes
    assert np.isnan(axes.containers[0].lines[0].get_ydata()).all()


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("eta_local = 0.1", "$η_{\\mathrm{local}}$ = 0.1"),
        ("max_t |y_inf(t)| <= m^(-1/2)", "max_t |$y_{\\infty}$(t)| ≤ $m^{-1/2}$"),
        ("costs 3 $, x_{k,c}^2", r"costs 3 \$, $x_{k,c}^{2}$"),
        ("|H(t,k) - H(t,k)^T|_F of |r|^2", "|H(t,k) - H(t,k$)^{T}$$|_{F}$ of |r$|^{2}$"),
        ("plain words of fc:3:relu", "plain words of fc:3:relu"),
    ],
)
def test_letters_indices_and_powers_are_set_as_such(text, drawn):
    assert shown(text) == drawn


def test_no_text_reaches_beyond_the_figure():
    """No text leaves the figure, even if the title, the entries and the labels are long, in one column and in two."""
    says = "the largest of all distances of the network's outputs from those of its own kernel regime, over |r(0)|"
    panel = Panel(says, Label(says, log=True), Label(says), (Series(says, "measured", [1.0, 2.0], [1.0, 2.0]),))
    for panels in ((panel,), (panel, panel)):
        figure = draw(Chart("long", "", "", panels))
        FigureCanvasAgg(figure).draw()
        width, height = figure.canvas.get_width_height()
        for axes in figure.axes:
            legend = axes.get_legend()
            texts = [axes.title, axes.xaxis.label, axes.yaxis.label, *(legend.get_texts() if legend else [])]
            for box in (text.get_window_extent() for text in texts if text.get_text()):
                assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height


def test_more_series_than_colours_are_still_told_apart():
    lines = tuple(Series(f"s{k}", "measured", [1.0, 2.0], [k + 1.0, k + 2.0]) for k in range(2 * len(COLORS)))
    axes, _ = draw(Chart("many", "", "", (Panel("", WIDTH, Label("value"), lines),))).axes
    styles = {(bars.lines[0].get_color(), bars.lines[0].get_marker()) for bars in axes.containers}
    assert len(styles) == len(lines)
