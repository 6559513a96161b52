"""SCAFFOLD and FedDyn with drawn clients: the second moments of the residual and of the clients' memories."""

import itertools
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import sympy as sp
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import BEYOND, Change, Claim, Family, Form, Kind, Source, Statement
from bounds.fl_ntk.cases.random_round import SmallRound, largest_of_clients, on_sphere
from bounds.fl_ntk.terms.canonical import Canonical, blocks
from bounds.fl_ntk.terms.local_methods import OF_PROX, mu
from bounds.fl_ntk.terms.round_map import IDENTITY, MAP_SYMBOLS, RESPONSE, D, H, map_constants
from bounds.fl_ntk.terms.state_map import LATER, LENGTH
from bounds.mutants import MILLIONTH_MORE, power, replaced
from bounds.symbols import N, eta_global, n
from ntkfl import Estimate, Setup, random_rounds
from ntkfl.exact_dynamics import RandomRegime, UnstableSteps

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


s, noise = sp.Symbol("s", positive=True), sp.Symbol("sigma_w", nonnegative=True)
# 1 on the samples of each client, on the diagonal
OWN = tuple(sp.MatrixSymbol(f"E_{c + 1}", n, n) for c in range(len(SIZES)))
OF_SCAFFOLD, OF_FEDDYN = (tuple(sp.MatrixSymbol(f"{m}_{of}", n, n) for m in "CXB") for of in ("s", "d"))

ONE, PAIR = s / N, s * (s - 1) / (N * (N - 1))  # probabilities that a client, and that a pair of clients, is drawn


def _round(
    known: tuple[sp.MatrixSymbol, ...], ahead: sp.Expr, pushed: sp.Expr, kept: sp.Expr, fits: tuple, injected: sp.Expr
) -> tuple[sp.MatrixExpr, ...]:
    """E r r' (twice), E r m' and E m m' after r <- r - ahead H m - pushed H w and m <- m + kept w.

    w is P r - S m at the samples of the drawn clients and 0 elsewhere; `fits` is (P, S).
    """
    c, x, b = map(Canonical, known)
    p, q = fits
    with_r, with_m = c * p - x * q.T, x.T * p - b * q.T  # E r (P r - S m)', E m (P r - S m)'
    whole = p * c * p - p * x * q.T - q * x.T * p + q * b * q.T
    drawn = PAIR * whole + (ONE - PAIR) * blocks(OWN, whole)
    stays = c - ahead * (x * H + H * x.T) + ahead**2 * H * b * H
    met = with_r - ahead * H * with_m
    residual = stays - ONE * pushed * (met * H + H * met.T) + pushed**2 * H * drawn * H + injected * H
    crossed = x - ahead * H * b + ONE * kept * met - ONE * pushed * H * with_m.T - pushed * kept * H * drawn
    memory = b + ONE * kept * (with_m + with_m.T) + kept**2 * drawn
    return tuple(moment.expression for moment in (residual, residual, crossed, memory))


def _moments() -> tuple[sp.MatrixExpr, ...]:
    """The moments of SCAFFOLD, then those of FedDyn."""
    later = LATER * (H / N - D) + LENGTH * IDENTITY
    scaffold = eta_global * LENGTH / N, eta_global / s, 1 / LENGTH, (RESPONSE, later), (eta_global * noise) ** 2
    feddyn = -1 / (mu * N), 1 / s + 1 / N, -mu, (OF_PROX, -OF_PROX), sp.Integer(0)
    return _round(OF_SCAFFOLD, *scaffold) + _round(OF_FEDDYN, *feddyn)


def _constants(case: DrawnMemory) -> dict:
    owner = case.problem.owner
    values = map_constants(case, case.gram) | {s: case.cohort}
    values |= {mu: Estimate.exact(case.pull), noise: Estimate.exact(case.noise)}
    for method, symbols in (("scaffold", OF_SCAFFOLD), ("feddyn", OF_FEDDYN)):
        values |= dict(zip(symbols, case.moments_of(case.moments(method, 1)), strict=True))
    return values | {e: np.diag((owner == c).astype(float)) for c, e in enumerate(OWN)}


def _measure(case: DrawnMemory) -> tuple[Estimate, ...]:
    methods = ("scaffold", "feddyn")
    return sum((case.after_two(case.moments(method, 2), case.library(method)) for method in methods), ())


STATEMENTS = (
    Statement(
        id="fl-ntk/drawn-memory",
        title="SCAFFOLD and FedDyn with drawn clients: the second moments of residual and memories, exactly",
        kind=Kind.EQUALITY,
        source=Source(
            BEYOND,
            "docs/proofs/random_rounds.md#clients-that-remember",
            note="each round draws s of N clients without replacement; equal weights, full batches. The control of "
            "client c is -Phi_c'm_c, its dual Phi_c'm_c. A round is r <- r - a H m - t H w, m <- m + l w, with w = P r "
            "- S m at the drawn clients' samples and 0 elsewhere. SCAFFOLD (option II) has a = eta_g k/N, t = eta_g/s, "
            "l = 1/k, S = G (H/N - D) + k with k = eta_l K, and noise of standard deviation sigma_w on every weight of "
            "the mean displacement. FedDyn has a = -1/(mu N), t = 1/s + 1/N, l = -mu, S = -P, where P has the pull mu",
        ),
        forms={Form.NEW: Claim(_moments)},
        constants=_constants,
        measure=_measure,
        symbols=MAP_SYMBOLS
        | {H: "Gram matrix H_inf", s: "clients in a round", mu: "FedDyn's alpha"}
        | {noise: "standard deviation of the noise on every weight of the mean of SCAFFOLD's displacements"}
        | {
            symbol: f"{what} of {method} after a round, from every cohort"
            for method, symbols in (("SCAFFOLD", OF_SCAFFOLD), ("FedDyn", OF_FEDDYN))
            for symbol, what in zip(symbols, ("E r r'", "E r m'", "E m m'"), strict=True)
        }
        | {e: f"1 on the samples of client {c + 1}, on the diagonal" for c, e in enumerate(OWN)},
        left_formula=(("E r(2) r(2)^T",) * 2 + ("E r(2) m(2)^T", "E m(2) m(2)^T")) * 2,
        says_left="for SCAFFOLD and then for FedDyn, E r r', E r m' and E m m' after two rounds: over every choice of "
        "clients, each trained step by step in the weights; E r r' also by the library's random rounds",
        families=DRAWN_MEMORIES,
        mutants=(
            MILLIONTH_MORE,
            replaced(s, N, "as if every client took part", Change.FACTOR),
            replaced(N - 1, N, "clients drawn with replacement", Change.INDEX),
            replaced(noise, noise * sp.Rational(1_001, 1_000), "a little more noise", Change.FACTOR),
            power(eta_global, sp.Rational(1, 2)),
            power(mu, 2),
        ),
        uses=("fl-ntk/state-maps",),
    ),
)
