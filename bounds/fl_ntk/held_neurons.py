"""Statements X.13 and X.13b: neurons gather at their kinks, and gradients hold them there.

On a ladder the same quantity is measured at several sizes of the residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from scipy.special import stdtrit

from bounds import BEYOND, Case, Claim, Family, Hypothesis, Kind, Options, Source, Statement
from bounds.case import prepared
from bounds.federated_run import FederatedFamily, compiled, federated_families
from bounds.fl_ntk.cases.sliding_ladder import SLIDING_LADDERS, STEP_SIZES, sliding_case
from bounds.fl_ntk.terms.leading_coefficient import leading_coefficient
from bounds.ladders.slopes import slope
from bounds.ladders.width_ladder import WidthLadder, ladder_families
from bounds.mutants import replaced, shifted
from ntkfl import Estimate, Problem, Setup, data, interruption, kernel_regime, simulate
from ntkfl.estimate import Rigour
from ntkfl.finite_width.boundary_layer import pairs_near_kinks
from ntkfl.initialisation import draw

ROUNDS_SEEN = 6
NETWORKS = 12
SETTLED = 0.01  # largest angle, in radians, by which the direction of the residual may turn


@dataclass(frozen=True, eq=False)
class ResidualLadder(Case):
    """Networks of one width, whose labels are y_m(0) + r_0 with r_0 = problem.y.

    The sizes of the ladder are 1/|r_inf(t)|.
    """

    problem: Problem
    setup: Setup
    seed: int

    @property
    def rounds(self) -> np.ndarray:
        """The measured rounds. There are six, evenly spaced over the last two thirds of the run."""
        return np.linspace(self.setup.rounds / 3, self.setup.rounds, ROUNDS_SEEN).astype(int)

    @cached_property
    def limit(self) -> np.ndarray:
        """The residuals of the infinite-width run at these rounds, (6, n)."""
        return self.problem.y - kernel_regime(self.problem, self.setup).outputs(self.rounds)

    @property
    def sizes(self) -> np.ndarray:
        """1/|r_inf(t)|."""
        return 1 / np.linalg.norm(self.limit, axis=1)

    @property
    def turn(self) -> float:
        """The angle, in radians, between the directions of the residual at the first and at the last of the rounds."""
        first, last = (r / np.linalg.norm(r) for r in (self.limit[0], self.limit[-1]))
        return 2 * float(np.arcsin(np.minimum(np.linalg.norm(first - last) / 2, 1.0)))

    @property
    def n_runs(self) -> int:
        """The number of runs."""
        return NETWORKS

    @prepared
    def distances(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each network |w_r(t).x_i| at these rounds, (6, m, n), and the network's own |r(t)|, (6,)."""
        return [self._run(seed) for seed in range(self.seed, self.seed + NETWORKS)]

    def _run(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        x, width = self.problem.x, self.setup.width
        weights = draw(width, self.problem.d, seed, self.setup.sigma)
        problem = replace(self.problem, y=weights.outputs(x) + self.problem.y, x_test=None, y_test=None)
        setup = replace(self.setup, seed=seed)
        many = compiled(problem, setup)
        run = simulate(problem, setup, weights, keep=self.rounds, movements=False, compiled=many)
        return np.abs(np.stack([run.weights[int(t)] for t in self.rounds]) @ x.T), run.residual_norm[self.rounds]

    def fresh(self) -> ResidualLadder:
        """The same ladder with other networks, on which a failure is checked again."""
        return replace(self, seed=self.seed + NETWORKS)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        rounds = [int(t) for t in self.rounds]
        return {"problem": self.problem.name, "width": self.setup.width, "rounds": rounds, "seed": self.seed}


def _ladder(base: FederatedFamily | None, setup: Setup, seed: int) -> ResidualLadder:
    """The ladder on the user's data, or on a drawn problem.

    A drawn problem is drawn with the first seed, from `seed` on, for which the residual's direction settles.
    """
    if base is not None:
        return ResidualLadder(base.problem(seed), setup, seed)
    for drawn in range(seed, seed + 51):
        interruption.check()
        ladder = ResidualLadder(data.sphere(6, 4, seed=drawn, clients=3, labels="uniform"), setup, seed)
        if ladder.turn <= SETTLED:
            break
    return ladder  # a hypothesis rejects a problem if the direction of its residual has not settled


# Narrower networks on a few points of the sphere, with one to three clients and other step sizes.
SMALL_LADDERS = st.builds(
    ResidualLadder,
    st.builds(
        lambda n, d, seed, clients: data.sphere(n, d, seed=seed, clients=min(n, clients), labels="uniform"),
        st.integers(2, 6),
        st.integers(2, 5),
        st.integers(0, 2**16),
        st.integers(1, 3),
    ),
    st.builds(
        Setup,
        width=st.sampled_from([1024, 4096]),
        eta_local=st.floats(0.05, 0.5),
        local_steps=st.integers(1, 4),
        rounds=st.integers(60, 300),
    ),
    st.integers(0, 2**16),
)


def residual_ladder_families(options: Options) -> tuple[Family, ...]:
    """Twelve networks of width 8192 over 200 rounds, on six points of the sphere or on the user's data."""
    setup = options.setup(width=8192, eta_local=0.4, local_steps=3, rounds=200)
    base = federated_families(options)[0] if options.data is not None else None
    name = f"{base.name if base else 'sphere, n=6, d=4'}, {setup.rounds} rounds"
    return (Family(name, _ladder, SMALL_LADDERS, (base, setup), trials=1),)


REACH = 0.3  # c: a pair is counted if its distance from the kink is below c |r(t)| / sqrt(m)

q = sp.Symbol("q", positive=True)
NEAR = "|{(r,i) : |u_r(t)^T x_i| < c |r(t)| / sqrt(m)}| / (n sqrt(m))"
q0 = sp.Symbol("q_0", positive=True)


def _near(distance: np.ndarray, residual: float) -> float:
    """The number of pairs within c |r|/sqrt(m) of a kink, divided by n sqrt(m), from the distances (m, n)."""
    width, n = distance.shape
    return float((distance < REACH * residual / np.sqrt(width)).sum() / (n * np.sqrt(width)))


def _on_widths(ladder: WidthLadder) -> list[np.ndarray]:
    """The values of `_near` after the last round, (networks,) for each width."""
    last = ladder.setup.rounds
    return [
        np.array(
            [
                _near(np.abs(run.trajectory.weights[last] @ run.problem.x.T), run.trajectory.residual_norm[last])
                for run in row
            ]
        )
        for row in ladder.runs
    ]


def _measure(ladder: WidthLadder | ResidualLadder) -> tuple[Estimate, Estimate]:
    if isinstance(ladder, WidthLadder):
        near = _on_widths(ladder)
        return slope(ladder.sizes, near), leading_coefficient(ladder.sizes, near, 0.0).log()
    rows = [[_near(d, r) for d, r in zip(*distance, strict=True)] for distance in ladder.distances]
    shares = np.array(rows)  # (networks, 6)
    return slope(ladder.sizes, list(shares.T)), _mean(shares).log()


def _mean(samples: np.ndarray) -> Estimate:
    """The mean over the networks, with 99% t-intervals for all rounds together."""
    count, rounds = samples.shape
    quantile = stdtrit(count - 1, 1 - 0.005 / rounds)
    return Estimate(
        samples.mean(axis=0), quantile * samples.std(axis=0, ddof=1) / np.sqrt(count), "99% t-interval", Rigour.SAMPLED
    )


def _constants(ladder: WidthLadder | ResidualLadder) -> dict:
    problem, setup = ladder.problem, ladder.setup
    rounds = np.array([setup.rounds]) if isinstance(ladder, WidthLadder) else ladder.rounds
    limit = np.linalg.norm(problem.y - kernel_regime(problem, setup).outputs(rounds), axis=1)
    now = pairs_near_kinks(problem, setup, rounds, REACH * limit, starts=16)
    norms = np.linalg.norm(problem.x, axis=1)
    gaussian = 2 * REACH * limit * (1 / norms).mean() / (np.sqrt(2 * np.pi) * setup.sigma)
    mean_squares = Estimate(now.value / problem.n, now.error / problem.n, now.method, now.rigour)
    if isinstance(ladder, WidthLadder):
        return {q: mean_squares[0], q0: gaussian[0]}
    return {q: mean_squares, q0: gaussian}


def _settled(ladder: WidthLadder | ResidualLadder) -> float:
    return SETTLED - ladder.turn if isinstance(ladder, ResidualLadder) else SETTLED


FINITE = 0.02  # a bound on the effect of the next power of the step size on a fitted exponent


def _power(values: np.ndarray) -> Estimate:
    """The fitted power of the step size, from values (etas, starts)."""
    return (-slope(1 / STEP_SIZES, list(values), biased=False)).widened(FINITE, "for a finite step")


STATEMENTS = (
    Statement(
        id="fl-ntk/X.13",
        title="Neurons gather at the kinks: as many within c |r(t)|/sqrt(m), however small the residual has become",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/finite_width.md#neurons-at-their-kinks"),
        note="where a sample pushes a neuron out of its half-space and the other samples push it back, the neuron "
        "stays at the kink and jumps across it every few steps. This is a sliding mode; its amplitude is one step, "
        "and shrinks with |r(t)|/sqrt(m). The signs of the pushes decide which neurons are held; they are fixed "
        "once one mode of the residual is left. From then on about Q(c) sqrt(m) pairs are within c |r(t)|/sqrt(m) "
        "of their kink; the density at the start would give n 2 c |r(t)|/(sqrt(2 pi) sigma). The prediction is the "
        "boundary layer of X.9, with no constant fitted. Digits, n = 50, m = 8000, N = 4, K = 5, eta_l = .5, c = "
        ".1: 514, 286, 169, 161 pairs at rounds 30, 100, 200, 300 (|r| from .41 to .0008), where the density at "
        "the start would give 141, 24, 3, 2. The predictions are 514, 298, 179, 167 with an error of 20 to 30. At "
        "m = 2000 the last count is 78, half of 161. The paper's proofs are not affected: B.5, B.11 and C.7 count "
        "neurons by their position at the start, before any has moved. But a bound that starts again at a "
        "checkpoint (X.11, X.12) counts the gathered neurons, since its radius is itself a multiple of "
        "|r(t)|/sqrt(m). So its count of possible flips over m, and with it E(R), has a floor of order m^(-1/2). "
        "Further training does not lower this floor; a larger width lowers it, and so does knowledge of which "
        "neurons are held",
        hypotheses=(
            Hypothesis(
                "settled",
                "along a run: the limit's residual turns by .01 rad at most over the rounds looked at, so that one "
                "mode is left and the pulls keep their signs",
                _settled,
            ),
        ),
        new=Claim(
            (sp.Integer(0), sp.log(q)),
            note="for the number of pairs within .3 |r(t)|/sqrt(m) of a kink over n sqrt(m): the exponent in the "
            "width at the last round, or in 1/|r(t)| along long runs; the logarithm of the coefficient",
        ),
        constants=_constants,
        measure=_measure,
        symbols={
            q: "pairs within .3 |r(t)|/sqrt(m) of the kink over n sqrt(m), from the boundary layer",
            q0: "the same number at the Gaussian density of the start",
        },
        left_formula=(f"exponent in m or 1/|r(t)| of {NEAR}", f"log ({NEAR})"),
        says_left="pairs (r, i) counted in trained networks: log-log slope, and the logarithm of the count over n "
        f"sqrt(m); c = {REACH:g}",
        families=lambda options: ladder_families(options) + residual_ladder_families(options),
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            replaced(q, q0, "the density of the start"),
            replaced(q, 2 * q, "twice as many"),
        ),
        uses=("fl-ntk/X.9",),
    ),
    Statement(
        id="fl-ntk/X.13b",
        title="Neurons held at kinks slide: training comes to the flow of the kernel with them projected out",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/finite_width.md#neurons-at-their-kinks"),
        note="H_P is the Gram matrix of the gradients with the held pairs projected out. B = sum_(j != i) G_ij s_j "
        "r_j is the push of the other samples at the kink of x_i, where a neuron moves by a (B + 1{z >= 0} G_ii "
        "r_i). Both sides push the neuron to the kink iff a r_i < 0 and psi = -B/(G_ii r_i) is in (0, 1). For "
        "small steps the neuron then slides along the kink, and is active in the share psi of the steps "
        "(Filippov); the psi of several pairs at one neuron solve one system. With K local steps a client may "
        "cross the kink within its steps while the server's model stays on one side; such pairs are projected out "
        "too. The order K eta of the distance is proved; the power 1 is measured. The page of proofs has figures "
        "on digits",
        hypotheses=(
            Hypothesis(
                "pushed-back",
                "along the flow psi stays in (0, 1) and a_r r_i < 0 at the held pairs",
                lambda case: case.pushed_back,
            ),
            Hypothesis("clear", "along the flow no other pair comes to its kink", lambda case: case.clearance),
        ),
        new=Claim(
            (sp.Integer(1), sp.Integer(1)),
            note="powers of the step in |r_eta(t) - exp(-t H_P) r_0|, and in the difference between a pair's share "
            "of active local steps and the mean of psi",
        ),
        measure=lambda case: (_power(case.runs[0]), _power(case.runs[1])),
        left_formula=(
            "exponent in K eta/N of |r_eta(t) - exp(-t H_P) r_0|",
            "exponent in K eta/N of rms_{pairs} (mean_t A/K - mean_t psi)",
        ),
        says_left="log-log slopes at time .5, as the time of a round, K eta/N, falls from 2^-5 to 2^-11; root mean "
        "square over 48 starts within a step of the kinks",
        families=SLIDING_LADDERS,
        mutants=tuple(shifted(sp.Rational(halves, 2)) for halves in (-1, 1)),
        necessity={
            # Neurons are at kinks with a_r r_i > 0, where gradients on both sides push them away from the kink.
            "pushed-back": lambda: sliding_case(0, repelled=True),
            # A neuron near a kink is not held at the kink. The neuron crosses the kink, and the kernel changes.
            "clear": lambda: sliding_case(0, near=True),
        },
        uses=("fl-ntk/X.13",),
    ),
)
