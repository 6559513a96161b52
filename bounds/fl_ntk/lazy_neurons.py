"""The statement of Lemma B.12, which is Lemma 6.1.

While the residual contracts, no neuron of the global model moves far. On a ladder the same quantity is measured at
several sizes. The sizes are widths or values of 1/lambda.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import FL_NTK, Case, Claim, Family, Kind, Nature, Outcome, Source, Statement
from bounds.federated_run import FederatedRun, federated_families
from bounds.fl_ntk.families.few_points import (
    long_row_converging,
    moving_families,
    one_neuron_wedge,
    overshooting_server,
    wedge,
)
from bounds.fl_ntk.premises import CONTRACTS_SO_FAR, POSITIVE_SPECTRUM, SMALL_LOCAL_STEPS, UNIT_ROWS
from bounds.fl_ntk.terms.round_map import REACH, constants
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import power, without
from bounds.symbols import K, eta_local, lam, m, n, r0
from ntkfl.estimate import Estimate


@dataclass(frozen=True, eq=False)
class WedgeLadder(Case):
    """Pairs of points whose angles become smaller, so that lambda goes to 0. The sizes of the ladder are 1/lambda."""

    @cached_property
    def runs(self) -> list[list[FederatedRun]]:
        """One run for each angle. Smaller angles get more rounds, since their residuals fall more slowly."""
        return [[wedge(float(angle), 512, rounds=round(600 * 0.3 / angle))] for angle in np.geomspace(0.3, 0.03, 6)]

    @property
    def sizes(self) -> np.ndarray:
        """1/lambda_min(H(0))."""
        return np.array([1 / float(row[0].smallest_eigenvalue.value) for row in self.runs])

    @property
    def n_runs(self) -> int:
        """The number of runs."""
        return len(self.runs)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": "wedges", "1/lambda": [round(float(size)) for size in self.sizes]}


WEDGE_LADDER = Family("wedges, lambda to 0", lambda seed: WedgeLadder(), st.builds(WedgeLadder), trials=1)


Ladder = WidthLadder | WedgeLadder


def _stacked(numbers: Iterable[Iterable[Any]]) -> Estimate:
    """An array (sizes, seeds) with one number for each run."""
    return Estimate.stacked(map(Estimate.stacked, numbers))


def _constants(ladder: Ladder) -> dict:
    """The values of the symbols for every run, each (sizes, seeds)."""
    values = [[constants(run) for run in row] for row in ladder.runs]
    return {symbol: _stacked([terms[symbol] for terms in row] for row in values) for symbol in values[0][0]}


def _runs(ladder: Ladder) -> Iterable[FederatedRun]:
    return chain.from_iterable(ladder.runs)


def _families(options) -> tuple:
    size = 6 if options.data is None else federated_families(options)[0].problem(options.seed).n
    ladders = ladder_families(options, eta_local=min(0.05, 0.4 / size))  # so that eta_l n K <= 1.2
    return ladders + ((WEDGE_LADDER,) if options.data is None else ())


STATEMENTS = (
    Statement(
        id="fl-ntk/B.12",
        title="Movement of the global weights",
        kind=Kind.UPPER,
        source=Source(FL_NTK, "Lemma B.12"),
        note="the scan reads sqrt(m lambda) in the lemma and sqrt(m) lambda in Lemma 6.1, Eq (14), the last line "
        "of the lemma's own proof and R in C.11. A scan easily loses how far the bar of a root reaches: the paper "
        "may well print sqrt(m) lambda throughout",
        hypotheses=(UNIT_ROWS, POSITIVE_SPECTRUM, CONTRACTS_SO_FAR, SMALL_LOCAL_STEPS),
        stated=Claim(
            8 * sp.sqrt(n) * r0 / sp.sqrt(m * lam),
            recorded=Outcome.VIOLATED,
            nature=Nature.SCAN,
            witness=one_neuron_wedge,
            reading="the bar covers lambda here and in C.7, which repeats this bound, and ends before it "
            "everywhere else, in the last line of the lemma's own proof too",
            consequence="use sqrt(m) lambda: with lambda under the root the radius is too small by a factor "
            "sqrt(lambda), and a width chosen from that radius would be too small as well",
        ),
        proved=Claim(
            8 * (1 + 2 * eta_local * n * K) * REACH,
            note="the last line of the proof, with its sum of square roots computed correctly",
        ),
        repaired=Claim(4 * (1 + 2 * eta_local * n * K) * REACH),
        constants=constants,
        measure=lambda case: case.observed("movement"),
        left_formula="max_r |u_r(t) - u_r(0)|",
        says_left="max_r |u_r(t) - u_r(0)| of the simulated run, every round",
        families=moving_families,
        mutants=(power(lam, sp.Rational(1, 2)), without(lam), power(m, 2), power(r0, sp.Rational(3, 2))),
        necessity={"unit-rows": long_row_converging, "contracts-so-far": overshooting_server},
        uses=("fl-ntk/B.3", "fl-ntk/B.10"),
    ),
    Statement(
        id="fl-ntk/L6.1",
        title="Movement of the global weights, O() form",
        kind=Kind.ORDER,
        source=Source(FL_NTK, "Lemma 6.1"),
        note="the lemma agrees with the proof of B.12, not with B.12 as the scan reads; the constant 4(1 + 2 eta_l "
        "n K) suffices",
        hypotheses=tuple(h.of_every("run", _runs) for h in (UNIT_ROWS, CONTRACTS_SO_FAR, SMALL_LOCAL_STEPS)),
        stated=Claim(REACH, note="O(): the ratio of the two sides must not grow as m grows or as lambda falls"),
        new=Claim(4 * (1 + 2 * eta_local * n * K) * REACH),
        constants=_constants,
        measure=lambda ladder: _stacked([run.observed("movement")[-1] for run in row] for row in ladder.runs),
        left_formula="max_r |u_r(T) - u_r(0)|",
        says_left="max_r |u_r(T) - u_r(0)| along a ladder of widths, and along wedges (two points at a small angle) "
        "whose lambda goes to 0",
        families=_families,
        mutants=(power(m, sp.Rational(3, 2)), power(m, sp.Rational(5, 4)), power(lam, sp.Rational(1, 2)), without(lam)),
        uses=("fl-ntk/B.12",),
    ),
)
