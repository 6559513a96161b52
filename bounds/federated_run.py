"""The case of most statements: a run of Algorithm 1. Its expensive parts are computed once, for all statements.

Balls are intervals given by a midpoint and a radius (python-flint). A run in balls gives intervals that contain the
values of the exact run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from hypothesis import assume, strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds import symbols
from bounds.case import Case, TooCostly, another_network, computed_once, needed
from bounds.drawn_networks import drawn_network
from bounds.options import Options
from bounds.strategies import Range, largest_block, largest_eigenvalue, networks, partitions, points, steps, targets
from ntkfl import Problem, Setup, Trajectory, Weights, data, gram, simulate
from ntkfl.algorithm1.group_sizes import grouped_bytes, neurons_bytes, padded_samples, record_bytes
from ntkfl.algorithm1.reference import BALL, DOUBLE, EXTENDED, Arithmetic, PlainRun, plain_run
from ntkfl.algorithm1.simulation import GROUPED, checked_weights
from ntkfl.estimate import Estimate, Rigour
from ntkfl.imports import old_names
from ntkfl.trajectory import provenance

ORDER_SAFETY = 10  # assumed rounding error of a run / difference of two runs with different orders of summation
FEW_NEURONS = 16  # below this width sums in two orders often agree in every bit although both are rounded
BALL_BUDGET = 4e6  # largest product width * n * d * local steps * rounds of a run in balls
EXTENDED_BUDGET = 4e9
# Least n m K T (samples, width, local steps, rounds) of a run that is compiled. The limit is lower than for a single
# run, since many runs share the compilation.
COMPILED = 2e5
EXPENSIVE = 2e8  # n m K T above which a run takes more than about a second


@dataclass(frozen=True, eq=False)
class FederatedRun(Case):
    """A problem, a setup and a network, with the run of Algorithm 1 that they determine.

    If `arithmetic` is None, the run is in float64, and a second run, which sums over the neurons in the opposite order,
    measures the rounding error. Both are runs of the fast simulator or, if `device` is given (cpu, cuda, cuda:NUMBER),
    of the training engine on that device. If `arithmetic` is given, the case is the run of `plain_run` in that
    arithmetic; a run in balls is rigorous.
    """

    problem: Problem
    setup: Setup
    weights: Weights
    arithmetic: Arithmetic | None = None
    bits: int = 256
    linearised: bool = False  # whether the network is linearised in its weights: its activation patterns are frozen
    movements: bool = True  # whether movements, steps and flips are recorded
    device: str | None = None  # device of the training engine; None: the simulator

    def prepare(self) -> None:
        """Run the simulations now.

        They release Python's interpreter lock, so that another thread can check a case meanwhile.
        """
        if self.arithmetic is None:
            self.observed("residual_norm")

    @computed_once
    def trajectory(self) -> Trajectory:
        """The run in float64, with the hidden weights kept at `snapshot_round` and at the end.

        Without an `arithmetic` this is the run of `simulate`. With an `arithmetic` it is the run of `plain_run`, which
        is independent code, rounded to float64.
        """
        if self.arithmetic is None:
            return self._simulate(self.weights, (self.snapshot_round, self.setup.rounds))
        names = ("outputs", "local_outputs", "movement", "total_movement", "local_movement", "step", "flips")
        return Trajectory(
            y=self.problem.y,
            n_clients=self.problem.n_clients,
            weights={t: self.arithmetic.estimate(kept).value for t, kept in self._plain.weights.items()},
            provenance=provenance(weights=self.setup.seed),
            **{name: np.asarray(getattr(self._plain, name).value) for name in names},
        )

    @computed_once
    def _other_order(self) -> Trajectory:
        return self._simulate(Weights(self.weights.hidden[::-1], self.weights.signs[::-1]), keep=())

    def _simulate(self, weights: Weights, keep: tuple[int, ...]) -> Trajectory:
        how: dict[str, Any] = {"linearised": self.linearised, "movements": self.movements}
        if self.device is None:
            how["compiled"] = compiled(self.problem, self.setup)
            return simulate(self.problem, self.setup, weights, keep=keep, **how)
        # here, since torch loads slowly and is seldom needed
        from ntkfl.training.engine_trajectory import engine_trajectory

        return engine_trajectory(self.problem, self.setup, weights, device=self.device, keep=keep, **how)

    @computed_once
    def _plain(self) -> PlainRun:
        assert self.arithmetic is not None
        return plain_run(
            self.problem,
            self.setup,
            self.weights,
            self.arithmetic,
            linearised=self.linearised,
            bits=self.bits,
            keep=(self.snapshot_round, self.setup.rounds),
        )

    def observed(self, name: str) -> Estimate:
        """A field of `Trajectory` (outputs, residual_norm, movement, step, ...) with its error.

        Args:
            name: the name of the field.

        Raises:
            FloatingPointError: the run overflowed. ValueError: movements are asked for, and the case's family does not
                record them.
        """
        if self.arithmetic is not None:
            return getattr(self._plain, name)
        with np.errstate(over="ignore", invalid="ignore"):  # the check below refuses an overflow and names its cause
            value, other = getattr(self.trajectory, name), getattr(self._other_order, name)
        if value is None:
            raise ValueError(f"the run records no {name}; draw it with federated_families(..., movements=True)")
        if not (np.isfinite(value).all() and np.isfinite(other).all()):
            raise FloatingPointError(
                f"the run on {self.problem.name} overflowed: {name} is not finite; "
                f"eta_local = {self.setup.eta_local:g} and eta_global = {self.setup.eta_global:g} are too large "
                f"for {self.setup.rounds} rounds"
            )
        if self.setup.width < FEW_NEURONS:
            exact = self.with_arithmetic(EXTENDED).observed(name)
            error = ORDER_SAFETY * np.abs(value - exact.value) + exact.error + 8 * np.finfo(float).eps * np.abs(value)
            return Estimate(value, error, "extended precision")
        difference = np.abs(value - other)
        # two orders may agree in one entry by chance, so every entry of a round gets the largest error in the round
        if difference.ndim > 1:
            difference = np.broadcast_to(difference.max(axis=-1, keepdims=True), difference.shape)
        difference = np.maximum.accumulate(difference, axis=0)
        error = ORDER_SAFETY * difference + 8 * np.finfo(float).eps * np.abs(value)
        return Estimate(value, error, "two summation orders")

    @property
    def rigour(self) -> Rigour:
        """ENCLOSED for a run in balls, MEASURED for every other run."""
        return Rigour.ENCLOSED if self.arithmetic is BALL else Rigour.MEASURED

    @property
    def computed(self) -> str:
        """The arithmetic of the run, in words."""
        return f"balls of {self.bits} bits" if self.arithmetic is BALL else (self.arithmetic or DOUBLE).name

    @property
    def ran_on(self) -> str | None:
        """The device of the training engine."""
        return self.device

    def sharper(self) -> FederatedRun | None:
        """The run in balls, then in balls of higher precision; if the run is too long for balls, in extended precision.

        Raises:
            TooCostly: the run is too long for extended precision too.
        """
        s, p = self.setup, self.problem
        cost = float(s.width) * p.n * p.d * s.local_steps * s.rounds
        if cost <= BALL_BUDGET:
            first = 128 + 2 * s.rounds * s.local_steps  # each step loses about one bit of precision
            finer = [bits for bits in (first, 4 * first) if self.arithmetic is not BALL or bits > self.bits]
            return self.with_arithmetic(BALL, finer[0]) if finer else None
        if self.arithmetic in (BALL, EXTENDED):
            return None
        if cost > EXTENDED_BUDGET:
            raise TooCostly(
                f"{cost:.1e} operations are too many to repeat in extended precision; fewer neurons, samples or rounds "
                "would do"
            )
        return self.with_arithmetic(EXTENDED)

    def plain(self) -> FederatedRun:
        """The case as a run of `plain_run` in float64. No second run measures the rounding.

        A violation that is found this way is computed again in balls.
        """
        return self if self.arithmetic is DOUBLE else self.with_arithmetic(DOUBLE)

    def redrawn(self, seed: int) -> FederatedRun:
        """The same run from another Gaussian network.

        Args:
            seed: a whole number, at least 0.
        """
        return replace(self, weights=another_network(self.weights, seed, self.setup.sigma))

    def with_arithmetic(self, arithmetic: Arithmetic, bits: int = 256) -> FederatedRun:
        """The same case computed in another arithmetic.

        Args:
            arithmetic: the arithmetic of the run.
            bits: precision of the balls, default 256.
        """
        return replace(self, arithmetic=arithmetic, bits=bits)

    @property
    def snapshot_round(self) -> int:
        """The round whose local weights and Gram matrices are examined: the middle one."""
        return self.setup.rounds // 2

    @cached_property
    def rounds(self) -> np.ndarray:
        """The numbers 0..T of the rounds, (T+1,)."""
        return np.arange(self.setup.rounds + 1)

    @cached_property
    def initial_gram(self) -> Estimate:
        """H(0), (n, n), with a bound on its rounding error. The activations of the float64 weights are exact."""
        return gram.finite_estimate(self.problem.x, self.weights.hidden)

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """lambda_min(H(0)), a number, certified."""
        return gram.smallest_eigenvalue(self.initial_gram)

    @cached_property
    def largest_eigenvalue(self) -> Estimate:
        """|H(0)|, a number, certified."""
        return gram.largest_eigenvalue(self.initial_gram)

    @property
    def initial_residual(self) -> Estimate:
        """r_0 = |y - y(0)|, a number."""
        return self.observed("residual_norm")[0]

    @property
    def rho(self) -> Estimate:
        """eta_g eta_l K / N, a number. The error bound covers three roundings, since the inputs are exact."""
        s = self.setup
        value = s.eta_global * s.eta_local * s.local_steps / self.problem.n_clients
        return Estimate(value, 4 * np.finfo(float).eps * value, "rounding bound")

    def residual_part(self, c: int) -> tuple[Estimate, Estimate]:
        """The residual norms of client c: |y_c - y_c(t)|, (T,), and |y_c - y_c^{(k)}(t)|, (T, K+1).

        Args:
            c: the client's number, from 0.

        Returns: the first norm, shape (T,), and the second, shape (T, K+1).
        """
        members = self.problem.members[c]
        global_part = distance(self.observed("outputs")[:-1, members], self.problem.y[members])
        return global_part, distance(self.observed("local_outputs")[:, :, members], self.problem.y[members])

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        p = self.problem
        return {"problem": p.name, "n": p.n, "d": p.d, "N": p.n_clients} | asdict(self.setup)


def federated_run(
    problem: Problem, setup: Setup, weights: Weights | None = None, device: str | None = None
) -> FederatedRun:
    """The case of a problem and a setup; the network is given or drawn.

    Args:
        problem: data with scalar labels.
        setup: sizes, steps and seed.
        weights: hidden (m, d) and signs (m,); default drawn from the setup's seed.
        device: device of the training engine (cpu, cuda, cuda:NUMBER); None: runs are simulated.
    """
    if weights is None:
        weights = drawn_network(setup.width, problem.d, setup.seed, setup.sigma)
    return FederatedRun(problem, setup, checked_weights(problem, setup, weights), device=device)


def compiled(problem: Problem, setup: Setup) -> bool:
    """Whether a run is compiled, if it is one of many runs.

    Args:
        problem: data.
        setup: sizes and steps.
    """
    return problem.n * setup.width * setup.local_steps * setup.rounds >= COMPILED


def distance(outputs: Estimate, target: np.ndarray) -> Estimate:
    """|outputs - target| over the last axis, in the shape of the other axes, with an error from the outputs' errors.

    Args:
        outputs: with their errors.
        target: an array that broadcasts with them.
    """
    return (outputs - target).norm(-1)


@dataclass(frozen=True)
class FederatedFamily:
    """Runs of Algorithm 1 on one kind of data. Each seed draws samples, labels, partition and network anew."""

    name: str
    setup: Setup
    clients: int | None
    partition: str | None
    n: int | None
    built_in: str = "digits"  # the built-in data that are used if the user names no data
    unit: bool = False
    options_data: str | None = None
    trials: int = 200
    linearised: bool = False
    movements: bool = False
    device: str | None = None

    @property
    def required(self) -> int:
        """Number of cases that a verdict needs."""
        return needed(self.trials)

    def problem(self, seed: int) -> Problem:
        """The data of one seed; a user's file is the same for every seed.

        Args:
            seed: a whole number, at least 0.
        """
        if self.options_data is not None:
            return _user_problem(self.options_data, self.unit, self.clients, self.partition, self.n, seed)
        return data.named(self.built_in, n=self.n, seed=seed, clients=self.clients, partition=self.partition)

    def case(self, seed: int) -> FederatedRun:
        """The run of one seed.

        Args:
            seed: a whole number, at least 0.
        """
        run = federated_run(self.problem(seed), replace(self.setup, seed=seed), device=self.device)
        return replace(run, linearised=self.linearised, movements=self.movements)

    def case_bytes(self, problem: Problem, width: int, rounds: int) -> float:
        """The memory in bytes of a case of these data.

        A case holds a run, the network, and two records, each with the weights of two rounds.

        Args:
            problem: the data of the case.
            width: m.
            rounds: T.
        """
        steps, kept, samples = self.setup.local_steps, 2, padded_samples(problem)
        if self.movements or problem.n * width < GROUPED:
            run = float(neurons_bytes(samples, problem.d, width))
        else:
            run = grouped_bytes(samples // problem.n_clients, problem.d, width)
        return run + 8 * width * problem.d * (1 + 2 * kept) + 2 * record_bytes(samples, rounds, steps)

    def strategy(self) -> SearchStrategy[FederatedRun]:
        """Small runs on any data, network and step sizes.

        If this family's runs are linearised, the small runs are too.
        """
        return federated_runs(linearised=self.linearised)


@cache
def _user_file(path: str, unit: bool, clients: int | None, partition: str | None) -> Problem:
    problem = data.named(path, unit=unit, clients=clients, partition=partition)
    problem.require_no_zero_row()
    return problem


def _user_problem(spec: str, unit, clients, partition, n, seed) -> Problem:
    if Path(spec).suffix:
        return _user_file(spec, unit, clients, partition)
    return data.named(spec, n=n, seed=seed, unit=unit, clients=clients, partition=partition)


# Number of seeds of each default family. Two families without a failure exclude a failure rate of 1/30; a rate of 1/10
# is what fl-ntk/B.3 allows.
DEFAULT_TRIALS = 60
OWN_TRIALS = 30  # number of seeds of a statement's own families


def federated_families(
    options: Options, label: str = "", *, linearised: bool = False, movements: bool = False, **defaults
) -> tuple[FederatedFamily, ...]:
    """The default families, digits (n=20, N=4) and sphere (n=8, d=8, N=2), or the user's data.

    Args:
        options: the user's choices.
        label: a name for the values in `defaults`; reports show it after the family's name.
        linearised: whether the activation patterns stay as they are at the start.
        movements: whether movements are recorded too, which takes 1.5 times as long.
        defaults: fields of Setup whose values differ from the defaults.
    """
    setup = options.setup(**defaults)
    overruled = any(getattr(options, name) is not None for name in defaults)
    families = (("digits", 20, 4), ("sphere", 8, 2)) if options.data is None else ((options.data, 20, 4),)
    draws = []
    for name, n, clients in families:
        n = options.n or n
        user = options.data
        size = _user_problem(user, options.unit, options.clients, options.partition, n, 0).n if user else n
        cost = size * setup.width * setup.local_steps * setup.rounds
        draws.append(
            FederatedFamily(
                name=f"{name} ({label})" if label and not overruled else name,
                setup=setup,
                clients=options.clients or (clients if user is None else None),
                partition=options.partition or ("iid" if user is None else None),
                n=n,
                built_in=name,
                unit=options.unit,
                options_data=user,
                trials=options.trials or (20 if cost > EXPENSIVE else OWN_TRIALS if label else DEFAULT_TRIALS),
                linearised=linearised,
                movements=movements,
                device=options.device,
            )
        )
    return tuple(draws)


@cache
@st.composite
def federated_runs(
    draw: DrawFn,
    *,
    n: Range = (1, 3),
    d: Range = (1, 3),
    clients: Range = (1, 3),
    width: Range = (1, 64),
    local_steps: Range = (1, 4),
    rounds: Range = (1, 8),
    linearised: bool = False,
    in_balls: bool = False,
) -> FederatedRun:
    """Small runs of Algorithm 1 on any data, labels, partition, network and steps.

    Equal arguments give the same strategy.
    """
    x = draw(points(n, d))
    owner = draw(partitions(len(x), clients=clients))
    weights = draw(networks(x.shape[1], width))
    # no neuron is at its kink, since there only the convention for relu'(0) would be tested
    assume((x @ weights.hidden.T).all())
    h = gram.finite(x, weights.hidden)
    problem = Problem(x, draw(targets(weights.outputs(x))), owner, name="drawn")
    chosen = draw(steps(largest_block(h, owner), largest_eigenvalue(h), problem.n_clients, local_steps, rounds))
    run = FederatedRun(problem, Setup(width=len(weights.signs), **chosen), weights, linearised=linearised)
    return run.with_arithmetic(BALL) if in_balls else run


def condition_number(run: FederatedRun) -> Estimate:
    """The ratio of the largest to the smallest eigenvalue of H(0), certified."""
    lowest, highest = run.smallest_eigenvalue, run.largest_eigenvalue
    return Estimate.between(highest.lo / lowest.hi, highest.hi / lowest.lo, lowest.method, lowest.rigour)


VALUES: dict[sp.Symbol, Callable[[FederatedRun], Any]] = {
    symbols.n: lambda run: run.problem.n,
    symbols.N: lambda run: run.problem.n_clients,
    symbols.m: lambda run: run.setup.width,
    symbols.sigma: lambda run: run.setup.sigma,
    symbols.K: lambda run: run.setup.local_steps,
    symbols.T: lambda run: run.setup.rounds,
    symbols.eta_local: lambda run: run.setup.eta_local,
    symbols.eta_global: lambda run: run.setup.eta_global,
    symbols.rho: lambda run: run.rho,
    symbols.lam: lambda run: run.smallest_eigenvalue,
    symbols.kappa: condition_number,
    symbols.r0: lambda run: run.initial_residual,
    symbols.t: lambda run: run.rounds[1:],
}


def run_values(run: Any, *wanted: sp.Symbol) -> dict[sp.Symbol, Any]:
    """The values of these symbols: sizes and steps, lambda and kappa of H(0), |y - y(0)|, t = 1..T."""
    return {symbol: VALUES[symbol](run) for symbol in wanted}


__getattr__ = old_names(__name__, federated_draws="federated_families")
