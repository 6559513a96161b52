"""The axes of pictures, which are linear, or logarithmic with a place for 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEAR = {"x": 0.22, "y": 0.08}  # labels that are nearer than these shares of an axis would overlap
HAIR = 0.004  # error bars that are shorter than this share of an axis are invisible
APART = 4  # an axis is widened to show the line left = right, if the line is at most this many decades from the points


@dataclass
class Scale:
    """The scale of one axis: linear, logarithmic, or logarithmic with a place for 0 below its smallest number."""

    log: bool
    floor: float | None
    low: float
    high: float

    def place(self, values: Sequence[float]) -> np.ndarray:
        """The positions of values on the axis; 0 has a place below all other values."""
        at = np.asarray(values, float)
        return at if self.floor is None else np.where(at <= self.floor, self.floor, at)

    def apply(self, axes: Axes, name: str) -> None:
        """Set the limits and the ticks of the axis x or y."""
        axis = axes.xaxis if name == "x" else axes.yaxis
        if self.log:
            from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

            getattr(axes, f"set_{name}scale")("log")
            low, high = (math.log10(end) for end in (self.low, self.high))
            step = max(1, math.ceil((high - low) / (4 if name == "x" else 6)))
            first = self.floor * 10 if self.floor is not None else self.low
            whole = range(math.ceil(math.log10(first) - 1e-9), math.floor(high + 1e-9) + 1)
            powers = [power for power in whole if power % step == 0]
            places = [10.0**p for p in powers]
            labels = {10.0**p: f"{10.0**p:g}" if -2 <= p <= 3 else f"$10^{{{p}}}$" for p in powers}
            if len(powers) < 2:
                some = [s * 10.0**p for p in range(math.floor(low), math.ceil(high) + 1) for s in (1, 2, 3, 5, 7)]
                some = [place for place in some if self.low <= place <= self.high and place >= first]
                some = some[:: max(1, math.ceil(len(some) / 4))]
                places, labels = (
                    (some, {place: f"{place:.3g}" for place in some}) if len(some) > 1 else (places, labels)
                )
            if len(places) < 2 and self.floor is None:
                places = [self.low * (self.high / self.low) ** share for share in (0.15, 0.85)]
                labels = {place: f"{place:.3g}" for place in places}
            if self.floor is not None:
                places, labels = [self.floor, *places], labels | {self.floor: "0"}
            span, apart, kept = math.log(self.high) - math.log(self.low), NEAR[name], list[float]()
            for place in places:  # labels that would overlap are left out
                if not kept or (math.log(place) - math.log(kept[-1])) / span >= apart:
                    kept.append(place)
            places = kept
            axis.set_major_locator(FixedLocator(places))
            axis.set_major_formatter(FuncFormatter(lambda value, _: labels.get(value, "")))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        else:
            from matplotlib.ticker import FuncFormatter, MaxNLocator

            integers = self.high - self.low >= 2  # whole numbers, so that there is no tick at half a client
            axis.set_major_locator(MaxNLocator(3 if name == "x" else 5, integer=integers))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        getattr(axes, f"set_{name}lim")(self.low, self.high)


def scaled(values: Iterable[float], *, log: bool | None = None, zero: float = 1e-3) -> Scale:
    """The scale for these numbers: linear if one of them is negative, otherwise logarithmic.

    Infinite numbers are ignored.
    """
    finite = [v for v in values if math.isfinite(v)]
    if log is None and any(v < 0 for v in finite):
        return linear(finite)
    positive = [v for v in finite if v > 1e-300]
    zeros = any(v <= 1e-300 for v in finite)
    low, high = (min(positive), max(positive)) if positive else (zero * 10, zero * 100)
    floor = None
    if zeros:
        floor = 10.0 ** (math.floor(math.log10(low)) - max(1, round(0.12 * (math.log10(high) - math.log10(low)))))
        low = floor
    pad = min(max(10 ** (0.06 * (math.log10(high) - math.log10(low))), 1.1), 1e6)
    return Scale(True, floor, low / pad, high * pad)


def linear(values: Iterable[float]) -> Scale:
    """The linear scale for these numbers; infinite numbers are ignored."""
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(finite), max(finite)
    pad = 0.06 * (high - low) or 0.1 * abs(high) or 0.1
    return Scale(False, None, low - pad, high + pad)


def bring_together(xs: Scale, ys: Scale) -> None:
    """Widen the y axis so that it shows the line left = right, unless this line is far away."""
    for low, high in ((ys.high, xs.low), (xs.high, ys.low)):
        if not 0 < math.log10(high) - math.log10(low) <= APART:
            continue
        if low == ys.high:
            ys.high = high * 3
        else:
            ys.low = low / 3


def bars(scale: Scale, at: np.ndarray, errors: Sequence[float]) -> np.ndarray | None:
    """The error bars, (2, points), with 0 for bars too short to be visible; None if no bar is visible."""
    half = np.asarray(errors, float)
    half = np.where(np.isfinite(half), half, 0.0)
    with np.errstate(all="ignore"):
        seen = (
            np.log1p(half / at) / (math.log(scale.high) - math.log(scale.low))
            if scale.log
            else half / (scale.high - scale.low)
        )
    half = np.where(seen > HAIR, half, 0.0)
    if not half.any():
        return None
    return np.stack([np.minimum(half, np.maximum(at - scale.low, 0)) if scale.log else half, half])
