"""Statements on lemmas of the proofs.

The statements concern the side of the cube and the volume of low loss (Lemma 3.3, fedgucci/R5), and the tails of sums
of uniform variables.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import sympy as sp
from flint import arb
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds import BEYOND, FEDGUCCI, Case, Change, Claim, Family, Hypothesis, Kind, Nature, Outcome, Source, Statement
from bounds.cases.bounded_sum import exact, exact_ball
from bounds.fedgucci.cases.low_loss import WIDE_CUBES, LowLossCube
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, without
from bounds.symbols import delta, n_parameters, side
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate

Interval = tuple[arb, arb]


@dataclass(frozen=True, eq=False)
class LowLossRegion(Case):
    """The loss L(w) = max_j ((w_j - m_j)^2 - p_j)^2 on the box |w_j| <= R, with an anchor, a cube around it, and eps.

    The cube has the side d. All numbers are exact.

    Raises:
        ValueError: lists of different lengths, a side, eps or reach that is not positive, an anchor outside the box.
    """

    # m, p and the anchor have S numbers each
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
        """S, the number of parameters."""
        return len(self.middles)

    def wells(self, j: int) -> list[Interval]:
        """The open intervals, cut to the box, in which the loss of coordinate j alone is below eps."""
        middle, split, root = exact_ball(self.middles[j]), exact_ball(self.splits[j]), exact_ball(self.eps).sqrt()
        if not split + root > 0:
            return []
        far = (split + root).sqrt()
        wells = [(middle - far, middle + far)]
        # this comparison is exact; it decides whether there are two wells
        if self.splits[j] > 0 and self.splits[j] ** 2 > self.eps:
            near = (split - root).sqrt()
            wells = [(middle - far, middle - near), (middle + near, middle + far)]
        return [_cut(well, -exact_ball(self.reach), exact_ball(self.reach)) for well in wells]

    def cube(self, j: int) -> Interval:
        """The interval of coordinate j in the cube around the anchor."""
        return exact_ball(self.anchor[j] - self.side / 2), exact_ball(self.anchor[j] + self.side / 2)

    def volume(self) -> Estimate:
        """The volume |E_eps| of the region of low loss, within the box."""
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
        """|E_eps cap V_d|, the volume of the region of low loss within the cube."""
        with precision():
            return self._product([[_length(_cut(w, *self.cube(j))) for w in self.wells(j)] for j in range(self.size)])

    def probability(self) -> Estimate:
        """P(w is in E_eps and max over alpha of L(alpha anchor + (1 - alpha) w) <= eps), for w uniform in V_d."""
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
        """Whether E_eps is one interval in each coordinate and contains the anchor.

        If so, E_eps is a star around the anchor.
        """
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
    """A region with one to six coordinates. If `inside`, it is one box around the anchor, within the cube."""
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
    """Any wells, with any anchor, cube and box."""
    sixteenths = st.integers(-64, 64).map(lambda k: Fraction(k, 16))
    positive = st.integers(1, 128).map(lambda k: Fraction(k, 16))
    coordinates = st.lists(st.tuples(sixteenths, sixteenths, sixteenths), min_size=1, max_size=4)
    return st.builds(_any_region, coordinates, positive, positive, positive)


WELLS = Family("products of wells", _region, _regions(), (False,), trials=100, needs=20)
ONE_WELL = Family("one well inside the cube", _region, _regions(), (True,), trials=100)


diameter, volume_inside = sp.symbols("d_eps V_cube", positive=True)
CONNECTED = "Pr(max_alpha L(alpha w_anc + (1 - alpha) w) <= eps)"
SHARE = (diameter / side) ** n_parameters
SYMBOLS = {
    diameter: "d_eps = |E_eps|^(1/S), E_eps = {w in Omega: L(w) < eps}, Omega a bounded box",
    volume_inside: "volume of E_eps within the cube",
    side: "side d of the cube, |w - w_anc|_inf <= d/2",
}


def _constants_f3(case: LowLossRegion | LowLossCube) -> dict:
    whole = float(case.side)
    rounded = whole if Fraction(whole) == case.side else Estimate(whole, 2e-16 * whole, "rounding bound")
    values = {diameter: case.low_loss_size, n_parameters: case.size, side: rounded}
    return values | ({volume_inside: case.volume_in_cube()} if isinstance(case, LowLossRegion) else {})


def _inside(half_sides: int) -> Hypothesis:
    name = "inside-cube" if half_sides == 1 else "inside-twice-the-cube"
    says = f"E_eps lies in |w - w_anc|_inf <= {'d/2' if half_sides == 1 else 'd'}"
    return Hypothesis(name, says, lambda case: half_sides * float(case.side) / 2 - case.farthest())


STAR = Hypothesis("star", "E_eps is a star domain about the anchor", lambda case: 0.0 if case.is_star() else -1.0)


def wide_well() -> LowLossRegion:
    """The loss L = w^4 with eps = .9^4 and d = 1.

    E_eps = (-.9, .9) is a star around the anchor 0. It lies within d of the anchor, and is wider than the cube.
    """
    zero, one = (Fraction(0),), Fraction(1)
    return LowLossRegion(zero, zero, zero, one, Fraction(6561, 10_000), Fraction(4))


def two_wells() -> LowLossRegion:
    """The loss L = (w^2 - 1)^2 with eps = 1/4 and d = 8. The wells are at 1 and -1, and the anchor is at 1.

    Both wells lie in the cube.
    """
    one = Fraction(1)
    return LowLossRegion((Fraction(0),), (one,), (one,), Fraction(8), Fraction(1, 4), Fraction(4))


Row = tuple[int, ...]


@dataclass(frozen=True)
class LossTable(Case):
    """Losses that are constant on the cells of a cube of side d in R^S.

    `losses[k][i]` is the loss of client i on cell k. `level` is epsilon.
    """

    losses: tuple[Row, ...]
    level: int
    size: int
    side: float
    low_outside: int = 0  # number of cells outside the cube, of the same size, in which the mean loss is below epsilon

    @property
    def clients(self) -> int:
        """K, the number of clients."""
        return len(self.losses[0])

    @property
    def failures(self) -> tuple[Fraction, ...]:
        """For each client, the probability that a network drawn in the cube has a loss of epsilon or more."""
        cells = len(self.losses)
        return tuple(Fraction(sum(row[i] >= self.level for row in self.losses), cells) for i in range(self.clients))

    @property
    def largest_failure(self) -> Fraction:
        """delta, the largest of the clients' probabilities of a loss of epsilon or more."""
        return max(self.failures)

    @property
    def joint_failure(self) -> Fraction:
        """The probability that at least one of K independent networks, one for each client, has a high loss.

        A loss is high if it is epsilon or more. The loss of each network is its own client's loss.
        """
        return 1 - math.prod((1 - failure for failure in self.failures), start=Fraction(1))

    @property
    def low_share(self) -> Fraction:
        """The volume of the part of the domain where the mean loss is below epsilon, divided by the cube's volume."""
        low = sum(sum(row) < self.clients * self.level for row in self.losses) + self.low_outside
        return Fraction(low, len(self.losses))

    @property
    def radius(self) -> Estimate:
        """d_epsilon of the mean loss: the S-th root of the volume where the mean loss is below epsilon."""
        with precision():
            share = exact_ball(self.low_share)
            root = (share.log() / self.size).exp() if share > 0 else arb(0)
            return enclosure(ball(self.side) * root)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"K": self.clients, "S": self.size, "cells": len(self.losses), "delta": str(self.largest_failure)}


def _table(seed: int) -> LossTable:
    """Up to five clients on 64 cells. Mostly each client has its high losses on cells of its own.

    In half of the tables these losses are so high that the mean loss on these cells is high too.
    """
    rng = np.random.default_rng([seed, 5])
    clients, cells, level = int(rng.integers(2, 6)), 64, 10
    losses = rng.integers(0, level, (cells, clients)) if seed % 4 == 0 else np.zeros((cells, clients), int)
    order, start = rng.permutation(cells), 0
    bad = int(rng.integers(1, max(1, cells // clients - 1) + 1))
    for i in range(clients):
        chosen = order[start : start + bad] if seed % 4 else rng.choice(cells, bad, replace=False)
        losses[chosen, i] = level * (clients if seed % 2 else 1)
        start += bad
    outside = int(rng.integers(0, 4)) if seed % 3 == 0 else 0
    size, side = int(rng.integers(1, 7)), float(np.exp(rng.uniform(-2, 2)))
    return LossTable(tuple(tuple(int(v) for v in row) for row in losses), level, size, side, outside)


@st.composite
def _tables(draw: DrawFn) -> LossTable:
    clients, cells, level = draw(st.integers(1, 4)), draw(st.integers(1, 12)), draw(st.integers(1, 4))
    row = st.tuples(*[st.integers(0, 4 * level)] * clients)
    losses = tuple(draw(st.lists(row, min_size=cells, max_size=cells)))
    return LossTable(losses, level, draw(st.integers(1, 6)), draw(st.floats(1 / 16, 16)), draw(st.integers(0, 3)))


LOSS_TABLES = Family("losses on cells", _table, _tables(), trials=200, needs=20)


K, S, d_eps, joint = sp.symbols("K S d_epsilon delta_K", positive=True)


def _constants_r5(case: LossTable) -> dict:
    shares = {delta: exact(case.largest_failure), joint: exact(case.joint_failure)}
    return {K: case.clients, S: case.size, d_eps: case.radius} | shares


MOST = 10  # largest number n of terms; it is small because the tail is a sum over all 2^n corners of the cube


@dataclass(frozen=True, eq=False)
class UniformSum(Case):
    """The sum sum_i a_i X_i with X_i independent and uniform on [-d/2, d/2], and a level t > 0.

    Raises:
        ValueError: no weight, a weight of 0, more than MOST weights, or a side or level that is not positive.
    """

    weights: tuple[Fraction, ...]
    side: Fraction
    t: Fraction

    def __post_init__(self) -> None:
        if not 1 <= len(self.weights) <= MOST or 0 in self.weights:
            raise ValueError(f"there are {len(self.weights)} weights {self.weights}; 1 to {MOST}, none of them 0")
        if self.side <= 0 or self.t <= 0:
            raise ValueError(f"the side is {self.side} and the level {self.t}; both must be positive")

    @property
    def square(self) -> Fraction:
        """|a|^2."""
        return sum((a * a for a in self.weights), Fraction(0))

    def probability(self) -> Estimate:
        """Pr[|sum| > t], which is twice the volume where the sum exceeds t.

        The volume is a signed sum over the corners of the cube at which the sum exceeds t.
        """
        sizes = [abs(a) for a in self.weights]
        # by how much the sum exceeds t at the corner where the sum is largest, divided by the side
        reach = sum(sizes, Fraction(0)) / 2 - self.t / self.side
        total = Fraction(0)
        for corner in product((0, 1), repeat=len(sizes)):
            beyond = reach - sum((a for a, down in zip(sizes, corner, strict=True) if down), Fraction(0))
            if beyond > 0:
                total += (-1) ** sum(corner) * beyond ** len(sizes)
        return exact(2 * total / (math.factorial(len(sizes)) * math.prod(sizes)))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"weights": ", ".join(map(str, self.weights)), "side": str(self.side), "t": str(self.t)}


def _sum(seed: int) -> UniformSum:
    """Sums of 1 to 8 variables with weights in 1/4..2, and levels up to the largest sum.

    Every fifth level is near 0.
    """
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    sign = 1 if rng.integers(2) else -1
    weights = tuple(sign * Fraction(int(rng.integers(1, 9)), 4) for _ in range(size))
    side = Fraction(int(rng.integers(1, 9)), 4)
    top = side * sum((abs(a) for a in weights), Fraction(0)) / 2
    share = Fraction(int(rng.integers(1, 33)) if seed % 5 else 1, 32)
    return UniformSum(weights, side, top * share)


def _any_sum(weights: list[Fraction], side: Fraction, share: Fraction) -> UniformSum:
    return UniformSum(tuple(weights), side, side * sum(map(abs, weights), Fraction(0)) / 2 * share)


UNIFORM_SUMS = Family(
    "sums of uniforms",
    _sum,
    st.builds(
        _any_sum,
        st.lists(st.integers(-8, 8).filter(bool).map(lambda a: Fraction(a, 4)), min_size=1, max_size=6),
        st.integers(1, 16).map(lambda part: Fraction(part, 4)),
        st.integers(1, 64).map(lambda part: Fraction(part, 64)),
    ),
    trials=200,
)


level, weight_square = sp.symbols("t a_2", positive=True)
RATE = level**2 / (side**2 * weight_square)


STATEMENTS = (
    Statement(
        id="fedgucci/F3",
        title="P(connected to the anchor) <= (d_eps/d)^S",
        kind=Kind.UPPER,
        source=Source(FEDGUCCI, "Lemma 3.3 / B.1, Eqs (5) and (13)"),
        note="D_eps is the set of w in E_eps whose segment to the anchor stays at or below eps, as the KDD text "
        "prints it. The scan of the ICLR version reads 'there exists w' in this definition, and no part of the "
        "proof uses these words. Omega must be bounded, as the lemma says: on all of R^S the volume of a ReLU "
        "network's E_eps is infinite (rescale u and v), and so is d_eps; on a box both grow with the box. "
        "Continuity of L is enough. The check uses losses with exact volumes",
        stated=Claim((SHARE, SHARE), families=(WELLS, ONE_WELL, *WIDE_CUBES)),
        new=Claim((volume_inside / side**n_parameters, SHARE)),
        constants=_constants_f3,
        measure=lambda case: (case.probability(), case.probability()),
        symbols=SYMBOLS,
        left_formula=(CONNECTED,) * 2,
        says_left="the share of the cube from which the segment to the anchor stays at or below eps, in balls; for "
        "networks by sampling, with each segment exact",
        families=(WELLS, ONE_WELL),
        mutants=(index_shifted(n_parameters, 1), power(side, 2), without(volume_inside)),
    ),
    Statement(
        id="fedgucci/F3-equality",
        title="P(connected to the anchor) = (d_eps/d)^S for a star inside the cube",
        kind=Kind.EQUALITY,
        source=Source(FEDGUCCI, "Lemma 3.3 / B.1, equality clause"),
        note="both versions print the equality clause twice, each time with the cube |w - w_anc|_inf <= d. The proof "
        "and the lemma's first sentence have d/2, which is right and meant. 'Only if' holds up to null sets: with L = "
        "1 - (w - 1)^2 on (0, 2), eps = 1 and the anchor 1/2, E_eps lacks the single point w = 1, so that it is no "
        "star, and yet P = |E_eps|/d. Equality holds if and only if the part of E_eps outside the cube, and its part "
        "outside the connected set, are null sets",
        stated=Claim(
            SHARE,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISPRINT,
            hypotheses=(_inside(2), STAR),
            witness=wide_well,
            reading="the lemma and its copy in the appendix print d alike, in both versions",
            consequence="d_eps/d may exceed 1 for a star within d of the anchor, and a probability cannot: "
            "equality needs the cube of half-side d/2. (5) itself is not affected.",
        ),
        repaired=Claim(SHARE, hypotheses=(_inside(1), STAR)),
        constants=_constants_f3,
        measure=lambda case: case.probability(),
        symbols=SYMBOLS,
        left_formula=CONNECTED,
        says_left="the exact share of the cube from which the segment to the anchor stays at or below eps, in balls",
        families=(ONE_WELL,),
        necessity={"inside-cube": wide_well, "star": two_wells},
        mutants=(MILLIONTH_MORE, index_shifted(n_parameters, 1), power(side, 2), without(diameter)),
        uses=("fedgucci/F3",),
    ),
    Statement(
        id="fedgucci/R5",
        title="Where every client's loss is low in most of a cube, so is the mean loss, however unlike the clients are",
        kind=Kind.UPPER,
        source=Source(BEYOND, "docs/proofs/connectivity.md#groups"),
        note="This replaces the step (51)-(52) of Theorem 3.8. All clients draw in the same cube. The sets where "
        "L_i < epsilon have at least the share 1 - K delta of the cube in common, and on this share the mean loss "
        "is below epsilon. Neither gamma nor Gamma is needed. The statement holds for any losses; it is checked on "
        "losses that are constant on cells, for which every volume is rational. In the second part K independent "
        "networks, one for each client, are all below epsilon with probability 1 - delta_K. Then sum_i delta_i <= "
        "-log(1 - delta_K), so that K does not enter",
        hypotheses=(
            Hypothesis(
                "few-failures",
                "K delta < 1",
                # rational, so that the sign is exact
                lambda case: float(1 - case.clients * case.largest_failure) - 1e-12,
            ),
            Hypothesis(
                "few-joint-failures",
                "delta_K < .632, a little below 1 - 1/e",
                lambda case: 0.632 - float(case.joint_failure),
            ),
        ),
        new=Claim((d_eps / (1 - K * delta) ** (1 / S), d_eps / (1 + sp.log(1 - joint)) ** (1 / S))),
        constants=_constants_r5,
        measure=lambda case: (Estimate.exact(case.side),) * 2,
        symbols={
            K: "number of clients",
            S: "number of parameters",
            d_eps: "S-th root of the volume of the networks with a mean loss below epsilon",
            delta: "largest probability, over the clients, that a draw in the cube has L_i >= epsilon",
            joint: "probability that of K independent draws, one for each client, at least one has L_i >= epsilon for "
            "its client",
        },
        left_formula=("d", "d"),
        says_left="d, the side of the cube, an input",
        families=(LOSS_TABLES,),
        mutants=(
            replaced(K, 1, "K dropped", Change.FACTOR),
            power(d_eps, 2),
            replaced(S, 2 * S, "root of 2S for S", Change.INDEX),
        ),
        necessity={
            # Of three clients one has high losses on two cells of five, so that K times the largest delta is above 1.
            "few-failures": lambda: LossTable(((0, 0, 30), (0, 0, 30), (0, 0, 0), (0, 0, 0), (0, 0, 0)), 10, 1, 1.0),
            # Each of two clients has high losses on two cells of five, and no cell is high for both.
            "few-joint-failures": lambda: LossTable(((0, 20), (0, 20), (20, 0), (20, 0), (0, 0)), 10, 1, 1.0),
        },
        uses=("fedgucci/F3",),
    ),
    Statement(
        id="fedgucci/F4",
        title="Tail of a weighted sum of uniform variables",
        kind=Kind.PROBABILITY,
        source=Source(FEDGUCCI, "display before Eq (17)"),
        note="Hoeffding's inequality, constant 2. Uniform laws are strictly sub-Gaussian, "
        "sinh(s)/s <= exp(s^2/6) because 6^k k! <= (2k+1)!, so the constant 6 holds as well",
        stated=Claim(2 * sp.exp(-2 * RATE)),
        new=Claim(2 * sp.exp(-6 * RATE)),
        constants=lambda case: {level: exact(case.t), side: exact(case.side), weight_square: exact(case.square)},
        measure=lambda case: case.probability(),
        symbols={level: "level t", weight_square: "|a|_2^2, the sum of the squared weights"},
        left_formula="Pr(|sum_i a_i X_i| > t)",
        says_left="P(|sum_i a_i X_i| > t) exactly, as a rational, from the corners of the cube",
        families=(UNIFORM_SUMS,),
        mutants=(
            replaced(level, 2 * level, "the level doubled", Change.CONSTANT),
            power(weight_square, sp.Rational(1, 8)),
            replaced(side, side / 2, "half the side", Change.CONSTANT),
        ),
    ),
)
