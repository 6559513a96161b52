"""The picture of a miniature's curves: each setting's mean over the seeds, in a panel for each baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.miniatures.cells import Cell
from experiments.miniatures.miniature import Miniature, Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
FIRST_COLOURS = 10  # how many of matplotlib's colours C0, C1, ... are used


def with_curves(miniature: Miniature) -> tuple[Quantity, ...]:
    """The quantities whose `flat` limits the change of a curve at its plateau.

    Only these quantities are stored and drawn as curves.
    """
    return tuple(quantity for quantity in miniature.quantities if quantity.flat is not None)


def drawn(miniature: Miniature, cells: Sequence[Cell]) -> Figure:
    """The first quantity with curves, drawn against the rounds; the last third is shaded, and controls are dashed."""
    from matplotlib.figure import Figure

    (quantity, *_) = with_curves(miniature)
    controls = {setting.control for setting in miniature.settings}
    groups: dict[str, list[str]] = {}
    for setting in miniature.settings:
        groups.setdefault(setting.against or setting.name, []).append(setting.name)
    rows = -(-len(groups) // COLUMNS)
    columns = min(COLUMNS, len(groups))
    figure = Figure(figsize=(max(6.0, 3.4 * columns), rows * 4.2), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (base, names) in zip(panels, groups.items(), strict=False):
        for number, name in enumerate(names):
            curves = [cell.curves[quantity.name] for cell in cells if cell.setting == name and cell.curves]
            if curves:
                _line(panel, np.array(curves), f"C{number % FIRST_COLOURS}", name, name in controls)
        panel.set_title(base, fontsize="small")
        panel.set_xlabel("round")
        panel.set_ylabel(f"{quantity.name} [%]")
        panel.legend(fontsize=5, loc="lower right")
    for panel in panels[len(groups) :]:
        panel.axis("off")
    return figure


def _line(panel: Axes, curves: np.ndarray, colour: str, name: str, dashed: bool) -> None:
    rounds = np.arange(1, curves.shape[1] + 1)
    panel.plot(rounds, curves.mean(0), color=colour, lw=0.8, ls="--" if dashed else "-", label=name)
    first = len(rounds) - len(rounds) // 3 + 1
    if not panel.patches:
        panel.axvspan(first, len(rounds), color="0.5", alpha=0.14, lw=0, zorder=0)
