"""R5: a bound on the side of the cube by the volume of low mean loss, without the clients' heterogeneity."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import sympy as sp
from flint import arb
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds import BEYOND, Case, Change, Claim, Family, Form, Hypothesis, Kind, Source, Statement
from bounds.cases.bounded_sum import exact, exact_ball
from bounds.mutants import power, replaced
from bounds.symbols import delta
from ntkfl.balls import ball, enclosure, precision
from ntkfl.estimate import Estimate

Row = tuple[int, ...]


@dataclass(frozen=True)
class LossTable(Case):
    """A cube of side d in R^S, cut into cells; losses[k][i] is client i's loss on cell k; `level` is epsilon."""

    losses: tuple[Row, ...]
    level: int
    size: int
    side: float
    low_outside: int = 0  # number of equal cells of the domain outside the cube with a mean loss below epsilon

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
        """delta: the largest of the clients' probabilities of failure."""
        return max(self.failures)

    @property
    def joint_failure(self) -> Fraction:
        """The probability that, of K independent networks, one for each client, at least one fails for its client."""
        return 1 - math.prod((1 - failure for failure in self.failures), start=Fraction(1))

    @property
    def low_share(self) -> Fraction:
        """Volume of the part of the domain where the mean loss is below epsilon, over the volume of the cube."""
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
    """Up to five clients on 64 cells; mostly each client fails on its own cells, where the mean loss is high too."""
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


K, S, d_eps, joint = sp.symbols("K S d_epsilon delta_K", positive=True)


def _constants(case: LossTable) -> dict:
    shares = {delta: exact(case.largest_failure), joint: exact(case.joint_failure)}
    return {K: case.clients, S: case.size, d_eps: case.radius} | shares


def one_client_fails() -> LossTable:
    """Three clients; one fails on two cells of five, so that K times the largest delta is above 1."""
    return LossTable(((0, 0, 30), (0, 0, 30), (0, 0, 0), (0, 0, 0), (0, 0, 0)), 10, 1, 1.0)


def both_fail_often() -> LossTable:
    """Two clients; each fails on two cells of five, and no cell fails both."""
    return LossTable(((0, 20), (0, 20), (20, 0), (20, 0), (0, 0)), 10, 1, 1.0)


STATEMENTS = (
    Statement(
        id="fedgucci/R5",
        title="Where every client's loss is low in most of a cube, so is the mean loss, however unlike the clients are",
        kind=Kind.UPPER,
        source=Source(
            BEYOND,
            "docs/proofs/connectivity.md#groups",
            note="This replaces the step (51)-(52) of Theorem 3.8. All clients draw in the same cube. The sets where "
            "L_i < epsilon have at least the share 1 - K delta of the cube in common, and on this share the mean loss "
            "is below epsilon. Neither gamma nor Gamma is needed. The statement holds for any losses; it is checked on "
            "losses that are constant on cells, for which every volume is rational. In the second part K independent "
            "networks, one for each client, are all below epsilon with probability 1 - delta_K. Then sum_i delta_i <= "
            "-log(1 - delta_K), so that K does not enter",
        ),
        hypotheses=(
            Hypothesis(
                "few-failures",
                "K delta < 1",
                lambda case: float(1 - case.clients * case.largest_failure) - 1e-12,  # exactly signed
            ),
            Hypothesis(
                "few-joint-failures",
                "delta_K < .632, a little below 1 - 1/e",
                lambda case: 0.632 - float(case.joint_failure),
            ),
        ),
        forms={Form.NEW: Claim((d_eps / (1 - K * delta) ** (1 / S), d_eps / (1 + sp.log(1 - joint)) ** (1 / S)))},
        constants=_constants,
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
        necessity={"few-failures": one_client_fails, "few-joint-failures": both_fail_often},
        uses=("fedgucci/F3",),
    ),
)
