"""Lemma 6.1: the O() form of Lemma B.12, with the right power of lambda."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds.federated_run import FederatedRun, federated_draws
from bounds.fl_ntk.b_12 import REACH, constants
from bounds.fl_ntk.premises import CONTRACTS_SO_FAR, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.wedge import wedge
from bounds.formula import Formula
from bounds.mutants import power, without
from bounds.statement import FL_NTK, Form, Hypothesis, Kind, Outcome, Source, Statement
from bounds.symbols import K, eta_local, lam, m, n
from bounds.width_ladder import WidthLadder, ladder_draws
from ntkfl.estimate import Estimate


@dataclass(frozen=True, eq=False)
class WedgeLadder:
    """Wedges of falling angle, along which lambda goes to 0; their sizes are 1/lambda."""

    @cached_property
    def runs(self) -> list[list[FederatedRun]]:
        """One run an angle."""
        return [[wedge(float(angle), 512, rounds=600)] for angle in np.geomspace(0.3, 0.03, 6)]

    @property
    def sizes(self) -> np.ndarray:
        """1/lambda_min(H(0))."""
        return np.array([1 / float(row[0].smallest_eigenvalue.value) for row in self.runs])

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return len(self.runs)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": "wedges", "1/lambda": [round(float(size)) for size in self.sizes]}


@dataclass(frozen=True)
class WedgeLadderDraw:
    """The one ladder of wedges."""

    name: str = "wedges, lambda to 0"
    trials: int = 1
    required: int = 5

    def case(self, seed: int) -> WedgeLadder:
        """The ladder; it has nothing random in it."""
        return WedgeLadder()

    def strategy(self) -> SearchStrategy[WedgeLadder]:
        """The one ladder."""
        return st.builds(WedgeLadder)


Ladder = WidthLadder | WedgeLadder


def _over_runs(ladder: Ladder, read) -> Estimate:
    """An Estimate of each run, stacked to (sizes, seeds)."""
    grid = [[read(run) for run in row] for row in ladder.runs]
    value, error = (np.array([[float(getattr(e, part)) for e in row] for row in grid]) for part in ("value", "error"))
    return Estimate(value, error, grid[0][0].method)


def _constants(ladder: Ladder) -> dict:
    names = constants(ladder.runs[0][0])

    def read(symbol):
        def one(run):
            found = constants(run)[symbol]
            return found if isinstance(found, Estimate) else Estimate.exact(found)

        return one

    return {symbol: _over_runs(ladder, read(symbol)) for symbol in names}


def _every_run(hypothesis: Hypothesis) -> Hypothesis:
    """A hypothesis about a run, asked of every run of a ladder."""

    def margin(ladder: Ladder) -> float:
        met = all(hypothesis.met(run) for row in ladder.runs for run in row)
        return 0.0 if met else -1.0

    return Hypothesis(hypothesis.name, f"in every run: {hypothesis.says}", margin)


def _draws(options) -> tuple:
    size = 6 if options.data is None else federated_draws(options)[0].problem(options.seed).n
    ladders = ladder_draws(options, eta_local=min(0.05, 0.4 / size))  # eta_l n K <= 1.2
    return ladders + ((WedgeLadderDraw(),) if options.data is None else ())


STATEMENTS = (
    Statement(
        id="fl-ntk/L6.1",
        title="Movement of the global weights, O() form",
        kind=Kind.ORDER,
        source=Source(
            FL_NTK,
            "Lemma 6.1",
            note="agrees with the proof of B.12, not with its statement; the constant 4(1 + 2 eta_l n K) suffices",
        ),
        hypotheses=tuple(_every_run(h) for h in (UNIT_ROWS, CONTRACTS_SO_FAR, SMALL_LOCAL_STEPS)),
        forms={
            Form.STATED: Formula(
                REACH, note="O(): the ratio of the two sides must not grow as m grows or as lambda falls"
            ),
            Form.REPAIRED: Formula(4 * (1 + 2 * eta_local * n * K) * REACH),
        },
        recorded={Form.STATED: Outcome.HOLDS, Form.REPAIRED: Outcome.HOLDS},
        constants=_constants,
        measure=lambda ladder: _over_runs(ladder, lambda run: run.observed("movement")[-1]),
        says_left="max_r |u_r(T) - u_r(0)| along a ladder of widths, and along wedges whose lambda goes to 0",
        draws=_draws,
        mutants=(
            power(m, sp.Rational(3, 2)),
            power(m, sp.Rational(5, 4)),
            power(lam, sp.Rational(1, 2)),
            without(lam),
        ),
        uses=("fl-ntk/B.12",),
    ),
)
