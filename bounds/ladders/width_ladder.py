"""A ladder of widths: the same data and initial residual at every width, and several networks of each width.

Networks before training are measured up to the width 2^20, since their Gram matrices and outputs are computed without
storing a whole network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from bounds.case import prepared
from bounds.cases.snapshot import Snapshot
from bounds.federated_run import FederatedFamily, FederatedRun, federated_families, federated_run
from bounds.ladders.rungs import OTHER, SPACING, Rungs, WidthFamily
from bounds.ladders.slopes import NoSlope
from bounds.options import Options
from bounds.strategies import labels, largest_block, log_uniform, partitions, unit_data
from ntkfl import Estimate, Problem, Setup, Weights, data, gram, kernel_regime
from ntkfl.algorithm1.reference import DOUBLE, Arithmetic
from ntkfl.initialisation import blocks, draw

TEST_POINTS = 5


@dataclass(frozen=True, eq=False)
class RunStatistics:
    """Statistics of one run of T rounds with K local steps.

    t is the middle round, and (t, k) is the last local step of this round. The local steps of the middle round are
    computed anew from its global weights u(t).

    Q_i is the set of neurons whose activation on sample i no change of their initial weights by at most R can alter.
    R is the largest value of |u_r(t) - u_r(0)| and |u_r(t+1) - u_r(0)| over the neurons r.
    """

    run: FederatedRun

    @property
    def movement(self) -> float:
        """max_r |u_r(T) - u_r(0)|."""
        return float(self._recorded("movement")[-1])

    @property
    def step(self) -> float:
        """max_t max_r |u_r(t+1) - u_r(t)|."""
        return float(self.run.setup.eta_global * self._recorded("step").max())

    @property
    def total_movement(self) -> float:
        """|U(T) - U(0)|_F."""
        return float(self._recorded("total_movement")[-1])

    @property
    def flips(self) -> float:
        """The share of the pairs (neuron r, sample i) whose activation differs between the start and round T."""
        return float(self._recorded("flips")[-1])

    def _recorded(self, name: str) -> np.ndarray:
        values = getattr(self.run.trajectory, name)
        assert values is not None, "the ladder's runs record movements"
        return values

    @cached_property
    def gram_drift(self) -> np.ndarray:
        """H(T) - H(0), (n, n)."""
        last = self.run.trajectory.weights[self.run.setup.rounds]
        return gram.finite(self.run.problem.x, last) - self.run.initial_gram.value

    @cached_property
    def linearised(self) -> np.ndarray:
        """y_m - y_lin, (T+1, n), where y_lin are the outputs in the kernel regime with the fixed Gram matrix H(0)."""
        outputs = self.run.trajectory.outputs
        frozen = kernel_regime(self.run.problem, self.run.setup, self.run.initial_gram.value)
        return outputs - frozen.outputs(self.run.rounds, outputs[0])

    @property
    def frobenius_movement(self) -> float:
        """The absolute difference of |U(T) - U(0)|_F and its value at infinite width."""
        return abs(self.total_movement - self.total_movement_limit)

    @property
    def outputs(self) -> float:
        """max_t |y_m(t) - y_inf(t)|."""
        return self._against_limits["outputs"]

    @property
    def movement_limit(self) -> float:
        """The leading order of `movement`: max_r |X^T (c_T * s_r)| / sqrt m.

        s_r are the initial activations of neuron r, and c_T are the coefficients of fl-ntk/X.8.
        """
        return self._against_limits["movement_limit"]

    @property
    def total_movement_limit(self) -> float:
        """The value of `total_movement` at infinite width, sqrt(c_T^T H_inf c_T)."""
        return self._against_limits["total_movement_limit"]

    @property
    def prediction(self) -> float:
        """The root mean square over five test points of f(x, T) minus the infinite-width network's output."""
        return self._against_limits["prediction"]

    @property
    def local_step(self) -> float:
        """The maximum over c, r, k of |w_{k,c,r}(t) - u_r(t)|."""
        return self._inside["local_step"]

    @property
    def local_gram_drift(self) -> np.ndarray:
        """H(t,k) - H(0), (n, n)."""
        return self._inside["local_gram_drift"]

    @property
    def asymmetry(self) -> np.ndarray:
        """H(t,k) - H(t,k)^T, (n, n)."""
        return self._inside["asymmetry"]

    @property
    def jacobian(self) -> float:
        """|J(t,k) - J(0,0)|_F, with every sample under the weights of its own client."""
        return self._inside["jacobian"]

    @property
    def complement(self) -> float:
        """max_k |H(t,k)^perp|_F, where row i of H(t,k)^perp sums over the neurons outside Q_i."""
        return self._inside["complement"]

    @property
    def remainder(self) -> float:
        """|v_2| / |y - y(t)|, where entry i of v_2 is the change of output i in round t by the neurons outside Q_i."""
        return self._inside["remainder"]

    @cached_property
    def _against_limits(self) -> dict[str, float]:
        run, x, last = self.run, self.run.problem.x, self.run.setup.rounds
        outputs = run.trajectory.outputs
        start, limit = outputs[0], kernel_regime(run.problem, run.setup)
        infinite = limit.outputs(run.rounds, start)
        points = np.random.default_rng(2).normal(size=(TEST_POINTS, run.problem.d))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        hidden, signs = run.weights
        before, after = (Weights(u, signs).outputs(points) for u in (hidden, run.trajectory.weights[last]))
        coefficients = np.linalg.solve(limit.gram, infinite[-1] - start)
        led = np.where(gram.activations(x, hidden).T, coefficients, 0) @ x
        return {
            "outputs": float(np.linalg.norm(outputs - infinite, axis=1).max()),
            "total_movement_limit": float(limit.movement(last, start)),
            "movement_limit": float(np.linalg.norm(led, axis=1).max() / np.sqrt(run.setup.width)),
            "prediction": float(np.sqrt(((after - limit.predict(points, last, start, before)) ** 2).mean())),
        }

    @cached_property
    def _inside(self) -> dict[str, Any]:
        run = self.run
        inside, x, steps = Snapshot(run), run.problem.x, run.setup.local_steps
        outside = ~inside.safe
        last = inside.gram(steps - 1)
        off = [inside.gram(k, outside) for k in range(steps)]
        local, _ = inside.local
        before = gram.activations(x, run.weights.hidden)
        flipped = np.empty(run.problem.n)
        for c, members in enumerate(run.problem.members):
            flipped[members] = (gram.activations(x[members], local[-2, c]) != before[members]).mean(axis=1)
        return {
            "local_step": float(np.sqrt(((local - inside.hidden) ** 2).sum(axis=-1).max())),
            "local_gram_drift": last - run.initial_gram.value,
            "asymmetry": last - last.T,
            "jacobian": float(np.sqrt((flipped * (x**2).sum(axis=1)).sum())),
            "complement": max(float(np.linalg.norm(block)) for block in off),
            "remainder": float(
                np.linalg.norm(inside.change(outside).value) / run.trajectory.residual_norm[run.snapshot_round]
            ),
        }


SHORT = {2**k: 24 for k in range(8, 14)}  # maps a width to the number of networks
LONG = {2**k: 48 for k in range(8, 13)} | {2**13: 32, 2**14: 16, 2**15: 12, 2**16: 8}
# there are at least six widths, so that the slope's interval covers finite-size bias
DRAWN_RUNGS = tuple(2**power for power in range(7, 13))
DRAWN_NETWORKS = 8  # number of networks of each width of a ladder that Hypothesis draws


@dataclass(frozen=True, eq=False)
class WidthLadder(Rungs):
    """Runs of Algorithm 1 over widths and seeds.

    The labels are y_m(0) + r_0 with one fixed r_0. So every run starts from the same residual, and only width and
    network vary. No two networks share neurons. So each size may be resampled by itself.
    """

    problem: Problem  # data whose labels are r_0
    setup: Setup  # setup of every run, except for its width and seed
    # the widths, and the number of networks at each width
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int  # seed of the first network
    # arithmetic of the runs, as in `FederatedRun`; None: the runs are simulated in float64
    arithmetic: Arithmetic | None = None

    @cached_property
    def runs(self) -> list[list[FederatedRun]]:
        """The runs of each width."""
        return self.in_rungs(
            "runs", lambda row, places: [self._run(self.widths[row], self.seeds(row)[i]) for i in places]
        )

    def _run(self, width: int, seed: int) -> FederatedRun:
        weights = draw(width, self.problem.d, seed, self.setup.sigma)
        initial = weights.outputs(self.problem.x)
        problem = replace(self.problem, y=initial + self.problem.y, x_test=None, y_test=None)
        run = federated_run(problem, replace(self.setup, width=width, seed=seed), weights)
        return replace(run, arithmetic=self.arithmetic)

    def plain(self) -> WidthLadder:
        """The same ladder with runs of `plain_run`, which need no compiled code."""
        return self if self.arithmetic is DOUBLE else self.with_arithmetic(DOUBLE)

    def with_arithmetic(self, arithmetic: Arithmetic) -> WidthLadder:
        """The same ladder computed in another arithmetic."""
        return replace(self, arithmetic=arithmetic)

    def prepare(self) -> None:
        """Run the simulations now, like `FederatedRun.prepare`.

        The rounding error of a run is measured only when it is needed.
        """
        self._over_runs("trajectories", lambda run: run.trajectory)

    def fresh(self) -> WidthLadder:
        """Other networks on the same data, as a second opinion.

        The second opinion has at most as many widths, and at each width at most as many networks, as a ladder on SHORT.
        """
        return self._other(tuple(min(pair) for pair in zip(self.counts, SHORT.values(), strict=False)))

    @cached_property
    def statistics(self) -> list[list[RunStatistics]]:
        """The measurements of each run for the statements on rates, by width."""
        return self._over_runs("statistics", RunStatistics)

    def samples(self, name: str) -> list[np.ndarray]:
        """The values of one statistic for every run: an array (networks, ...) for each width."""
        statistics = self.statistics
        return [np.array(row) for row in self.at_each(name, lambda row, i: getattr(statistics[row][i], name))]

    def split(self, name: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """The norm of the mean over networks of an array-valued statistic, and the networks' distances from the mean.

        The norms are (widths,), and the distances are (networks,) for each width. The squared norm and the mean squared
        distance add up to the statistic's mean square, without bias.

        Raises:
            NoSlope: the estimate of the mean's square is negative, since the noise is larger than the mean.
        """
        means, spreads = [], []
        for sample in self.samples(name):
            count, mean = len(sample), sample.mean(axis=0)
            spread = np.linalg.norm((sample - mean).reshape(count, -1), axis=1) * np.sqrt(count / (count - 1))
            means.append((mean**2).sum() - (spread**2).mean() / count)
            spreads.append(spread)
        if min(means) < 0:
            width = self.widths[int(np.argmin(means))]
            raise NoSlope(
                f"{name} at width {width}: {min(self.counts)} or more networks do not tell its mean from 0; more would"
            )
        return np.sqrt(means), spreads

    def _over_runs(self, name: str, read: Callable[[FederatedRun], Any]) -> list[list[Any]]:
        runs = self.runs
        return self.at_each(name, lambda row, i: read(runs[row][i]))


def _ladder(
    base: FederatedFamily | None, setup: Setup, widths: tuple[int, ...], counts: tuple[int, ...], seed: int
) -> WidthLadder:
    """The ladder whose first network has the given seed, on the data of a family or on six points of three clients."""
    problem = data.sphere(6, 4, seed=seed, clients=3, labels="uniform") if base is None else base.problem(seed)
    return WidthLadder(problem, setup, widths, counts, seed)


def _any_ladder(base: FederatedFamily | None, setup: Setup) -> SearchStrategy[WidthLadder]:
    """Short ladders on two to four points, with any clients, local steps and stable step sizes."""
    return width_ladders(setup)


def ladder_families(options: Options, **defaults) -> tuple[WidthFamily, ...]:
    """One ladder (n=6, d=4, N=3, K=3, eta_l=.4, T=60), or a ladder on the user's data.

    The largest width is 2^16 on the ladder that the rate statements share. It is 2^13 on a ladder with a statement's
    own settings and on a ladder on the user's data. On the user's data, wider networks may not fit into memory.
    """
    setup = options.setup(**({"eta_local": 0.4, "local_steps": 3, "rounds": 60} | defaults))
    rungs = SHORT if defaults or options.data is not None else LONG
    name, base = "sphere, n=6, d=4", None
    if options.data is not None:
        (base,) = federated_families(options)
        name = base.name
    name += f", widths 2^8..2^{max(rungs).bit_length() - 1}"
    return (WidthFamily.of_rungs(name, _ladder, _any_ladder, (base, setup), rungs),)


@cache
@st.composite
def width_ladders(draw: DrawFn, setup: Setup) -> WidthLadder:
    """Ladders of widths 2^7..2^12 with eight networks each, of a few rounds with a step size up to the stability limit.

    Settings that are not drawn, such as sigma, are as in `setup`. The labels are the initial residual.
    """
    x = draw(unit_data(n=(2, 4), d=(2, 3), distinct=True).filter(well_separated))
    owner = draw(partitions(len(x), clients=(1, len(x))))
    problem = Problem(x, draw(labels(len(x)).filter(np.any)), owner, name="drawn")
    eta_local = draw(log_uniform(1e-3, 1.9)) / largest_block(gram.infinite(x), owner)
    chosen = replace(
        setup,
        eta_local=float(eta_local),
        eta_global=draw(log_uniform(0.1, 1)),
        local_steps=draw(st.integers(1, 4)),
        rounds=draw(st.integers(1, 5)),
    )
    return WidthLadder(problem, chosen, DRAWN_RUNGS, (DRAWN_NETWORKS,) * len(DRAWN_RUNGS), draw(st.integers(0, 2**16)))


def well_separated(x: np.ndarray) -> bool:
    """Whether the lines through any two rows enclose 37 degrees or more.

    If two points are closer to parallel, a small network may have no neuron that distinguishes them. The rates in the
    width are then not yet the rates in the limit.
    """
    return bool((np.abs(x @ x.T)[~np.eye(len(x), dtype=bool)] <= 0.8).all())


# maps a width to the number of networks
RUNGS = {2**8: 1024, 2**10: 512, 2**12: 128, 2**14: 64, 2**16: 32, 2**18: 12, 2**20: 6}
SEEDS = st.integers(0, 2**31)


class Start(NamedTuple):
    """One network at initialisation: H(0) - H_inf, (n, n), and f(0), (n,)."""

    deviation: np.ndarray
    outputs: np.ndarray


@dataclass(frozen=True, eq=False)
class InitialLadder(Rungs):
    """Networks over widths and seeds that are measured before training."""

    problem: Problem  # data; the labels are not used
    sigma: float  # standard deviation of the weights
    # the widths, and the number of networks at each width; no two networks share neurons
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    seed: int  # seed of the first network
    spacing: ClassVar[int] = 2 * SPACING
    other: ClassVar[int] = OTHER * 2 * SPACING

    @prepared
    def starts(self) -> list[list[Start]]:
        """The networks of each width."""
        return self.at_each("starts", lambda row, i: self._start(self.widths[row], self.seeds(row)[i]))

    def _start(self, width: int, seed: int) -> Start:
        x = self.problem.x
        counted, outputs = np.zeros((len(x), len(x))), np.zeros(len(x))
        for piece in blocks(width, x.shape[1], seed, self.sigma):
            counted += gram.finite(x, piece.hidden) * (len(piece.signs) / width)
            outputs += np.maximum(x @ piece.hidden.T, 0) @ piece.signs
        return Start(counted - self.infinite_gram.value, outputs / np.sqrt(width))

    @cached_property
    def infinite_gram(self) -> Estimate:
        """H_inf with its rounding bound."""
        return gram.infinite_estimate(self.problem.x)


def _initial_ladder(options: Options, widths: tuple[int, ...], counts: tuple[int, ...], seed: int) -> InitialLadder:
    """The ladder whose first seed is `seed`, on six points or on the user's data."""
    if options.data is None:
        problem = data.sphere(6, 4, seed=seed, clients=3, labels="uniform")
    else:
        problem = federated_families(options)[0].problem(seed)
    return InitialLadder(problem, options.setup().sigma, widths, counts, seed)


def _any_initial_ladder(options: Options) -> SearchStrategy[InitialLadder]:
    """Ladders of four widths up to 2^11 on a few random samples. sigma takes values over six powers of ten."""
    problems = st.builds(
        lambda n, d, seed: data.sphere(n, d, seed=seed, clients=1), st.integers(2, 5), st.integers(2, 5), SEEDS
    )
    sigmas = st.floats(-3, 3).map(lambda power: 10.0**power)
    widths = st.just((2**8, 2**9, 2**10, 2**11))
    return st.builds(InitialLadder, problems, sigmas, widths, st.just((32,) * 4), SEEDS)


def initial_ladder_families(options: Options) -> tuple[WidthFamily, ...]:
    """The data of the width ladders (n=6, d=4), or the user's data, at widths 2^8..2^20."""
    name = "sphere, n=6, d=4" if options.data is None else federated_families(options)[0].name
    name += ", at initialisation, widths 2^8..2^20"
    return (WidthFamily.of_rungs(name, _initial_ladder, _any_initial_ladder, (options,), RUNGS),)
