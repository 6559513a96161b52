"""The case of a round with drawn clients and batches, which is small enough for enumerating every choice."""

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Case, Family
from ntkfl import Estimate, Problem, Setup, data, gram, random_rounds
from ntkfl.exact_dynamics import RandomRegime, UnstableSteps

SIZES = (3, 2, 2)  # numbers of samples of the clients
EQUAL = (2, 2, 2)  # for server momentum, where the mean weighs each client by its number of samples
EPS = np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class SmallRound(Case):
    """A round at infinite width in which `cohort` of three clients of few samples are drawn."""

    # the error, in roundings of the largest entry; the errors of all operations together are smaller
    ROUNDINGS: ClassVar[int]

    problem: Problem
    setup: Setup
    cohort: int

    @cached_property
    def gram(self) -> np.ndarray:
        """H, (n, n)."""
        return gram.infinite(self.problem.x)

    @property
    def start(self) -> np.ndarray:
        """E z z^T, (2n, 2n), of z = (y, 0), the residual and the memory before training."""
        second = np.zeros((2 * self.problem.n, 2 * self.problem.n))
        second[: self.problem.n, : self.problem.n] = np.outer(self.problem.y, self.problem.y)
        return second

    def rounded(self, value: np.ndarray) -> Estimate:
        """The value with an error that is well above all rounding errors."""
        error = self.ROUNDINGS * EPS * float(np.abs(value).max())
        return Estimate(value, np.full(value.shape, error), "rounding, generous")

    def moments_of(self, second: Estimate) -> tuple[Estimate, ...]:
        """The blocks E r r^T, E r m^T and E m m^T of E z z^T, each (n, n).

        If z is (r, m, x), the blocks with x follow.
        """
        n, whole, error = self.problem.n, np.asarray(second.value), np.asarray(second.error)
        at = [slice(start, start + n) for start in range(0, len(whole), n)]
        pairs = [(row, column) for place, column in enumerate(at) for row in at[: place + 1]]
        return tuple(Estimate(whole[pair], error[pair], second.method) for pair in pairs)

    def after_two(self, second: Estimate, regime: RandomRegime) -> tuple[Estimate, ...]:
        """E r r^T after two rounds, twice, and then the other blocks of E z z^T.

        The first E r r^T is computed by enumerating every choice, the second by the library.
        """
        residual, *others = self.moments_of(second)
        mean = regime.residual(2)
        return residual, self.rounded(regime.covariance(2) + np.outer(mean, mean)), *others


def on_sphere(sizes: tuple[int, ...], seed: int) -> Problem:
    """Points on the sphere in eight dimensions, on clients with these numbers of samples."""
    whole = data.sphere(sum(sizes), 8, seed=seed, clients=1, labels="uniform")
    owner = np.random.default_rng([seed, 5]).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Problem(whole.x, whole.y, owner, name=whole.name)


def largest_of_clients(problem: Problem) -> float:
    """max_c |H_cc|."""
    h = gram.infinite(problem.x)
    return max(np.linalg.eigvalsh(h[np.ix_(c, c)])[-1] for c in problem.members)


@dataclass(frozen=True, eq=False)
class RandomRound(SmallRound):
    """Rounds of Algorithm 1 in which a client uses `batch` samples in a local step. eta_global is the server's step."""

    ROUNDINGS: ClassVar[int] = 2000  # enough for some dozen products of matrices of seven rows

    batch: int | None = None  # None: all samples of the client; otherwise there is one local step
    shuffled: bool = False  # whether a client passes over its samples in batches, in a random order
    momentum: float = 0.0  # the b of the server's momentum, v <- b v + mean; with momentum clients have equal sizes
    noise: float = 0.0  # standard deviation of the Gaussian noise on every weight of the mean
    nesterov: bool = False  # whether the server adds mean + b v rather than v

    @cached_property
    def choices(self) -> tuple[tuple[float, np.ndarray], ...]:
        """For every choice of clients and batches: its probability, and the residual's map minus I, at eta_g = 1.

        The map is (n, n).

        Each choice is trained step by step, in coefficients of the samples' features.
        """
        h, n, setup = self.gram, self.problem.n, self.setup
        choices = []
        cohorts = list(itertools.combinations(self.problem.members, self.cohort))
        for chosen in cohorts:
            drawn = list(itertools.product(*(self._sequences(owned) for owned in chosen)))
            for sequences in drawn:
                mean = np.zeros((n, n))
                for owned, sequence in zip(chosen, sequences, strict=True):
                    own, moved = np.eye(n)[owned], np.zeros((len(owned), n))
                    for batch in sequence:
                        left = own - h[np.ix_(owned, owned)] @ moved
                        moved[batch] += setup.eta_local * len(owned) / len(batch) * left[batch]
                    mean[owned] += moved / self.cohort
                choices.append((1 / (len(cohorts) * len(drawn)), -h @ mean))
        return tuple(choices)

    def _sequences(self, owned: np.ndarray) -> list[list[list[int]]]:
        """Every sequence of batches that the client may take in a round."""
        samples, size = range(len(owned)), min(self.batch or len(owned), len(owned))
        if self.shuffled:
            return [[[sample] for sample in order] for order in itertools.permutations(samples)]
        return [[list(batch)] * self.setup.local_steps for batch in itertools.combinations(samples, size)]

    def maps(self, server: float) -> Iterator[tuple[float, np.ndarray]]:
        """Probability and map of the residual of every choice."""
        for chance, change in self.choices:
            yield chance, np.eye(self.problem.n) + server * change

    def moments(self, rounds: int) -> Estimate:
        """E r r^T after `rounds` rounds from r = y, (n, n), over every choice."""
        second = np.outer(self.problem.y, self.problem.y)
        for _ in range(rounds):
            second = np.sum([chance * m @ second @ m.T for chance, m in self.maps(self.setup.eta_global)], axis=0)
        return self.rounded(second)

    def with_memory(self, rounds: int) -> Estimate:
        """E z z^T, (2n, 2n), after `rounds` rounds from z = (y, 0), over every choice. z is (r, H v)."""
        server, one = self.setup.eta_global, np.eye(self.problem.n)
        second = self.start
        # the factor with which the server moves along the mean
        reach = server * (1 + self.momentum if self.nesterov else 1)
        injected = self.noise**2 * np.kron([[reach**2, -reach], [-reach, 1]], self.gram)
        for _ in range(rounds):
            following = injected
            for chance, change in self.choices:
                pushed = np.hstack([-change, 0 * one])  # H times the mean
                moved = pushed + self.momentum * np.hstack([0 * one, one])  # the new H v, after the round
                step = pushed + self.momentum * moved if self.nesterov else moved
                whole = np.vstack([np.hstack([one, 0 * one]) - server * step, moved])
                following = following + chance * whole @ second @ whole.T
            second = following
        return self.rounded(second)

    def mean(self, rounds: int) -> Estimate:
        """E r after `rounds` rounds from r = y, (n,), over every choice."""
        mean = self.problem.y
        for _ in range(rounds):
            mean = np.sum([chance * m @ mean for chance, m in self.maps(self.setup.eta_global)], axis=0)
        return self.rounded(mean)

    def radius(self, server: float) -> Estimate:
        """The spectral radius of E M (x) M over every choice.

        M is the map of the residual in a round, and (x) is the Kronecker product.
        """
        whole = np.sum([chance * np.kron(m, m) for chance, m in self.maps(server)], axis=0)
        value = float(np.abs(np.linalg.eigvals(whole)).max())
        return Estimate(value, 1e-9 * max(value, 1.0), "rounding of eigenvalues, generous")

    def library(self, server: float) -> RandomRegime:
        """The result of `ntkfl.random_rounds` with this server step. Warnings are suppressed."""
        setup = Setup(eta_local=self.setup.eta_local, local_steps=self.setup.local_steps)
        drawn: dict[str, Any] = {"participation": self.cohort / len(SIZES), "batch_size": self.batch}
        drawn["shuffled"] = self.shuffled
        method, options = "fl-ntk", {"server_rate": server}
        if self.momentum:
            method, options = "fedavgm", options | {"momentum": self.momentum, "nesterov": self.nesterov}
        with warnings.catch_warnings(action="ignore", category=UnstableSteps):
            return random_rounds(self.problem, setup, None, method, options, noise=self.noise, **drawn)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        drawn = {"problem": self.problem.name, "s": self.cohort, "b": self.batch, "shuffled": self.shuffled}
        if self.momentum:
            drawn |= {"momentum": self.momentum, "noise": self.noise}
        if self.nesterov:
            drawn |= {"nesterov": True}
        return drawn | asdict(self.setup)


def random_round(
    seed: int,
    cohort: int,
    batch: int | None,
    steps: int,
    reach: float = 0.8,
    server: float = 1.0,
    shuffled: bool = False,
    momentum: float = 0.0,
    noise: float = 0.0,
    nesterov: bool = False,
) -> RandomRound:
    """Seven points on the sphere in eight dimensions, or six with server momentum."""
    problem = on_sphere(EQUAL if momentum else SIZES, seed)
    setup = Setup(eta_local=float(reach / largest_of_clients(problem)), eta_global=server, local_steps=steps, seed=seed)
    return RandomRound(problem, setup, cohort, batch, shuffled, momentum, noise, nesterov)


def _drawn(batches: bool, seed: int) -> RandomRound:
    """One to three drawn clients, with up to four local steps, or one step on a batch of one or two samples."""
    rng = np.random.default_rng([seed, 6])
    batch, steps = (1 + seed % 2, 1) if batches else (None, int(rng.integers(1, 5)))
    return random_round(seed, 1 + seed % 3, batch, steps, float(rng.uniform(0.05, 1.5)), float(rng.uniform(0.1, 2)))


def _any_of(batch: SearchStrategy, steps: SearchStrategy, **more: SearchStrategy) -> SearchStrategy[RandomRound]:
    """Small rounds with any number of drawn clients, step sizes up to the clients' limit, and any server step."""
    seeds, cohorts = st.integers(0, 2**16), st.integers(1, 3)
    return st.builds(random_round, seeds, cohorts, batch, steps, st.floats(0.01, 1.9), st.floats(0.05, 4), **more)


def _any_round(batches: bool) -> SearchStrategy[RandomRound]:
    return _any_of(st.integers(1, 2), st.just(1)) if batches else _any_of(st.none(), st.integers(1, 4))


def _shuffled(seed: int) -> RandomRound:
    """One to three drawn clients, each of which uses its samples once, one by one in a random order."""
    rng = np.random.default_rng([seed, 7])
    return random_round(seed, 1 + seed % 3, 1, 1, float(rng.uniform(0.05, 0.8)), float(rng.uniform(0.1, 2)), True)


def _any_shuffled() -> SearchStrategy[RandomRound]:
    """Rounds like those of `_shuffled`, with step sizes up to the limit of a single sample, and any server step."""
    seeds, cohorts, one = st.integers(0, 2**16), st.integers(1, 3), st.just(1)
    return st.builds(
        random_round, seeds, cohorts, one, one, st.floats(0.01, 0.9), st.floats(0.05, 4), shuffled=st.just(True)
    )


def _with_momentum(seed: int) -> RandomRound:
    """One to three drawn clients, with up to four local steps, any momentum, and noise of the labels' size."""
    rng = np.random.default_rng([seed, 8])
    steps, reach, server = int(rng.integers(1, 5)), float(rng.uniform(0.05, 1.5)), float(rng.uniform(0.1, 2))
    memory, noise = float(rng.uniform(0.1, 0.95)), float(rng.uniform(0.05, 1))
    return random_round(seed, 1 + seed % 3, None, steps, reach, server, momentum=memory, noise=noise)


def _any_momentum() -> SearchStrategy[RandomRound]:
    """Rounds like those of `_with_momentum`, with any momentum below 1."""
    return _any_of(st.none(), st.integers(1, 4), momentum=st.floats(0.01, 0.99), noise=st.floats(0, 2))


def _outer_nesterov(seed: int) -> RandomRound:
    """One to three drawn clients, with one local step on one or two samples, any momentum, and noise."""
    rng = np.random.default_rng([seed, 10])
    reach, server = float(rng.uniform(0.05, 1.5)), float(rng.uniform(0.1, 2))
    memory, noise = float(rng.uniform(0.1, 0.95)), float(rng.uniform(0.05, 1))
    drawn = 1 + seed % 3, 1 + seed // 3 % 2, 1
    return random_round(seed, *drawn, reach, server, momentum=memory, noise=noise, nesterov=True)


def _any_nesterov() -> SearchStrategy[RandomRound]:
    """Rounds like those of `_outer_nesterov`, with any momentum below 1."""
    memory, noise = st.floats(0.01, 0.99), st.floats(0, 2)
    return _any_of(st.integers(1, 2), st.just(1), momentum=memory, noise=noise, nesterov=st.just(True))


NESTEROV_ROUNDS = (
    Family("sphere, n=6, N=3, outer Nesterov, batches, noise", _outer_nesterov, _any_nesterov, trials=18, most=18),
)
MOMENTUM_ROUNDS = (
    Family("sphere, n=6, N=3, server momentum, noise", _with_momentum, _any_momentum, trials=18, most=18),
)
SHUFFLED_ROUNDS = (Family("sphere, n=7, N=3, shuffled passes", _shuffled, _any_shuffled, trials=12, most=12),)
RANDOM_ROUNDS = (
    Family("sphere, n=7, N=3, clients drawn", _drawn, _any_round, (False,), trials=18, most=18),
    Family("sphere, n=7, N=3, clients and batches drawn", _drawn, _any_round, (True,), trials=18, most=18),
)


def operators(case: RandomRound) -> tuple[np.ndarray, np.ndarray]:
    """L1 and L2 as matrices, (n^2, n^2), from their closed forms. With drawn batches they are for one local step."""
    h, owner, setup, count = case.gram, case.problem.owner, case.setup, case.problem.n_clients
    n, s = len(h), case.cohort
    own = (owner[:, None] == owner).astype(float)
    values, basis = np.linalg.eigh(h * own)
    response = (basis * ((1 - (1 - setup.eta_local * values) ** setup.local_steps) / values)) @ basis.T
    a, one, h2 = h @ response, np.eye(n), np.kron(h, h)
    blocks = np.diag(own.ravel())
    operator = count * (s - 1) / (s * (count - 1)) * np.kron(a, a)
    operator += count * (count - s) / (s * (count - 1)) * h2 @ blocks @ np.kron(response, response)
    if case.batch is not None:
        sizes = np.bincount(owner)[owner]
        drawn = np.minimum(case.batch, sizes)
        gamma = sizes * (drawn - 1) / (drawn * (sizes - 1))
        noise = np.diag((own * (gamma - 1)).ravel()) + np.diag(np.diag(sizes / drawn - gamma).ravel())
        operator += count / s * setup.eta_local**2 * h2 @ noise
    return np.kron(a, one) + np.kron(one, a), operator
