"""The figure of a statement: title, legend, caption, and panels with points, curves and exponents, without overlaps.

A form is one version of the statement's claim, such as the version that a paper prints. A family is a kind of cases
that are checked together, such as runs on one data set. A knob is a setting that varies from case to case, such as the
width.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bounds import Form, Kind, Outcome, Statement
from experiments.formulas.prose import mathtext, prose
from experiments.pictures.scales import APART, Scale, bars, bring_together, linear, scaled
from experiments.pictures.words import caption_of, knob_words, left_words, ratio_word, sharpest, short, size_words
from experiments.studies.drawing import COLORS, MARKERS, STYLE
from verification.case_points import STORED, CasePoints, Curve
from verification.compare import IDENTITIES, SEVERITY
from verification.intervals import lower_limit, upper_limit
from verification.verdict_list import READ_AS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


REFUTES, EDGE = "#D55E00", "#C00000"
SHADE: dict[str, Any] = {"color": REFUTES, "alpha": 0.12, "lw": 0, "zorder": 0}


@dataclass
class Styles:
    """The colour and the marker of each family, which are the same in every panel."""

    families: tuple[str, ...]

    def __call__(self, family: str) -> tuple[str, str]:
        if family == STORED:
            return "#000000", "*"
        place = self.families.index(family)
        return COLORS[place % len(COLORS)], MARKERS[(place + place // len(COLORS)) % len(MARKERS)]


def points(
    axes: Axes, x: np.ndarray, y: np.ndarray, errors: Iterable[Any], color: str, marker: str, line: bool = False
) -> None:
    """Draw points with their error bars."""
    star = marker == "*"
    axes.plot(
        x,
        y,
        f"{marker}-" if line else marker,
        color=color,
        ms=8 if star else 3,
        mew=0.5 if star else 0,
        mec="white" if star else None,
        lw=0.7,
        alpha=1 if star or line else 0.75,
        zorder=5 if star else 3,
    )
    for name, lengths in zip(("xerr", "yerr"), errors, strict=True):
        if lengths is not None:
            some = lengths.any(axis=0)
            style: dict[str, Any] = {"fmt": "none", "ecolor": color, "elinewidth": 0.7, name: lengths[:, some]}
            axes.errorbar(x[some], y[some], capsize=1.5 if len(x) < 20 else 0, zorder=2, **style)


def by_family(seen: CasePoints) -> list[tuple[str, list[int]]]:
    """The numbers of the cases of each family, without cases in which a side of the claim is infinite."""
    finite = [i for i in range(len(seen.x)) if math.isfinite(seen.x[i]) and math.isfinite(seen.y[i])]
    numbered = [(name, [i for i in finite if seen.family[i] == n]) for n, name in enumerate(seen.families)]
    return [(name, chosen) for name, chosen in numbered if chosen]


def shade_refuted(axes: Axes, kind: Kind, xs: Scale, ys: Scale) -> None:
    """Shade the area in which a case would refute the claim, and draw the line left = right."""
    if kind is Kind.TWO_SIDED:
        for low, high in ((ys.low, 0), (1, ys.high)):
            axes.axhspan(low, high, **SHADE)
        for end in (0, 1):
            axes.axhline(end, color="black", lw=0.8, zorder=1)
        return
    if xs.log == ys.log:
        x = np.array(sorted({xs.low, xs.high, *(end for end in (ys.low, ys.high) if xs.low < end < xs.high)}))
    else:
        x = np.geomspace(xs.low, xs.high, 60) if xs.log else np.linspace(xs.low, xs.high, 60)
    line = np.clip(x, ys.low, ys.high)
    other = ys.low if kind is Kind.LOWER else ys.high
    axes.fill_between(x, line, other, **SHADE)
    axes.plot(x, np.where((x >= ys.low) & (x <= ys.high), x, np.nan), color="black", lw=0.8, zorder=1)


LABEL_LETTERS = 32  # the largest number of letters in a line
# at most PARTS parts of a claim are named below the axis, and the distribution of ratios is drawn if at least FEW of
# them differ
PARTS, FEW = 5, 4

Draw = Callable[["Axes"], None]


def panels_of(statement: Statement, seen: Mapping[Form, CasePoints], styles: Styles) -> list[tuple[str, Draw]]:
    """The titles and drawing functions of all panels.

    Each form has a panel. Further panels show curves, the ratio of the two sides against a knob, and how often a form
    fails, as far as there is something to show.
    """
    panels: list[tuple[str, Draw]] = []
    for form, form_seen in seen.items():
        claim = statement.forms[form]
        recorded = " ".join(filter(None, (claim.recorded.value, READ_AS.get(claim.nature))))
        head = f"{form.value} (recorded: {recorded})\n{sharpest(statement, form_seen)}"
        sides = partial(_sides, statement, form, form_seen, styles)
        panels.append((head, partial(_exponents, statement, form_seen, styles) if form_seen.exponents else sides))
    main = main_form(statement, seen)
    form_seen, more = seen[main], []
    prefix = f"{main.value}: " if len(seen) > 1 else ""
    sizes = [line for line in form_seen.curves if line.along == "size"]
    if sizes:
        more.append((f"{prefix}over the size", partial(_ladder, statement, sizes, styles)))
    elif form_seen.curves:
        along = "rounds" if form_seen.curves[0].along == "round" else "entries"
        head = f"{prefix}over the {along} of the\nsharpest case of a family"
        more.append((head, partial(_along, statement, form_seen, styles)))
    if not form_seen.exponents:
        more += [(f"{prefix}over {short(k)}", partial(_knob, statement, form_seen, k, styles)) for k in form_seen.knobs]
    if any(other.allowed for other in seen.values()):
        more.append(("how often it fails", partial(_shares, seen)))
    if not more and statement.kind is not Kind.RATE and len(set(form_seen.ratio)) >= FEW:
        more.append((f"{prefix}all cases", partial(_spread, statement, form_seen)))
    return panels + more


def main_form(statement: Statement, seen: Mapping[Form, CasePoints]) -> Form:
    """The form from which wrong variants (mutants) are made, or else the last form that was checked."""
    return statement.mutated_form if statement.mutated_form in seen else list(seen)[-1]


def _sides(statement: Statement, form: Form, seen: CasePoints, styles: Styles, axes: Axes) -> None:
    """Draw the left side of the claim against its right side, for all cases.

    The area in which a case would refute the claim is shaded.
    """
    kind = statement.kind
    xs, ys = scaled(seen.x, zero=1e-18), scaled(seen.y, zero=1e-18)
    identity, two_sided = kind in IDENTITIES, kind is Kind.TWO_SIDED
    if two_sided:
        ends = [0.0, 1.0, *(v for v in seen.y if math.isfinite(v))]
        pad = 0.08 * (max(ends) - min(ends))
        ys = Scale(False, None, min(ends) - pad, max(ends) + pad)
    elif not xs.log or not ys.log:
        both = linear([*seen.x, *seen.y]) if not (xs.log or ys.log) or min(*seen.x, *seen.y) < 0 else None
        xs, ys = (both, both) if both is not None else (xs, ys)
    else:
        bring_together(xs, ys)
    xs.apply(axes, "x")
    ys.apply(axes, "y")
    shade_refuted(axes, kind, xs, ys)
    for family, chosen in by_family(seen):
        color, marker = styles(family)
        x, y = (scale.place([column[i] for i in chosen]) for scale, column in ((xs, seen.x), (ys, seen.y)))
        errors = [
            bars(scale, at, [column[i] for i in chosen])
            for scale, at, column in ((xs, x, seen.x_error), (ys, y, seen.y_error))
        ]
        points(axes, x, y, errors, color, marker)
        bad = [n for n, i in enumerate(chosen) if SEVERITY[seen.outcome[i]] is Outcome.VIOLATED]
        axes.plot(x[bad], y[bad], "o", mfc="none", mec=EDGE, ms=6.5, mew=0.8, zorder=4)
    if identity:
        axes.set_xlabel("error of both sides / scale")
        axes.set_ylabel("|left $-$ right| / scale")
    elif two_sided:
        axes.set_xlabel("upper end of the claim")
        axes.set_ylabel("left: place between the ends\n(0 lower, 1 upper)")
    else:
        axes.set_xlabel("right side (the bound)")
        axes.set_ylabel(left_words(statement, form))


def _exponents(statement: Statement, seen: CasePoints, styles: Styles, axes: Axes) -> None:
    """Draw the difference of every fitted exponent from the claimed one, with its interval."""
    order = statement.kind is Kind.ORDER
    parts = sorted({exponent.part for exponent in seen.exponents})
    ends = [0.0]
    for part in parts:
        rows = [exponent for exponent in seen.exponents if exponent.part == part]
        for number, measured in enumerate(rows):
            at = part + 1 + (0.0 if len(rows) == 1 else 0.7 * (number / (len(rows) - 1) - 0.5))
            color, marker = styles(measured.family)
            off, half = measured.value - measured.claimed, measured.error + measured.claimed_error
            if not math.isfinite(off):
                continue
            half = half if math.isfinite(half) else 0.0
            points(axes, np.array([at]), np.array([off]), (None, np.array([[half], [half]])), color, marker)
            ends += [off - half, off + half]
            if off - half > 0 or (off + half < 0 and not order):
                axes.plot([at], [off], "o", mfc="none", mec=EDGE, ms=6.5, mew=0.8, zorder=4)
    axes.axhline(0, color="black", lw=0.8, zorder=1)
    pad = 0.12 * (max(ends) - min(ends)) or 0.1
    low, high = min(ends) - pad, max(ends) + pad
    if order:
        axes.axhspan(0, max(high, pad), **SHADE)
    axes.set_ylim(low, max(high, pad) if order else high)
    axes.set_xlim(0.4, max(parts) + 1.6)
    axes.grid(False, axis="x")
    claimed = {
        part: {f"{exponent.claimed:.3g}" for exponent in seen.exponents if exponent.part == part} for part in parts
    }
    if order:
        axes.set_xticks([])
        axes.set_xlabel("ladders of sizes")
        axes.set_ylabel("exponent of left/right in the size")
    else:
        named = len(parts) <= PARTS and all(len(numbers) == 1 for numbers in claimed.values())
        axes.set_xticks([part + 1 for part in parts])
        labels = [next(iter(claimed[part])) if named else f"{part + 1}" for part in parts]
        axes.set_xticklabels(labels, size=7 if len(parts) < 10 else 5.5)
        several = " of each part" if len(parts) > 1 else ""
        axes.set_xlabel(f"claimed value{several}" if named else "part of the claim")
        axes.set_ylabel("measured $-$ claimed")


def _ladder(statement: Statement, lines: Sequence[Curve], styles: Styles, axes: Axes) -> None:
    """Draw the fitted quantities against the size, each divided by its last value, beside the claimed power."""
    relative = len(lines) > 1
    order = statement.kind is Kind.ORDER
    shown, sizes = [], [size for line in lines for size in line.x]
    for number, line in enumerate(lines):
        y = np.asarray(line.y)
        unit = (y[np.argmax(line.x)] or 1.0) if relative else 1.0
        y = y / unit
        color, marker = styles(line.family)
        color = COLORS[number % len(COLORS)] if len(styles.families) == 1 and line.family != STORED else color
        bars = np.asarray(line.error) / abs(unit) if line.error else None
        positive = y > 0
        if bars is not None:
            bars = np.stack([np.minimum(bars, np.where(positive, 0.999 * y, 0)), bars])[:, positive]
            bars = np.where(np.isfinite(bars), bars, 0)
        x = np.asarray(line.x)[positive]
        points(axes, x, y[positive], (None, bars), color, marker, line=True)
        shown += [v for v in y[positive] if math.isfinite(v)]
        if line.claimed is not None and not order and len(x):
            last = np.argmax(x)
            power = y[positive][last] * (x / x[last]) ** line.claimed
            axes.plot(x, power, "--", color="black", lw=0.8, zorder=3)
            shown += list(power)
    scaled(sizes, log=True).apply(axes, "x")
    scaled(shown, log=True).apply(axes, "y")
    axes.set_xlabel(f"size: {size_words(lines)}")
    what = "left/right" if order else "fitted quantity"
    what += " / its value at the\nlargest size" if relative else ""
    axes.set_ylabel(what if order else f"{what}; dashed: claimed")


def _along(statement: Statement, seen: CasePoints, styles: Styles, axes: Axes) -> None:
    scale = _ratio_scale(statement, [v for line in seen.curves for v in line.y])
    last = max(line.x[-1] for line in seen.curves)
    first = min(line.x[0] for line in seen.curves)
    for line in seen.curves:
        color, marker = styles(line.family)
        axes.plot(line.x, scale.place(line.y), f"{marker}-", color=color, ms=2.2, lw=0.7)
    Scale(False, None, first - 0.03 * (last - first), last + 0.03 * (last - first)).apply(axes, "x")
    _ratio_axis(axes, statement, scale)
    axes.set_xlabel("round $t$" if seen.curves[0].along == "round" else "entry of the left side")


def _knob(statement: Statement, seen: CasePoints, name: str, styles: Styles, axes: Axes) -> None:
    scale, values = _ratio_scale(statement, seen.ratio), seen.knobs[name]
    finite = [v for v in values if math.isfinite(v)]
    wide = min(finite) > 0 and max(finite) / min(finite) > 30
    across = scaled(finite, log=True) if wide else linear(finite)
    across.apply(axes, "x")
    for family, chosen in by_family(seen):
        color, marker = styles(family)
        x, y = np.array([values[i] for i in chosen]), scale.place([seen.ratio[i] for i in chosen])
        points(axes, x, y, (None, None), color, marker)
        bad = [n for n, i in enumerate(chosen) if SEVERITY[seen.outcome[i]] is Outcome.VIOLATED]
        axes.plot(x[bad], y[bad], "o", mfc="none", mec=EDGE, ms=6.5, mew=0.8, zorder=4)
    _ratio_axis(axes, statement, scale)
    axes.set_xlabel(textwrap.fill(knob_words(statement, name), LABEL_LETTERS))


def _spread(statement: Statement, seen: CasePoints, axes: Axes) -> None:
    scale = _ratio_scale(statement, seen.ratio)
    values = np.sort(scale.place([v for v in seen.ratio if math.isfinite(v)]))
    shares = np.arange(len(values) + 1) / max(len(values), 1)
    axes.step([scale.low, *values], shares, where="post", color=COLORS[0], lw=1)
    scale.apply(axes, "x")
    if statement.kind not in IDENTITIES:
        axes.axvspan(1, max(scale.high, 1), **SHADE)
        axes.axvline(1, color="black", lw=0.8, zorder=1)
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel(ratio_word(statement))
    axes.set_ylabel("share of the cases up to here")


def _shares(seen: Mapping[Form, CasePoints], axes: Axes) -> None:
    """Draw the share of cases that failed, with its 95% interval, beside the probability of failure that is allowed."""
    rows = []
    for form, form_seen in seen.items():
        cases, failed, pair = form_seen.cases, form_seen.failed, form_seen.allowed
        if cases and failed is not None and pair is not None:
            triple = (lower_limit(failed, cases, 0.975), failed / cases, upper_limit(failed, cases))
            rows.append((form.value, triple, pair))
    scale = scaled([1.0, *(v for _, triple, pair in rows for v in (*triple, *pair))], log=True)
    for row, (_, triple, pair) in enumerate(rows):
        low, middle, high = scale.place(triple)
        axes.plot([low, high], [row, row], "-", color=COLORS[0], lw=1.2)
        axes.plot([middle], [row], "o", color=COLORS[0], ms=4)
        ends = scale.place(pair)
        axes.plot(ends, [row + 0.22] * 2, "-", color=REFUTES, lw=1.2)
        axes.plot(ends, [row + 0.22] * 2, "v", color=REFUTES, ms=4)
    scale.apply(axes, "x")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], rotation=90, va="center")
    axes.set_ylim(-0.6, len(rows) - 0.3)
    axes.set_xlabel("probability: failed (95% interval);\ntriangle: allowed")


def _ratio_scale(statement: Statement, ratios: Sequence[float]) -> Scale:
    scale = scaled([abs(v) for v in ratios], zero=1e-18 if statement.kind in IDENTITIES else 1e-3)
    if statement.kind not in IDENTITIES and scale.high < 1 and 1 / scale.high < 10.0**APART:
        scale.high = 1.6
    return scale


def _ratio_axis(axes: Axes, statement: Statement, scale: Scale) -> None:
    scale.apply(axes, "y")
    axes.set_ylabel(ratio_word(statement))
    if statement.kind not in IDENTITIES and scale.low <= 1 <= scale.high:
        axes.axhline(1, color="black", lw=0.8, zorder=1)
        axes.axhspan(1, scale.high, **SHADE)


# a row has COLUMNS panels; in inches, a panel is WIDE, and the axes of a panel are HIGH
COLUMNS, WIDE, HIGH = 3, 2.45, 1.75
LEFT, RIGHT, ABOVE, BELOW = 0.75, 0.12, 0.38, 0.54  # space around the axes of a panel, in inches
LINE, LETTER = 0.145, 0.0565  # in inches, the height of a line of text and the width of a letter in the legend
# in inches, the width of a phone, and the size of a picture of one panel without words around it
PHONE, THUMB = 3.6, (2.6, 2.2)
CROWD = 8  # with more families than this, the legend is small
# an inch of a title or of a caption has this many letters, and a mark of a legend takes the room of TAB letters
TITLE_LETTERS, CAPTION_LETTERS, TAB = 12.5, 20, 4
# commands of mathtext around a letter, and characters that mathtext does not draw
SET = re.compile(r"\\mathrm|[${}_^]")


def drawn(
    statement: Statement,
    seen: Mapping[Form, CasePoints],
    *,
    seed: int = 0,
    most: int | None = None,
    narrow: bool = False,
) -> Figure:
    """The figure of a statement, with the panels of `panels_of`.

    Args:
        statement: the statement, for its words.
        seen: the points of each checked form.
        seed: the seed of the first case, for the caption; default 0.
        most: the largest number of panels; the panels of the forms come first; default all panels.
        narrow: whether panels stand below each other, as wide as a phone; default False.

    Raises:
        ValueError: no form has any case.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not seen:
        raise ValueError(
            f"no case of {statement.id} met its hypotheses, so there is nothing to draw; choose other options"
        )
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
    """A small picture with the first panel of one form.

    The form is that from which wrong variants (mutants) are made, or else the last form that was checked.

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
    """A legend, which has marks with their names in columns."""

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
    """The legend of these forms, for a figure of a given width in inches."""
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
