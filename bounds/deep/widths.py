"""Statements on deep networks and their width: the limit kernel and its training dynamics, and the clients' movements.

There are statements for smooth activations and for activations with kinks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Change, Claim, Family, Kind, Source, Statement
from bounds.case import prepared
from bounds.deep.cases.deep_ladder import ERF, LEFT, RELU, SECTION, SETUP, deep_ladders, equal_points
from bounds.deep.cases.network_stack import NetworkStack
from bounds.deep.premises import SEVERAL_CLIENTS
from bounds.fl_ntk.premises import SERVER_ONE
from bounds.fl_ntk.sources import reported
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.formula import evaluate
from bounds.ladders.rungs import SPACING, Rungs
from bounds.ladders.width_rate import HALF, ONE, Quantity, statistic, width_rate
from bounds.mutants import power, replaced, shifted
from bounds.symbols import m
from ntkfl import Estimate, Problem, Setup, gram
from ntkfl.finite_width.boundary_layer import over_replicates, pattern_change

KERNEL, LIMIT = "|H(0) - H_inf|_F / |H_inf|_F", "max_t |y_m(t) - y_inf(t)| / |r_0|"


OWN, DRIFT = "max_t |y_m(t) - y_own(t)| / |r_0|", "|H(T) - H(0)|_F / |H_inf|_F"


ZERO = sp.Integer(0)
q = sp.Symbol("q", positive=True)
OF_A_NEURON = "exponent in m of mean_c |theta_c - theta'| / sqrt(m)"
OF_A_ROUND = "mean_c |theta_c - theta'| / |theta' - theta|"


RUNGS = {round(2 ** (8 + half / 2)): 40 for half in range(11)}  # maps a width to the number of networks
DRAWS = 8  # number of independent draws of B, each from 8 replicates of SAMPLING
# the error depends more on the number of draws than on the number of starts, since starts are stratified
SAMPLING = {"draws": 512, "starts": 16}


@dataclass(frozen=True, eq=False)
class KinkLadder(Rungs):
    """Networks of depth 2 in NTK parametrisation. The labels are y_m(0) + r_0 with r_0 = problem.y."""

    problem: Problem
    setup: Setup
    seed: int
    # widths, counts and seed have the meaning that they have in `Rungs`
    widths: tuple[int, ...] = tuple(RUNGS)
    counts: tuple[int, ...] = tuple(RUNGS.values())

    @property
    def layers(self) -> np.ndarray:
        """Independent draws of B, (draws, n, n), computed from the neurons near their kinks (the boundary layer).

        B is m^(1/2) E[H(T) - H(0)] of a network whose readout is +-1 and whose first layer alone is trained.
        """
        return _layers(self.problem, self.setup)

    @prepared
    def along(self) -> list[list[float]]:
        """The values of <H(T) - H(0), B> / |B|^2 for every network, by width."""
        return self.in_rungs("along", self._row)

    def _row(self, row: int, places: range) -> Iterator[float]:
        mean = self.layers.mean(axis=0)
        direction, seeds = mean / (mean**2).sum(), self.seeds(row)[places.start : places.stop]
        for stack in NetworkStack.of_seeds(RELU, self.problem, self.widths[row], seeds):
            changes = stack.kernels(stack.run(self.problem, self.setup).after) - stack.kernels(stack.start)
            yield from (changes * direction).sum(axis=(1, 2)).tolist()

    @property
    def multiple(self) -> Estimate:
        """The coefficient of B in the limit of the mean over networks of m^(1/2) (H(T) - H(0)), by projection on B."""
        mean = self.layers.mean(axis=0)
        # The average of <draw of B, mean> / |mean|^2 over the draws is 1. The error of this average is used as the
        # error of the mean.
        drawn = over_replicates((self.layers * mean).sum(axis=(1, 2)) / (mean**2).sum())
        coefficient = leading_coefficient(self.sizes, list(map(np.array, self.along)), -0.5)
        error = coefficient.error + drawn.error * (np.abs(coefficient.value) + coefficient.error) / (1 - drawn.error)
        return Estimate(coefficient.value, error, coefficient.method, coefficient.rigour)


@lru_cache(maxsize=4)
def _layers(problem: Problem, setup: Setup) -> np.ndarray:
    limit = gram.deep(problem.x, depth=2)
    draws = (pattern_change(problem, setup, gram=limit, seed=seed, **SAMPLING) for seed in range(DRAWS))
    return np.array([network.drift.value[-1] for network in draws])


KINK_LADDERS = Family(
    f"sphere, n=12, d=8, N=2, {RELU}, widths {min(RUNGS)} to {max(RUNGS)}",
    lambda seed: KinkLadder(equal_points(seed), SETUP, seed),
    st.builds(
        lambda seed: KinkLadder(equal_points(seed), SETUP, seed * SPACING, counts=(6,) * len(RUNGS)), st.integers(0, 99)
    ),
    trials=1,
    needs=20,  # this is a number of runs, not of ladders
    fixed=True,
)


third = sp.Symbol("mu_3", positive=True)  # third absolute moment of a standard Gaussian readout weight
THIRD = 2 * sp.sqrt(2 / sp.pi)


STATEMENTS = (
    width_rate(
        "deep/widths",
        "Deep networks, all layers trained, approach the limit kernel and its exact dynamics as m^(-1/2)",
        (
            Quantity(KERNEL, HALF, statistic("kernel"), biased=False),
            Quantity(LIMIT, HALF, statistic("limit"), biased=False),
        ),
        source=Source(BEYOND, SECTION),
        note="the order is that of the kernel's own fluctuation; training adds terms of this order or smaller",
        says_left=f"{LEFT}{KERNEL}, and of {LIMIT}",
        claim_note="exponents of both; ReLU of depth 2, erf of depth 3",
        families=deep_ladders(RELU, ERF),
        uses=("deep/kernel", "deep/linearised"),
    ),
    width_rate(
        "deep/smooth",
        "A smooth deep network keeps its own kernel, and follows it, up to 1/m",
        (Quantity(OWN, ONE, statistic("own"), biased=False), Quantity(DRIFT, ONE, statistic("drift"), biased=False)),
        source=Source(BEYOND, SECTION),
        note="twice the exponent of the literature's bounds O(m^(-1/2)), which are true, but not sharp for smooth "
        "activations",
        says_left=f"{LEFT}{OWN}, y_own the kernel regime of H(0), and of {DRIFT}",
        claim_note="exponents of both; erf of depth 3",
        families=deep_ladders(ERF),
        uses=("deep/linearised",),
    ),
    Statement(
        id="deep/linearisation-error",
        title="A deep network is off its linearisation by O(m^(-1/2))",
        kind=Kind.ORDER,
        source=reported("T2"),
        note="reported: sup_t |f_lin - f| = O(width^-1/2). This is true. For smooth activations the error is of "
        "order 1/m (deep/smooth); for ReLU its mean is of order m^(-1/2) at large widths (deep/kinks) and smaller "
        "at these widths",
        stated=Claim(1 / sp.sqrt(m), note="O(): the ratio of the two sides must not grow with the width"),
        constants=lambda ladder: {m: Estimate.exact(ladder.sizes)},
        measure=lambda ladder: ladder.root_mean_square("own"),
        left_formula="rms_{networks} max_t |y_m(t) - y_{own}(t)| / |r_0|",
        says_left="RMS over networks of max_t |y_m(t) - y_own(t)| / |r_0|, y_own the linearised network's run, by the "
        "kernel regime of H(0), at each width",
        families=deep_ladders(RELU, ERF),
        mutants=(power(m, 3), power(m, 4)),
        uses=("deep/linearised",),
    ),
    Statement(
        id="deep/client-divergence",
        title="The divergence of a deep network's clients falls as m^(-1/2) for a neuron; relative to the round's "
        "movement it does not fall",
        kind=Kind.RATE,
        source=reported("T1; docs/proofs/linear_methods.md#fedavg-is-not-gradient-descent"),
        note="reported: sum_c p_c |theta_c - theta| = O(width^-1/2). In NTK parametrisation this holds for "
        "one neuron. Over all parameters the divergence is of order 1, as is the round's own movement, and "
        "their ratio tends to a number that depends on data, partition, steps and the limit kernel",
        hypotheses=(SEVERAL_CLIENTS, SERVER_ONE),
        stated=Claim(
            HALF,
            measure=lambda ladder: ladder.exponent("neuron", biased=True),
            left_formula=OF_A_NEURON,
            note="for a neuron: the distance over all parameters, divided by the root of the width",
        ),
        new=Claim(
            (HALF, ZERO, sp.log(q)),
            note="exponents of mean_c |theta_c - theta'| m^(-1/2), and of mean_c |theta_c - theta'| over |theta' - "
            "theta|; the logarithm of the second quantity's limit",
        ),
        constants=lambda ladder: {q: ladder.limit_divergence},
        measure=lambda ladder: (ladder.exponent("neuron", biased=True), *ladder.tends_to("divergence")),
        symbols={q: "mean_c |theta_c - theta'| over |theta' - theta| in the kernel regime of the limit"},
        left_formula=(OF_A_NEURON, f"exponent in m of {OF_A_ROUND}", f"log lim_{{m -> inf}} {OF_A_ROUND}"),
        says_left="log-log slopes over networks trained by the engine, and the logarithm of the ratio, extrapolated",
        families=deep_ladders(RELU, ERF),
        mutants=(shifted(sp.Rational(1, 4)), shifted(-sp.Rational(1, 4)), replaced(q, q / 2, "half as far")),
        uses=("fl-ntk/client-divergence", "deep/linearised"),
    ),
    Statement(
        id="deep/kinks",
        title="The kernel of a two-layer ReLU network, both layers trained, moves by m^(-1/2) in the mean",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/finite_width.md#deep-networks"),
        note="E[H(T) - H(0)] = E|a|^3 B m^(-1/2) + O(1/m), with B of X.9 along the residuals of the limit in which "
        "both layers are trained. The cube has two reasons: a neuron with readout weight a moves |a| times as far, "
        "so that |a| times as many of its patterns change, and its part of the kernel is a^2 times as large. "
        "Slopes over few widths show 1/m: at these widths the fluctuation is larger than the mean, and its "
        "exponent moves from -1 to -3/4. The literature's O(m^(-1/2)) is therefore sharp for ReLU; for smooth "
        "activations it is not (deep/smooth)",
        new=Claim(sp.log(third), note="E|a|^3 = 2 (2/pi)^(1/2) = 1.596; its logarithm"),
        constants=lambda ladder: {third: evaluate(THIRD, {})},
        measure=lambda ladder: ladder.multiple.log(),
        symbols={third: "third absolute moment of a standard Gaussian, the law of the initial readout weights"},
        left_formula="log lim_{m -> inf} sqrt(m) tr(B^T E (H(T) - H(0))) / |B|_F^2",
        says_left="the logarithm of m^(1/2) <E[H(T) - H(0)], B> / |B|^2, extrapolated from widths 2^8..2^13",
        families=(KINK_LADDERS,),
        mutants=(
            replaced(third, 1, "readouts of +-1", Change.CONSTANT),
            replaced(third, sp.sqrt(2 / sp.pi), "E|a|: kernels that do not weigh a neuron by a^2"),
            replaced(third, third / 2, "half as many neurons that cross", Change.CONSTANT),
            replaced(third, 2 * third, "twice as many neurons that cross", Change.CONSTANT),
        ),
        uses=("fl-ntk/X.9", "deep/kernel"),
    ),
)
