"""The statement of Theorem 4.1 on the number of rounds after which the training loss is at most eps.

A ladder is a series of accuracies and runs in which one parameter goes to a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import FL_NTK, Case, Claim, Family, Hypothesis, Kind, Limit, Nature, Options, Outcome, Source, Statement
from bounds.federated_run import federated_families, run_values
from bounds.fl_ntk.premises import PACE, SERVER_AT_MOST_1, UNIT_ROWS
from bounds.mutants import power, replaced
from bounds.symbols import K, N, eta_global, eta_local, lam, r0
from ntkfl import Estimate, Problem, Setup, data, gram, kernel_regime
from ntkfl.limit.infinite_width import KernelRegime

FIRST_LOSS = 20.0  # L(u(0)) on all ladders except `more_samples`; it is well above 1


@dataclass(frozen=True, eq=False)
class KernelStart:
    """The kernel regime from y(0) = 0, with the quantities in the claims."""

    problem: Problem
    setup: Setup
    gram: Estimate

    @cached_property
    def regime(self) -> KernelRegime:
        """The exact run, by `kernel_regime`."""
        return kernel_regime(self.problem, self.setup)

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """lambda_min(H_inf), certified."""
        return gram.smallest_eigenvalue(self.gram)

    @cached_property
    def largest_eigenvalue(self) -> Estimate:
        """|H_inf|, certified."""
        return gram.largest_eigenvalue(self.gram)

    @property
    def initial_residual(self) -> Estimate:
        """|y|."""
        return Estimate.exact(self.problem.y).norm()


@dataclass(frozen=True, eq=False)
class Target:
    """An accuracy eps that a run in the kernel regime has to reach."""

    run: KernelStart
    eps: float

    @cached_property
    def rounds(self) -> Estimate:
        """The first t with L = |y - y(t)|^2 / (2 N) <= eps. Its error is one round, since the comparison is rounded."""
        share = np.sqrt(2 * self.run.problem.n_clients * self.eps) / np.linalg.norm(self.run.problem.y)
        return Estimate(float(self.run.regime.rounds_to(float(share))), 1.0, "rounding bound")


@dataclass(frozen=True, eq=False)
class AccuracyLadder(Case):
    """Accuracies to be reached, along which one parameter of the claim goes to a limit.

    `sizes` grow along the targets. `other`, if given, is a function that makes a ladder of the same parameter on other
    data.
    """

    name: str
    targets: tuple[Target, ...]
    sizes: np.ndarray
    other: Callable[[], AccuracyLadder] | None = None

    def fresh(self) -> AccuracyLadder | None:
        """The other ladder, on which a violation is checked again."""
        return None if self.other is None else self.other()

    @property
    def n_runs(self) -> int:
        """The number of targets."""
        return len(self.targets)

    def of_every_target(self, read: Callable[[Target], Estimate | float]) -> Estimate:
        """A quantity of every target, (targets,)."""
        return Estimate.stacked(map(read, self.targets))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {
            "problem": self.targets[0].run.problem.name,
            "along": self.name,
            "eps": [float(f"{target.eps:.4g}") for target in self.targets],
            "N": [target.run.problem.n_clients for target in self.targets],
            "1/lambda": [round(1 / float(target.run.smallest_eigenvalue.value), 2) for target in self.targets],
        }


def scaled_to_start(problem: Problem) -> Problem:
    """The same data, with labels multiplied by a number so that L = |y|^2/(2 N) is 20."""
    factor = np.sqrt(2 * problem.n_clients * FIRST_LOSS) / np.linalg.norm(problem.y)
    return replace(problem, y=factor * problem.y, x_test=None, y_test=None)


def _start(problem: Problem, steps: int) -> KernelStart:
    """The run at eta_l = .99 lambda/(kappa K n^2) and eta_g = 1."""
    h = gram.infinite_estimate(problem.x)
    lowest, highest = float(gram.smallest_eigenvalue(h).lo), float(gram.largest_eigenvalue(h).hi)
    setup = Setup(eta_local=0.99 * lowest**2 / (highest * steps * problem.n**2), local_steps=steps)
    return KernelStart(problem, setup, h)


POWERS = 2.0 ** np.arange(6)


def more_samples(problem: Problem | None = None, steps: int = 2, first: int = 2) -> AccuracyLadder:
    """2, 4, ..., 256 orthogonal samples on one client, with every label 1. n/N and L(u(0)) grow at eps = 1/100."""
    counts = first * 2 ** np.arange(8)
    problems = [Problem(np.eye(int(count)), np.ones(count), name=f"{count} orthogonal points") for count in counts]
    targets = tuple(Target(_start(problem, steps), 0.01) for problem in problems)
    other = partial(more_samples, steps=steps + 1, first=first + 1)
    return AccuracyLadder("n/N to infinity", targets, counts.astype(float), other)


def towards_zero(problem: Problem, steps: int = 2) -> AccuracyLadder:
    """eps = e^-s for s = 4, 8, ..., 128, with labels in the slowest direction of the round map."""
    values, vectors = np.linalg.eig(_start(problem, steps).regime.round_map)
    slowest = replace(problem, y=vectors[:, int(np.argmax(values.real))].real, x_test=None, y_test=None)
    start, sizes = _start(scaled_to_start(slowest), steps), 4 * POWERS
    return AccuracyLadder("eps to 0", tuple(Target(start, float(np.exp(-s))) for s in sizes), sizes)


def more_clients(problem: Problem, steps: int = 2) -> AccuracyLadder:
    """The same samples on N = 1, 2, 4, ... clients, up to N <= n, at eps = 1/100."""
    counts = 2 ** np.arange(int(np.log2(problem.n)) + 1)
    targets = []
    for clients in counts:
        split = replace(problem, owner=np.arange(problem.n) % clients, x_test=None, y_test=None)
        targets.append(Target(_start(scaled_to_start(split), steps), 0.01))
    return AccuracyLadder("N to n", tuple(targets), counts.astype(float))


def smaller_angles(problem: Problem | None = None, steps: int = 2) -> AccuracyLadder:
    """Two points with labels of opposite sign at angles from .3 to .03, at eps = 1/100. lambda goes to 0."""
    targets = []
    for angle in np.geomspace(0.3, 0.03, 6):
        x = np.array([[np.cos(angle / 2), sign * np.sin(angle / 2)] for sign in (1, -1)])
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        pair = scaled_to_start(Problem(x, np.array([1.0, -1.0]), name="two points"))
        targets.append(Target(_start(pair, steps), 0.01))
    sizes = np.array([1 / float(target.run.smallest_eigenvalue.value) for target in targets])
    return AccuracyLadder("lambda to 0", tuple(targets), sizes)


LADDERS = (towards_zero, more_clients, more_samples, smaller_angles)


def _ladder(build: Callable[..., AccuracyLadder], options: Options, seed: int) -> AccuracyLadder:
    """The ladder of one seed, on eight points of the sphere or on the user's data."""
    return build(data.sphere(8, 8, seed=seed) if options.data is None else federated_families(options)[0].problem(seed))


def any_ladder(*_: Any) -> SearchStrategy[AccuracyLadder]:
    """Ladders of every kind on spheres with 8 to 12 points, labels of three sorts, and 1 to 4 local steps."""

    def ladder(build, size: int, labels: str, seed: int, steps: int) -> AccuracyLadder:
        return build(data.sphere(size, size, seed=seed, labels=labels), steps)

    sorts = st.sampled_from(["sign", "uniform", "linear"])
    return st.builds(
        ladder, st.sampled_from(LADDERS), st.integers(8, 12), sorts, st.integers(0, 2**16), st.integers(1, 4)
    )


def accuracy_families(options: Options) -> tuple[Family, ...]:
    """Every kind of ladder, on three seeds if it draws data.

    On the user's data there is one ladder of each kind that the data allow.
    """
    chosen = options if options.data else Options()
    counts: tuple[int, ...] = (3, 3, 1, 1)
    if options.data is not None:
        counts = (1, 1) if federated_families(options)[0].problem(options.seed).n >= 8 else (1,)
    return tuple(
        Family(f"rounds to eps, {build.__name__.replace('_', ' ')}", _ladder, any_ladder, (build, chosen), count, 5)
        for build, count in zip(LADDERS, counts, strict=False)
    )


eps = sp.Symbol("epsilon", positive=True)
WORK = r0**2 / (2 * N * eps)  # L(u(0)) / eps


def _runs(ladder: AccuracyLadder) -> list[KernelStart]:
    return [target.run for target in ladder.targets]


def _constants(ladder: AccuracyLadder) -> dict:
    by_run = [run_values(run, N, K, eta_local, eta_global, lam, r0) for run in _runs(ladder)]
    values = {symbol: Estimate.stacked(values_of[symbol] for values_of in by_run) for symbol in by_run[0]}
    return values | {eps: ladder.of_every_target(lambda target: target.eps)}


def _steps(ladder: AccuracyLadder) -> float:
    shares = []
    for run in _runs(ladder):
        lowest, highest = float(run.smallest_eigenvalue.lo), float(run.largest_eigenvalue.hi)
        limit = lowest**2 / (highest * run.setup.local_steps * run.problem.n**2)
        shares.append(run.setup.eta_local / limit)
    return max(shares)


def _above(ladder: AccuracyLadder) -> float:
    return min(
        float(target.run.initial_residual.lo) ** 2 / (2 * target.run.problem.n_clients * target.eps) - 1 - 1e-12
        for target in ladder.targets
    )


STATEMENTS = (
    Statement(
        id="fl-ntk/T4.1",
        title="Rounds to a training loss of eps",
        kind=Kind.ORDER,
        source=Source(FL_NTK, "Theorem 4.1"),
        note="the theorem is labelled informal; its formal version, Theorem B.3, is right. The informal theorem has T "
        "= O(N/(lambda eta_l eta_g K) ln(1/eps)), and section 6 closes with (1 - rho lambda/2)^T <= eps, without the "
        "factor |y - y(0)|^2 of (7). From (7), L <= eps once T >= 2 N/(lambda eta_l eta_g K) ln(|y - y(0)|^2/(2 N "
        "eps)). The O() is judged without a choice of its constant: along a ladder of sizes the ratio of the rounds "
        "needed to the formula must not grow. At a fixed eps this ratio grows with n/N, without bound: with labels of "
        "size 1 the loss starts at n/(2 N), and the rounds needed grow like ln(n/(2 N eps)): on the orthogonal points "
        "of the stored case the ratio is (1 + ln(n/(2 N))/ln(1/eps))/2, up to whole rounds. The informal form is "
        "right for eps below some power of 1/L(u(0)), and for every eps if L(u(0)) <= 1: a hypothesis left out. The "
        "loss is written as a sum up to N where n is meant, over u in R^(d x M)",
        hypotheses=(
            UNIT_ROWS.of_every("run", _runs),
            Hypothesis(
                "steps",
                "eta_l <= lambda/(kappa K n^2): the O() with the constant 1",
                Limit("eta_l kappa K n^2 / lambda", _steps, at_most=1.0),
                eased_by=("eta_local",),
            ),
            SERVER_AT_MOST_1.of_every("run", _runs),
            Hypothesis("starts-above-eps", "L(u(0)) > eps: otherwise no round is needed", _above),
        ),
        stated=Claim(
            PACE * sp.log(1 / eps),
            recorded=Outcome.VIOLATED,
            nature=Nature.MISSING_HYPOTHESIS,
            witness=more_samples,
            reading="two places agree: ln(1/eps) here, and no factor |y - y(0)|^2 at the end of section 6",
            consequence="count rounds with ln(|y - y(0)|^2/(2 N eps)) in place of ln(1/eps)",
        ),
        repaired=Claim(2 * PACE * sp.log(WORK)),
        constants=_constants,
        measure=lambda ladder: ladder.of_every_target(lambda target: target.rounds),
        symbols={eps: "accuracy: L = |y - y(T)|^2/(2 N) <= epsilon", r0: "|y - y(0)|_2, where L(u(0)) = r_0^2/(2 N)"},
        left_formula="min {t : L(t) <= eps}",
        says_left="the first round with L <= eps, in the kernel regime, along ladders of eps, N, n/N and lambda",
        families=accuracy_families,
        mutants=(
            replaced(WORK, 1 / eps, "ln(1/eps) alone"),
            replaced(eps, 1, "eps dropped"),
            power(N, sp.Rational(1, 4)),
            power(lam, sp.Rational(1, 2)),
            power(eta_local, sp.Rational(1, 2)),
        ),
        uses=("fl-ntk/B.3",),
    ),
)
