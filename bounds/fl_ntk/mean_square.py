"""The largest server step at which random rounds fall in the mean square."""

import numpy as np
import sympy as sp

from bounds import BEYOND, Claim, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import RANDOM_ROUNDS, RandomRound, operators
from bounds.mutants import power, replaced, reversed_comparison, scaled
from bounds.symbols import N
from ntkfl.estimate import Estimate

ASIDE = 1e-3  # relative distance from the limit, below and above it, at which the rate is checked
LIBRARY = 1e-8  # relative error of the library's result by Arnoldi's method

rho = sp.Symbol("rho_2", positive=True)
RADIUS = "max_i |lambda_i(E M otimes M)|"


def _constants(case: RandomRound) -> dict:
    first, second = operators(case)
    radius = float(np.abs(np.linalg.eigvals(np.linalg.solve(first, second))).max())
    return {rho: Estimate(radius, 1e-10 * radius, "rounding of eigenvalues"), N: case.problem.n_clients}


def _measure(case: RandomRound) -> tuple[Estimate, Estimate]:
    limit = case.library(1.0).step_limits.eta_global
    rate = case.library(limit).rate
    return Estimate(limit, LIBRARY * limit, "Arnoldi's method"), Estimate(rate, LIBRARY, "Arnoldi's method")


def _sides(case: RandomRound) -> tuple[Estimate, Estimate]:
    limit = case.library(1.0).step_limits.eta_global
    below, above = case.radius((1 - ASIDE) * limit), case.radius((1 + ASIDE) * limit)
    return below, Estimate(1 / above.value, above.error / above.value**2, above.method)


STATEMENTS = (
    Statement(
        id="fl-ntk/mean-square",
        title="Random rounds fall in the mean square for server steps below N/rho(L1^-1 L2)",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/random_rounds.md#the-largest-stable-server-step",
            note="E r r' goes to C - h L1(C) + h^2 L2(C). L1^-1 and L2 map positive matrices to positive ones. So the "
            "radius of the map is below 1 exactly if the radius of h L1^-1 L2 is below 1",
        ),
        forms={Form.NEW: Claim((N / rho, sp.Integer(1)))},
        constants=_constants,
        measure=_measure,
        symbols={rho: "spectral radius of L1^-1 L2, written out as matrices of n^2 rows"},
        left_formula=(f"max {{eta_g : {RADIUS} <= 1}}", f"{RADIUS} of the largest stable step"),
        says_left="by the library's random rounds: the limit of the server step, and the mean-square rate at that "
        "limit",
        families=RANDOM_ROUNDS,
        mutants=(scaled(sp.Rational(100_001, 100_000)), power(N, 2), power(rho, 2), replaced(rho, rho + 1, "rho + 1")),
        uses=("fl-ntk/second-moments",),
    ),
    Statement(
        id="fl-ntk/mean-square-sides",
        title="A thousandth below the largest stable step the mean square falls, a thousandth above it some grows",
        kind=Kind.UPPER,
        source=Source(
            BEYOND, "docs/proofs/random_rounds.md#the-largest-stable-server-step", note="checked without L1 and L2"
        ),
        forms={Form.NEW: Claim((sp.Integer(1), sp.Integer(1)))},
        measure=_sides,
        left_formula=(
            f"{RADIUS} at eta_g = (1 - 10^{{-3}}) eta_{{max}}",
            f"1 / {RADIUS} at eta_g = (1 + 10^{{-3}}) eta_{{max}}",
        ),
        says_left="the spectral radius of E M (x) M over every choice of clients and batches, at .999 times the "
        "library's limit, and one over it at 1.001 times the limit",
        families=RANDOM_ROUNDS,
        mutants=(scaled(sp.Rational(99, 100)), reversed_comparison()),
        uses=("fl-ntk/mean-square",),
    ),
)
