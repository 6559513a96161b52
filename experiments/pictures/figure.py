"""The figure of a statement: its panels, title, legend and caption, without overlaps."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bounds import Form, Kind, Outcome, Statement
from experiments.formulas.prose import mathtext, prose
from experiments.pictures.panels import EDGE, REFUTES, Styles, main_form, panels_of
from experiments.pictures.words import caption_of
from experiments.studies.drawing import STYLE
from verification.case_points import STORED, CasePoints
from verification.compare import SEVERITY

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLUMNS, WIDE, HIGH = 3, 2.45, 1.75  # panels in a row; inches of a panel's width, and of the height of its axes
LEFT, RIGHT, ABOVE, BELOW = 0.75, 0.12, 0.38, 0.54  # inches around the axes of a panel
LINE, LETTER = 0.145, 0.0565  # inches: a line of text, a letter of the legend
PHONE, THUMB = 3.6, (2.6, 2.2)  # inches: the width of a phone; a picture of one panel without words around it
CROWD = 8  # families that make the legend small
TITLE_LETTERS, CAPTION_LETTERS, TAB = 12.5, 20, 4  # letters in an inch of a title, of a caption; beside a legend's mark
SET = re.compile(r"\\mathrm|[${}_^]")  # commands of mathtext round a letter, and characters that it does not draw


def drawn(
    statement: Statement,
    seen: Mapping[Form, CasePoints],
    *,
    seed: int = 0,
    most: int | None = None,
    narrow: bool = False,
) -> Figure:
    """The figure of a statement: a panel for each form, one of the ratio against a varying knob, one of failures.

    Args:
        statement: the statement, for its words.
        seen: the points of each checked form.
        seed: the first of the cases, for the caption; default 0.
        most: the largest number of panels; the panels of forms come first; default all.
        narrow: whether panels stand below each other, as wide as a phone; default False.

    Raises:
        ValueError: no form was seen on any case.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not seen:
        raise ValueError(f"no case of {statement.id} was admitted, so there is nothing to draw; choose other options")
    styles = _styles(seen)
    families = styles.families
    panels = panels_of(statement, seen, styles)[:most]
    columns = 2 if len(panels) == COLUMNS + 1 and len(families) <= CROWD else min(COLUMNS, len(panels))
    columns, width = (1, PHONE) if narrow else (columns, max(WIDE * columns, 2 * WIDE))
    rows = math.ceil(len(panels) / columns)
    title = textwrap.wrap(f"{statement.id}: {statement.title}", int(width * TITLE_LETTERS))
    caption = textwrap.wrap(caption_of(statement, seen, seed), int(width * CAPTION_LETTERS))
    legend = _legend_of(statement, seen, styles, width)
    heights = (0.1 + LINE * 1.2 * len(title), HIGH + ABOVE + BELOW, legend.height)
    height = heights[0] + rows * heights[1] + heights[2] + LINE * len(caption) + 0.08
    with matplotlib.rc_context(STYLE | {"font.size": 7, "axes.titlesize": 7.5, "legend.fontsize": 7}):
        figure = Figure(figsize=(width, height))
        for place, (head, draw) in enumerate(panels):
            row, column = divmod(place, columns)
            top = height - heights[0] - row * heights[1] - ABOVE
            across = width / columns
            left, wide = column * across + LEFT, across - LEFT - RIGHT
            axes = figure.add_axes((left / width, (top - HIGH) / height, wide / width, HIGH / height))
            axes.set_title(head, pad=4)
            draw(axes)
        figure.text(0.5, 1 - 0.06 / height, "\n".join(title), ha="center", va="top", size=8.5, weight="bold")
        legend.draw(figure, (LINE * len(caption) + 0.1) / height)
        figure.text(0.5, 0.06 / height, "\n".join(caption), ha="center", va="bottom", size=6.5)
    return figure


def thumbnail(statement: Statement, seen: Mapping[Form, CasePoints], *, legend: bool = False) -> Figure:
    """The first panel of the form from which mutants are made, or else of the last form seen.

    Args:
        statement: the statement, for its words.
        seen: the points of each checked form.
        legend: whether the families are named below the panel; default False.
    """
    import matplotlib
    from matplotlib.figure import Figure

    form, styles = main_form(statement, seen), _styles(seen)
    (_, draw), *_ = panels_of(statement, {form: seen[form]}, styles)
    width, height = THUMB
    below, above = BELOW, 0.08
    named = _legend_of(statement, {form: seen[form]}, styles, width) if legend else None
    if named is not None:
        height, below = height + named.height, below + named.height
    with matplotlib.rc_context(STYLE | {"font.size": 7}):
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes(
            (LEFT / width, below / height, (width - LEFT - RIGHT) / width, (height - below - above) / height)
        )
        draw(axes)
        if named is not None:
            named.draw(figure, 0.04 / height)
    return figure


def _styles(seen: Mapping[Form, CasePoints]) -> Styles:
    return Styles(
        tuple(dict.fromkeys(name for form_seen in seen.values() for name in form_seen.families if name != STORED))
    )


@dataclass(frozen=True)
class _Legend:
    """Marks by their names, in columns."""

    marks: dict[str, Any]
    columns: int
    small: int  # size of the letters in points

    @property
    def height(self) -> float:
        """The height in inches."""
        return LINE * math.ceil(len(self.marks) / self.columns) + 0.06

    def draw(self, figure: Figure, bottom: float) -> None:
        """Draw the legend above this height of the figure."""
        figure.legend(
            list(self.marks.values()),
            list(self.marks),
            loc="lower center",
            bbox_to_anchor=(0.5, bottom),
            ncols=self.columns,
            fontsize=self.small,
            frameon=False,
            borderaxespad=0,
            borderpad=0,
            labelspacing=0.25,
            columnspacing=1.2,
            handletextpad=0.5,
            handlelength=1.6,
        )


def _legend_of(statement: Statement, seen: Mapping[Form, CasePoints], styles: Styles, width: float) -> _Legend:
    """The legend of these forms for a figure of this width in inches."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str, Any] = {}
    for family in _styles(seen).families:
        color, marker = styles(family)
        marks[mathtext(prose(family))] = Line2D([], [], ls="", marker=marker, color=color, ms=3.5, mew=0)
    if any(STORED in form_seen.families for form_seen in seen.values()):
        marks["stored case"] = Line2D([], [], ls="", marker="*", color="black", ms=7, mew=0)
    if any(SEVERITY[o] is Outcome.VIOLATED for form_seen in seen.values() for o in form_seen.outcome):
        marks["violates it"] = Line2D([], [], ls="", marker="o", mfc="none", mec=EDGE, ms=6, mew=0.8)
    if statement.kind is not Kind.RATE:
        marks["would refute it"] = Patch(color=REFUTES, alpha=0.2, lw=0)
    small = 6 if len(marks) > CROWD else 7
    letters = max(len(SET.sub("", name)) for name in marks) + TAB
    return _Legend(marks, max(1, min(len(marks), int(width / (LETTER * small / 7 * letters)))), small)
