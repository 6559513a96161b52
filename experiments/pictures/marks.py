"""Points, the families' colours, and the shade over the area that would refute a claim."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bounds import Kind
from experiments.pictures.scales import Scale
from experiments.studies.drawing import COLORS, MARKERS
from verification.seen import STORED, Seen

if TYPE_CHECKING:
    from matplotlib.axes import Axes


REFUTES, EDGE = "#D55E00", "#C00000"
SHADE: dict[str, Any] = {"color": REFUTES, "alpha": 0.12, "lw": 0, "zorder": 0}


@dataclass
class Styles:
    """One colour and marker for each family, the same in every panel."""

    families: tuple[str, ...]

    def __call__(self, family: str) -> tuple[str, str]:
        if family == STORED:
            return "#000000", "*"
        place = self.families.index(family)
        return COLORS[place % len(COLORS)], MARKERS[(place + place // len(COLORS)) % len(MARKERS)]


def points(
    axes: Axes, x: np.ndarray, y: np.ndarray, errors: Iterable[Any], color: str, marker: str, line: bool = False
) -> None:
    """Points with their error bars."""
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
    for name, bars in zip(("xerr", "yerr"), errors, strict=True):
        if bars is not None:
            some = bars.any(axis=0)
            style: dict[str, Any] = {"fmt": "none", "ecolor": color, "elinewidth": 0.7, name: bars[:, some]}
            axes.errorbar(x[some], y[some], capsize=1.5 if len(x) < 20 else 0, zorder=2, **style)


def by_family(seen: Seen) -> list[tuple[str, list[int]]]:
    """The rows of each family, without rows with an infinite side."""
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
