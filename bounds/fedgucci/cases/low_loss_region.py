"""Case: a loss with exact volumes of its low region, and of the part that straight lines from an anchor reach.

L(w) = max_j ((w_j - m_j)^2 - p_j)^2 on the box |w_j| <= R: coordinate j has one well if p_j <= 0, two if p_j > 0. So L
< eps is a product of unions of at most two intervals, and the segment from the anchor to w stays at or below eps if and
only if every coordinate stays in the anchor's own interval.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family
from bounds.case import Case
from bounds.cases.bounded_sum import exact_ball
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate

Interval = tuple[arb, arb]


@dataclass(frozen=True, eq=False)
class LowLossRegion(Case):
    """The loss above, an anchor, the side d of the cube around the anchor, and eps; all numbers exact.

    Raises:
        ValueError: lists of different lengths, a side, eps or reach that is not positive, an anchor outside the box.
    """

    # middles, splits, anchor: m, p and the anchor, S numbers each
    middles: tuple[Fraction, ...]
    splits: tuple[Fraction, ...]
    anchor: tuple[Fraction, ...]
    side: Fraction
    eps: Fraction
    reach: Fraction  # R

    def __post_init__(self) -> None:
        sizes = len(self.middles), len(self.splits), len(self.anchor)
        if len(set(sizes)) > 1 or not self.middles:
            raise ValueError(f"there are {sizes} middles, splits and coordinates of the anchor; as many of each")
        for name in ("side", "eps", "reach"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")
        if max(map(abs, self.anchor)) > self.reach:
            raise ValueError(f"the anchor's largest entry is {max(map(abs, self.anchor))}, outside R = {self.reach}")

    @property
    def size(self) -> int:
        """S."""
        return len(self.middles)

    def wells(self, j: int) -> list[Interval]:
        """The open intervals, cut to the box, in which the loss of coordinate j alone is below eps."""
        middle, split, root = exact_ball(self.middles[j]), exact_ball(self.splits[j]), exact_ball(self.eps).sqrt()
        if not split + root > 0:
            return []
        far = (split + root).sqrt()
        wells = [(middle - far, middle + far)]
        if self.splits[j] > 0 and self.splits[j] ** 2 > self.eps:  # exact: are there two wells
            near = (split - root).sqrt()
            wells = [(middle - far, middle - near), (middle + near, middle + far)]
        return [_cut(well, -exact_ball(self.reach), exact_ball(self.reach)) for well in wells]

    def cube(self, j: int) -> Interval:
        """Coordinate j's interval of the cube around the anchor."""
        return exact_ball(self.anchor[j] - self.side / 2), exact_ball(self.anchor[j] + self.side / 2)

    def volume(self) -> Estimate:
        """|E_eps|, within the box."""
        with precision():
            return self._product([[_length(well) for well in self.wells(j)] for j in range(self.size)])

    @property
    def low_loss_size(self) -> Estimate:
        """d_eps = |E_eps|^(1/S), the side of the cube of the same volume."""
        with precision():
            known = self.volume()
            volume = ball(float(known.value), float(known.error))
            return enclosure(volume.root(self.size) if volume > 0 else arb(0))

    def volume_in_cube(self) -> Estimate:
        """|E_eps cap V_d|."""
        with precision():
            return self._product([[_length(_cut(w, *self.cube(j))) for w in self.wells(j)] for j in range(self.size)])

    def probability(self) -> Estimate:
        """P over w uniform in V_d that w is in E_eps and max over alpha of L(alpha anchor + (1 - alpha) w) <= eps."""
        with precision():
            lengths = []
            for j in range(self.size):
                place = exact_ball(self.anchor[j])
                own = [well for well in self.wells(j) if place >= well[0] and place <= well[1]]
                lengths.append([_length(_cut(well, *self.cube(j))) for well in own])
            return self._product(lengths, exact_ball(self.side) ** self.size)

    def farthest(self) -> float:
        """The largest |w - anchor|_inf over E_eps, rounded up; 0 if E_eps is empty."""
        with precision():
            places = [exact_ball(place) for place in self.anchor]
            ends = [abs(end - place) for j, place in enumerate(places) for well in self.wells(j) for end in well]
            return max((float(enclosure(end).hi) for end in ends), default=0.0)

    def is_star(self) -> bool:
        """Whether E_eps is one interval in each coordinate and contains the anchor, hence a star around the anchor."""
        with precision():
            return all(
                len(wells) == 1 and exact_ball(place) > wells[0][0] and exact_ball(place) < wells[0][1]
                for place, wells in ((self.anchor[j], self.wells(j)) for j in range(self.size))
            )

    def _product(self, lengths: list[list[arb]], over: arb | None = None) -> Estimate:
        total = arb(1)
        for parts in lengths:
            total *= sum(parts, arb(0))
        return enclosure(total if over is None else total / over)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        parts = {"middles": self.middles, "splits": self.splits, "anchor": self.anchor}
        words = {name: ", ".join(map(str, values)) for name, values in parts.items()}
        return words | {"side": str(self.side), "eps": str(self.eps), "R": str(self.reach)}


def _cut(interval: Interval, low: arb, high: arb) -> Interval:
    return interval[0].max(low), interval[1].min(high)


def _length(interval: Interval) -> arb:
    return (interval[1] - interval[0]).max(arb(0))


def _region(inside: bool, seed: int) -> LowLossRegion:
    """One to six coordinates; `inside`: the low region is one box around the anchor, within the cube."""
    rng = np.random.default_rng([seed, 3])
    size = int(rng.integers(1, 7))

    def fractions(low: int, high: int) -> tuple[Fraction, ...]:
        return tuple(Fraction(int(k), 16) for k in rng.integers(low, high + 1, size))

    eps, reach = Fraction(int(rng.integers(1, 33)), 16), Fraction(4)
    if inside:
        offset = fractions(-1, 1)
        side = Fraction(int(rng.integers(4 * 16, 6 * 16)), 16)
        return LowLossRegion(offset, fractions(0, 2), (Fraction(0),) * size, side, eps / 4, reach)
    middles, splits, anchor = fractions(-16, 16), fractions(-8, 32), fractions(-24, 24)
    return LowLossRegion(middles, splits, anchor, Fraction(int(rng.integers(1, 65)), 16), eps, reach)


def _any_region(parts: list[tuple[Fraction, ...]], side: Fraction, eps: Fraction, reach: Fraction) -> LowLossRegion:
    middles, splits, anchor = (tuple(column) for column in zip(*parts, strict=True))
    return LowLossRegion(middles, splits, tuple(min(max(place, -reach), reach) for place in anchor), side, eps, reach)


def _regions() -> SearchStrategy[LowLossRegion]:
    """Any wells, anchor, cube and box."""
    sixteenths = st.integers(-64, 64).map(lambda k: Fraction(k, 16))
    positive = st.integers(1, 128).map(lambda k: Fraction(k, 16))
    coordinates = st.lists(st.tuples(sixteenths, sixteenths, sixteenths), min_size=1, max_size=4)
    return st.builds(_any_region, coordinates, positive, positive, positive)


WELLS = Family("products of wells", _region, _regions(), (False,), trials=100, needs=20)
ONE_WELL = Family("one well inside the cube", _region, _regions(), (True,), trials=100)
