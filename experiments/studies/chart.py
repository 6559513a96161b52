"""A chart as data: what is drawn is a table first, so that it can be saved, tested and read aloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["measured", "theory", "bound"]


@dataclass(frozen=True)
class Label:
    """Of an axis: what it shows, and its unit ("1" for a pure number)."""

    says: str
    unit: str = "1"
    log: bool = False


@dataclass(frozen=True)
class Series:
    """Points that belong together; `lower` and `upper`: of the interval at each, where there is one."""

    name: str
    role: Role
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float] | None = None
    upper: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series."""

    title: str
    x: Label
    y: Label
    series: tuple[Series, ...]


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
    """One figure: `name` of its files, `caption` below it, `alt` for who cannot see it, n and seeds in the caption."""

    name: str
    caption: str
    alt: str
    panels: tuple[Panel | Heatmap, ...]
