"""Statements X.4 to X.6: many local steps in a round, rounds that enlarge the residual, and more clients.

More clients need more rounds. On a ladder the same quantity is measured at several numbers of clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Case, Claim, Family, Hypothesis, Kind, Limit, Options, Source, Statement
from bounds.cases.kernel_case import KernelCase, kernel_families
from bounds.federated_run import FederatedRun, federated_families, federated_run
from bounds.fl_ntk.premises import (
    LOCALLY_STABLE,
    NO_OVERSHOOT_AT_START,
    POSITIVE_LIMIT,
    POSITIVE_SPECTRUM,
    SERVER_AT_MOST_1,
    at_most,
)
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, ROUND_MAP, D, H, exact_gram, map_constants, residuals
from bounds.formula import evaluate
from bounds.ladders.slopes import slope
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, shifted, sign_flipped, without
from bounds.strategies import log_uniform
from bounds.symbols import K, N, eta_global, n
from ntkfl import Estimate, Problem, Setup, data, gram, kernel_regime
from ntkfl.algorithm1.reference import BALL
from ntkfl.initialisation import draw

MANY = 2**53  # number of local steps; float64 does not represent every larger integer


def _constants_x_4(case: KernelCase) -> dict:
    constants = map_constants(case, exact_gram(case))
    return {symbol: constants[symbol] for symbol in (H, D, eta_global, N)}  # the limit does not depend on K and eta_l


def limit_map(case: KernelCase) -> Estimate:
    """M with MANY local steps. Its error includes the effect of further steps on the clients' responses."""
    many = KernelCase(case.problem, replace(case.setup, local_steps=MANY))
    maps, q = many.regime.of(lambda regime, _: regime.round_map, samples=(0, 1)), case.block_eigenvalues
    with np.errstate(divide="ignore", over="ignore"):
        left = float((np.exp(MANY * np.log(np.abs(1 - case.setup.eta_local * q))) / np.abs(q)).max())
    more = case.setup.eta_global * case.problem.n * float(np.abs(many.regime.gram).max()) * left
    return Estimate(maps.value, maps.error + more, maps.method)


def most_growing(seed: int, *, n: int = 6, d: int = 2, width: int = 256, eta_global: float = 0.5) -> FederatedRun:
    """One round of a linearised network in ball arithmetic, with 2 clients and 20 local steps.

    The step size is 0.999 / (largest block eigenvalue). y(0) - y is, up to rounding, the unit vector that the round map
    stretches the most.
    """
    problem = data.sphere(n, d, seed=seed, clients=2)
    weights = draw(width, d, seed, 1.0)
    h = gram.finite(problem.x, weights.hidden)
    blocks = h * (problem.owner[:, None] == problem.owner)
    eta, steps, one = 0.999 / np.linalg.eigvalsh(blocks)[-1], 20, np.eye(n)
    response, power = np.zeros((n, n)), one
    for _ in range(steps):
        response, power = response + eta * power, power - eta * blocks @ power
    round_map = one - eta_global / problem.n_clients * h @ response
    stretched = np.linalg.svd(round_map)[2][0]
    problem = replace(problem, y=weights.outputs(problem.x) - stretched, x_test=None, y_test=None)
    setup = Setup(width, eta_local=float(eta), eta_global=eta_global, local_steps=steps, rounds=1, seed=seed)
    return replace(federated_run(problem, setup, weights), linearised=True).with_arithmetic(BALL)


# In some of these rounds the residual grows. The counterexample search draws two to four dimensions and server steps up
# to 2.
GROWTH = Family(
    "six points on the circle, steps that all fit",
    most_growing,
    st.builds(
        most_growing,
        st.integers(0, 2**16),
        n=st.integers(2, 6),
        d=st.integers(2, 4),
        width=st.integers(16, 64),
        eta_global=log_uniform(0.05, 2),
    ),
    fixed=True,
)


r = sp.MatrixSymbol("r", n, 1)
AFTER = (ROUND_MAP * r).T * (ROUND_MAP * r)


def _constants_x_5(case: FederatedRun) -> dict:
    return map_constants(case, case.initial_gram) | {r: residuals(case)[:, 0]}


def _growth(case: FederatedRun) -> Estimate:
    """|M r|^2 - |r|^2, in ball arithmetic."""
    return evaluate(AFTER - r.T * r, _constants_x_5(case))


@dataclass(frozen=True, eq=False)
class ClientLadder(Case):
    """Data sets of n samples, each of which is split over N = 1, 2, 4, ..., n clients, with one setup.

    Each of `seeds` draws a split and, if `base` is None, a data set on the sphere.
    """

    samples: int
    setup: Setup
    seeds: tuple[int, ...]
    base: Problem | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The numbers of clients."""
        return 2.0 ** np.arange(int(np.log2(self.samples)) + 1)

    @property
    def n_runs(self) -> int:
        """The number of kernel regimes."""
        return len(self.sizes) * len(self.seeds)

    def fresh(self) -> ClientLadder:
        """The same ladder with other data, or another split, on which a failure is checked again."""
        return replace(self, seeds=tuple(seed + 10_000 for seed in self.seeds))

    @cached_property
    def problems(self) -> list[Problem]:
        """The data of each seed, on one client."""
        if self.base is not None:
            return [replace(self.base, owner=np.zeros(self.base.n, int)) for _ in self.seeds]
        return [data.sphere(self.samples, self.samples, seed=seed, clients=1) for seed in self.seeds]

    def rounds_to(self, share: float, server_step) -> np.ndarray:
        """The first round with |r(t)| <= share |r(0)|, (sizes, seeds).

        Training starts from y(0) = 0, with eta_g = server_step(N).
        """
        rounds = np.empty((len(self.sizes), len(self.seeds)))
        for j, (problem, seed) in enumerate(zip(self.problems, self.seeds, strict=True)):
            h, order = gram.infinite(problem.x), np.random.default_rng([seed, 7]).permutation(problem.n)
            for i, clients in enumerate(self.sizes.astype(int)):
                split = replace(problem, owner=order % clients)
                regime = kernel_regime(split, replace(self.setup, eta_global=float(server_step(clients))), h)
                rounds[i, j] = regime.rounds_to(share)
        return rounds

    def describe(self) -> dict:
        """What identifies the case in a report."""
        name = self.problems[0].name if self.base is None else self.base.name
        return {"problem": name, "N": [int(size) for size in self.sizes], "eta_local": self.setup.eta_local}


def _ladder(options: Options, seed: int) -> ClientLadder:
    """The ladder with four seeds from `seed` on. It has two local steps, with eta_l K |H_inf| about .05."""
    setup, seeds = Setup(eta_local=0.02, local_steps=2), tuple(range(seed, seed + 4))
    if options.data is None:
        return ClientLadder(32, setup, seeds)
    problem = federated_families(options)[0].problem(seed)
    largest = float(np.linalg.eigvalsh(gram.infinite(problem.x))[-1])
    return ClientLadder(problem.n, replace(setup, eta_local=0.03 / largest), seeds, problem)


def _small_ladder(size: int, steps: int, eta_local: float, seed: int) -> ClientLadder:
    return ClientLadder(size, Setup(eta_local=eta_local, local_steps=steps), (seed, seed + 1))


SMALL_LADDERS = st.builds(
    _small_ladder, st.sampled_from([16, 32, 64]), st.integers(1, 4), st.floats(1e-3, 0.1), st.integers(0, 2**16)
)


def client_ladders(options: Options) -> tuple[Family, ...]:
    """Ladders of 32 points on the sphere, or of the user's data.

    The counterexample search draws 16 to 64 points, and step sizes up to .1.
    """
    chosen = options if options.data else Options()
    name = f"{options.data or 'sphere, n=32, d=32'}, N = 1, 2, 4, ..., n"
    # a number of kernel regimes, not of ladders
    return (Family(name, _ladder, SMALL_LADDERS, (chosen,), trials=1, needs=20),)


SHARE = 1e-6  # rounds are counted until the residual's norm is this share of its first value


def _local_time(ladder: ClientLadder) -> float:
    setup = ladder.setup
    largest = max(float(gram.largest_eigenvalue(gram.infinite_estimate(p.x)).hi) for p in ladder.problems)
    return setup.eta_local * setup.local_steps * largest


def _measure(ladder: ClientLadder) -> tuple[Estimate, Estimate]:
    fixed, growing = (ladder.rounds_to(SHARE, step) for step in (lambda clients: 1.0, lambda clients: clients))
    return slope(ladder.sizes, fixed), slope(ladder.sizes, growing)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.4",
        title="Infinitely many local steps: M = I - (eta_g/N) H D^-1, damped block Jacobi",
        kind=Kind.EQUALITY,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#spectrum-and-stability"),
        note="every client fits its own samples exactly, and the server adds eta_g/N times their movements: P "
        "tends to blockdiag H_cc^-1, and the limit does not depend on eta_l",
        hypotheses=(at_most(150), POSITIVE_LIMIT, LOCALLY_STABLE),
        new=Claim(IDENTITY - eta_global / N * H * D**-1),
        constants=_constants_x_4,
        measure=limit_map,
        symbols=MAP_SYMBOLS | {H: "H_inf, as a product L L^T that is known exactly"},
        left_formula="M_{K = 2^{53}}",
        says_left="M of the kernel regime with 2^53 local steps; the error includes the effect of further steps",
        families=lambda options: kernel_families(options, reach=1.99),
        mutants=(
            MILLIONTH_MORE,
            power(N, sp.Rational(1, 2)),
            power(eta_global, sp.Rational(1, 2)),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1",),
    ),
    Statement(
        id="fl-ntk/X.5",
        title="The Euclidean residual can grow in a round of a stable run",
        kind=Kind.EXISTENCE,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#growth-of-the-residual"),
        note="(5) and (9) claim |y - y(t+1)| < |y - y(t)| under steps that are smaller than practical steps. Under "
        "larger steps this is false, though by X.3 the run converges: M is not symmetric. The norm |L^-1 r|, H = L "
        "L^T, falls in every round. (7) cannot hold beyond eta_l K = 2 N / (eta_g lambda) either, where its factor "
        "is negative",
        hypotheses=(
            POSITIVE_SPECTRUM,
            NO_OVERSHOOT_AT_START,
            SERVER_AT_MOST_1,
            Hypothesis(
                "grows", "|M r| > |r| for the residual r of the case: that such cases exist is the claim", _growth
            ),
        ),
        new=Claim(AFTER, note="cases without growth are rejected; the other cases prove existence"),
        constants=_constants_x_5,
        measure=lambda case: case.observed("residual_norm")[1:2].squared(),
        symbols=MAP_SYMBOLS | {r: "y(0) - y"},
        left_formula="|y - y(1)|^2",
        says_left="|y - y(1)|^2 of a linearised network trained in parameter space for one round, in balls",
        families=(GROWTH,),
        mutants=(
            MILLIONTH_MORE,
            power(N, sp.Rational(1, 2)),
            without(K),
            index_shifted(K, 1),
            sign_flipped(eta_global, "the server's step"),
        ),
        uses=("fl-ntk/X.1", "fl-ntk/X.3"),
    ),
    Statement(
        id="fl-ntk/X.6",
        title="The number of rounds grows like N at eta_g = 1, and does not grow at eta_g = N",
        kind=Kind.RATE,
        source=Source(BEYOND, "docs/proofs/linear_methods.md#rounds-and-clients"),
        note="theorem 4.1 suggests that more clients need more rounds. This holds at a fixed eta_g, because the "
        "server takes the unweighted mean of the updates, and each client's update concerns its own samples only. "
        "With eta_g = N the server takes the sum of the updates, and for small eta_l K the number of rounds is nearly "
        "that of one client. The paper's own Claim B.7 has C_4 ~ (eta_g/N)^2, so that its proof allows eta_g up to N "
        "where theorem B.3 asks for eta_g = O(1). With larger local steps more clients help less, since P "
        "saturates",
        hypotheses=(
            Hypothesis(
                "eight-samples",
                "n >= 8: a slope needs four numbers of clients",
                Limit("n", lambda ladder: ladder.samples, at_least=8.0),
            ),
            Hypothesis(
                "small-steps",
                "eta_l K |H_inf| <= 1/2",
                Limit("eta_l K |H_inf|", _local_time, at_most=0.5),
                eased_by=("eta_local",),
            ),
        ),
        new=Claim((sp.Integer(1), sp.Integer(0)), note="exponents in N, at eta_g = 1 and eta_g = N"),
        measure=_measure,
        left_formula=tuple(
            f"exponent in N, eta_g = {step}, of min {{t : |y - y(t)| <= 10^{{-6}} |y|}}" for step in ("1", "N")
        ),
        says_left="log-log slopes of the first round with |y - y(t)| <= 1e-6 |y| in the kernel regime, against N",
        families=client_ladders,
        mutants=tuple(shifted(sp.Rational(quarters, 4)) for quarters in (1, -1, 2, -2)),
        uses=("fl-ntk/T4.1", "fl-ntk/X.3", "fl-ntk/B.7"),
    ),
)
