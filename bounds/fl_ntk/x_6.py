"""X.6: the server's step decides whether more clients need more rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from bounds import BEYOND, Case, Claim, Family, Form, Hypothesis, Kind, Limit, Options, Source, Statement
from bounds.federated_run import federated_families
from bounds.ladders.slopes import slope
from bounds.mutants import shifted
from ntkfl import Estimate, Problem, Setup, data, gram, kernel_regime


@dataclass(frozen=True, eq=False)
class ClientLadder(Case):
    """Data sets of n samples, each split over N = 1, 2, 4, ..., n clients, with one setup.

    Each of `seeds` draws a split and, where `base` is None, a data set on the sphere.
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
        """Number of kernel regimes."""
        return len(self.sizes) * len(self.seeds)

    def fresh(self) -> ClientLadder:
        """The same ladder with other data, or another split, for a second opinion."""
        return replace(self, seeds=tuple(seed + 10_000 for seed in self.seeds))

    @cached_property
    def problems(self) -> list[Problem]:
        """The data of each seed, on one client."""
        if self.base is not None:
            return [replace(self.base, owner=np.zeros(self.base.n, int)) for _ in self.seeds]
        return [data.sphere(self.samples, self.samples, seed=seed, clients=1) for seed in self.seeds]

    def rounds_to(self, share: float, server_step) -> np.ndarray:
        """First round with |r(t)| <= share |r(0)|, y(0) = 0, at eta_g = server_step(N), (sizes, seeds)."""
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
    """The ladder with four seeds from `seed` on; two local steps with eta_l K |H_inf| about .05."""
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
    """Ladders of 32 points on the sphere, or of the user's data; the search draws 16 to 64 points, steps up to .1."""
    chosen = options if options.data else Options()
    name = f"{options.data or 'sphere, n=32, d=32'}, N = 1, 2, 4, ..., n"
    return (Family(name, _ladder, SMALL_LADDERS, (chosen,), trials=1, needs=20),)  # kernel regimes, not ladders


SHARE = 1e-6  # share of the residual


def _local_time(ladder: ClientLadder) -> float:
    setup = ladder.setup
    largest = max(float(gram.largest_eigenvalue(gram.infinite_estimate(p.x)).hi) for p in ladder.problems)
    return setup.eta_local * setup.local_steps * largest


def _measure(ladder: ClientLadder) -> tuple[Estimate, Estimate]:
    fixed, growing = (ladder.rounds_to(SHARE, step) for step in (lambda clients: 1.0, lambda clients: clients))
    return slope(ladder.sizes, fixed), slope(ladder.sizes, growing)


STATEMENTS = (
    Statement(
        id="fl-ntk/X.6",
        title="Rounds grow like N at eta_g = 1, and not at all at eta_g = N",
        kind=Kind.RATE,
        source=Source(
            BEYOND,
            "docs/proofs/linear_methods.md#rounds-and-clients",
            note="theorem 4.1 suggests that more clients need more rounds. This holds at a fixed eta_g, because the "
            "server takes the unweighted mean of the updates, and each client's update concerns its own samples only. "
            "With eta_g = N the server takes the sum of the updates, and the number of rounds stays that of one client "
            "up to eta_l K. The paper's own Claim B.7 has C_4 ~ (eta_g/N)^2, so that its proof allows eta_g up to N "
            "where theorem B.3 asks for eta_g = O(1). With larger local steps more clients help less, since P "
            "saturates",
        ),
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
        forms={Form.NEW: Claim((sp.Integer(1), sp.Integer(0)), note="exponents in N, at eta_g = 1 and eta_g = N")},
        measure=_measure,
        left_formula=tuple(
            f"exponent in N, eta_g = {step}, of min {{t : |y - y(t)| <= 10^{{-6}} |y|}}" for step in ("1", "N")
        ),
        says_left="log-log slopes of the first round with |y - y(t)| <= 1e-6 |y| in the kernel regime, against N",
        families=client_ladders,
        mutants=(
            shifted(sp.Rational(1, 4)),
            shifted(-sp.Rational(1, 4)),
            shifted(sp.Rational(1, 2)),
            shifted(-sp.Rational(1, 2)),
        ),
        uses=("fl-ntk/T4.1", "fl-ntk/X.3", "fl-ntk/B.7"),
    ),
)
