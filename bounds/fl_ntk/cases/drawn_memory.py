"""Case: a round of SCAFFOLD or FedDyn with drawn clients, small enough to run every cohort in the weights."""

import itertools
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Family
from bounds.fl_ntk.cases.random_round import SmallRound, largest_of_clients, on_sphere
from ntkfl.estimate import Estimate
from ntkfl.exact_dynamics import RandomRegime, UnstableSteps, random_rounds
from ntkfl.problem import Setup

SIZES = (3, 2, 1)  # samples of the clients


@dataclass(frozen=True, eq=False)
class DrawnMemory(SmallRound):
    """A round of `cohort` of three clients, full batches, at infinite width; eta_global is SCAFFOLD's server rate."""

    ROUNDINGS: ClassVar[int] = 20_000  # the controls solve systems with condition numbers of some tens

    pull: float  # FedDyn's alpha
    noise: float  # standard deviation of noise on every weight of the mean of SCAFFOLD's displacements

    @cached_property
    def features(self) -> np.ndarray:
        """Phi, (n, n), with Phi Phi^T = H: rows are the samples' features."""
        return np.linalg.cholesky(self.gram)

    def maps(self, method: str) -> list[np.ndarray]:
        """For each cohort, all equally likely, the map of (r, m), (2n, 2n), by steps in the weights.

        r is y - f. Client c has the control -Phi_c^T m_c, or the dual Phi_c^T m_c.
        """
        cohorts = itertools.combinations(range(len(SIZES)), self.cohort)
        return [getattr(self, f"_{method}")(cohort) for cohort in cohorts]

    def _scaffold(self, cohort: tuple[int, ...]) -> np.ndarray:
        n, setup, members, unit = self.problem.n, self.setup, self.problem.members, np.eye(2 * self.problem.n)
        residual, kept = unit[:n], unit[n:]
        controls = [-self.features[own].T @ kept[own] for own in members]
        whole, after, moves = sum(controls) / len(members), kept.copy(), []
        for c in cohort:
            own, moved = self.features[members[c]], np.zeros((n, 2 * n))
            for _ in range(setup.local_steps):
                gradient = own.T @ (own @ moved - residual[members[c]])
                moved = moved - setup.eta_local * (gradient - controls[c] + whole)
            fresh = controls[c] - whole - moved / (setup.local_steps * setup.eta_local)
            after[members[c]] = -np.linalg.lstsq(own.T, fresh, rcond=None)[0]
            moves.append(moved)
        mean = sum(moves) / len(cohort)
        return np.concatenate([residual - setup.eta_global * self.features @ mean, after])

    def _feddyn(self, cohort: tuple[int, ...]) -> np.ndarray:
        n, setup, members, unit = self.problem.n, self.setup, self.problem.members, np.eye(2 * self.problem.n)
        residual, kept = unit[:n], unit[n:]
        duals = [self.features[own].T @ kept[own] for own in members]
        after, moves = kept.copy(), []
        whole = sum(duals) / len(members)  # the server's h, before and after the round
        for c in cohort:
            own, moved = self.features[members[c]], np.zeros((n, 2 * n))
            for _ in range(setup.local_steps):
                gradient = own.T @ (own @ moved - residual[members[c]])
                moved = moved - setup.eta_local * (gradient - duals[c] + self.pull * moved)
            after[members[c]] = np.linalg.lstsq(own.T, duals[c] - self.pull * moved, rcond=None)[0]
            moves.append(moved)
        whole = whole - self.pull / len(members) * sum(moves)
        mean = sum(moves) / len(cohort)
        return np.concatenate([residual - self.features @ (mean - whole / self.pull), after])

    def moments(self, method: str, rounds: int) -> Estimate:
        """E z z^T after `rounds` rounds from z = (y, 0), (2n, 2n), over every sequence of cohorts."""
        n, maps = self.problem.n, self.maps(method)
        second = self.start
        for _ in range(rounds):
            second = np.mean([whole @ second @ whole.T for whole in maps], axis=0)
            if method == "scaffold":
                second[:n, :n] += (self.setup.eta_global * self.noise) ** 2 * self.gram
        return self.rounded(second)

    def library(self, method: str) -> RandomRegime:
        """The result of `ntkfl.random_rounds`, without its warnings."""
        setup = Setup(eta_local=self.setup.eta_local, local_steps=self.setup.local_steps)
        own: dict[str, Any] = {"server_rate": self.setup.eta_global}
        options, noise = (own, self.noise) if method == "scaffold" else ({"alpha": self.pull}, 0.0)
        share = self.cohort / len(SIZES)
        with warnings.catch_warnings(action="ignore", category=UnstableSteps):
            return random_rounds(self.problem, setup, None, method, options, participation=share, noise=noise)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        drawn = {"problem": self.problem.name, "s": self.cohort, "alpha": self.pull, "noise": self.noise}
        return drawn | asdict(self.setup)


def drawn_memory(
    seed: int, cohort: int, steps: int, reach: float, server: float, pull: float, noise: float
) -> DrawnMemory:
    """Six points on the sphere in eight dimensions."""
    problem = on_sphere(SIZES, seed)
    largest = largest_of_clients(problem)
    setup = Setup(eta_local=float(reach / (largest + pull)), eta_global=server, local_steps=steps, seed=seed)
    return DrawnMemory(problem, setup, cohort, pull, noise)


def _drawn(seed: int) -> DrawnMemory:
    """One to three clients, up to four local steps, any pull and noise of the labels' size."""
    rng = np.random.default_rng([seed, 9])
    steps, reach, server = int(rng.integers(1, 5)), float(rng.uniform(0.05, 1.5)), float(rng.uniform(0.1, 2))
    return drawn_memory(seed, 1 + seed % 3, steps, reach, server, float(rng.uniform(0.1, 2)), float(rng.uniform(0, 1)))


def _any() -> SearchStrategy[DrawnMemory]:
    """Such rounds with steps up to the clients' limit."""
    return st.builds(
        drawn_memory,
        st.integers(0, 2**16),
        st.integers(1, 3),
        st.integers(1, 4),
        st.floats(0.01, 1.9),
        st.floats(0.05, 4),
        st.floats(0.05, 4),
        st.floats(0, 2),
    )


DRAWN_MEMORIES = (Family("sphere, n=6, N=3, clients that remember are drawn", _drawn, _any, trials=18, most=18),)
