"""Case: the clients' losses on cells of equal volume, so that every volume and probability is a rational number."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds import Family
from bounds.case import Case
from bounds.cases.bounded_sum import exact_ball
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate

Row = tuple[int, ...]


@dataclass(frozen=True)
class LossTable(Case):
    """A cube of side d in R^S cut into cells; losses[k][i] is client i's loss on cell k, against the level epsilon."""

    losses: tuple[Row, ...]
    level: int
    size: int
    side: float
    low_outside: int = 0  # cells of the same size outside the cube, in the domain, with a mean loss below epsilon

    @property
    def clients(self) -> int:
        """K."""
        return len(self.losses[0])

    @property
    def failures(self) -> tuple[Fraction, ...]:
        """For each client the probability that a network drawn in the cube has a loss of epsilon or more."""
        cells = len(self.losses)
        return tuple(Fraction(sum(row[i] >= self.level for row in self.losses), cells) for i in range(self.clients))

    @property
    def largest_failure(self) -> Fraction:
        """delta: the largest of them."""
        return max(self.failures)

    @property
    def joint_failure(self) -> Fraction:
        """The probability that one of K independent networks, one a client, fails for its client."""
        return 1 - math.prod((1 - failure for failure in self.failures), start=Fraction(1))

    @property
    def low_share(self) -> Fraction:
        """Volume of the domain where the mean loss is below epsilon, over that of the cube."""
        low = sum(sum(row) < self.clients * self.level for row in self.losses) + self.low_outside
        return Fraction(low, len(self.losses))

    @property
    def radius(self) -> Estimate:
        """d_epsilon of the mean loss: the S-th root of that volume."""
        with precision():
            share = exact_ball(self.low_share)
            root = (share.log() / self.size).exp() if share > 0 else arb(0)
            return enclosure(ball(self.side) * root)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"K": self.clients, "S": self.size, "cells": len(self.losses), "delta": str(self.largest_failure)}


def _table(seed: int) -> LossTable:
    """Up to five clients on 64 cells; most fail on cells of their own, where the mean loss is high too."""
    rng = np.random.default_rng([seed, 5])
    clients, cells, level = int(rng.integers(2, 6)), 64, 10
    losses = rng.integers(0, level, (cells, clients)) if seed % 4 == 0 else np.zeros((cells, clients), int)
    order, start = rng.permutation(cells), 0
    most = max(1, cells // clients - 1)
    bad = int(rng.integers(1, most + 1))
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
