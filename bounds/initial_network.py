"""The case of a network at initialisation, with a radius R.

The measured quantity is the change of the Gram matrix if every neuron's weights move by at most R.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds.case import Case, Family, another_network, described
from bounds.drawn_networks import drawn_network
from bounds.federated_run import FederatedFamily, federated_families
from bounds.options import Options
from bounds.strategies import labels, log_uniform, points, sizes
from ntkfl import Estimate, Problem, Weights, gram
from ntkfl.gram.counts import changes_within
from ntkfl.imports import old_names
from ntkfl.initialisation import draw as gaussian, drawing_bytes


@dataclass(frozen=True, eq=False)
class InitialNetwork(Case):
    """Data, Gaussian weights, a radius R that does not depend on them, and a failure probability."""

    problem: Problem
    weights: Weights
    sigma: float
    radius: float
    delta: float = 0.1

    @property
    def width(self) -> int:
        """m, the number of neurons."""
        return len(self.weights.hidden)

    @cached_property
    def preactivations(self) -> np.ndarray:
        """w_r . x_i, (n, m)."""
        return self.problem.x @ self.weights.hidden.T

    @cached_property
    def initial_gram(self) -> Estimate:
        """H(0), (n, n), with the error from patterns within rounding of their kinks."""
        return gram.finite_estimate(self.problem.x, self.weights.hidden)

    @cached_property
    def infinite_gram(self) -> Estimate:
        """H_inf, (n, n), with its rounding bound."""
        return gram.infinite_estimate(self.problem.x)

    @cached_property
    def gram_deviation(self) -> Estimate:
        """|H(0) - H_inf|_F, a number."""
        difference = self.initial_gram.value - self.infinite_gram.value
        error = self.initial_gram.error + self.infinite_gram.error + 1e-15
        return Estimate(np.linalg.norm(difference), np.linalg.norm(error), "counts, rounding bound")

    @cached_property
    def reachable_deviation(self) -> Estimate:
        """An enclosure of the supremum of |H(w~, w^) - H(0)|_F over perturbations within R.

        The lower end of the enclosure is a value that a search has found. The upper end is an upper bound of the
        supremum. Entry (i, j) counts the neurons that are active on both samples. The entry loses at most D_ij neurons,
        namely those active on both with a pre-activation within R of 0. It gains at most U_ij other neurons, namely
        those within R of being active on both. So the entry moves by at most |x_i.x_j| max(D_ij, U_ij) / m. The value
        that was found is the largest one over some perturbations that move every neuron by R along one direction.
        """
        z, x, m = self.preactivations, self.problem.x, self.width
        on, inner = (z >= 0).astype(float), np.abs(x @ x.T)
        both = on @ on.T
        (lost,), (gained,) = changes_within(x, self.weights.hidden, np.array([self.radius]))
        most = np.linalg.norm(inner * np.maximum(lost, gained)) / m
        deviation = 0.0
        for direction in (x[0], x.sum(axis=0), _longest(x)):
            length = np.linalg.norm(direction)
            if length == 0:
                continue
            for sign in (1 - 1e-9, -1 + 1e-9):
                moved = (z + (sign * self.radius / length) * (x @ direction)[:, None] >= 0).astype(float)
                deviation = max(deviation, float(np.linalg.norm(inner * (moved @ moved.T - both))) / m)
        return Estimate.between(deviation * (1 - 1e-12), most * (1 + 1e-12), "a perturbation found, and a bound on all")

    @cached_property
    def most_crowded(self) -> tuple[float, float]:
        """The radius R at which the share of neurons within R exceeds sqrt(2/pi) R/sigma the most, and that share."""
        distances = np.sort(np.abs(self.preactivations) / np.linalg.norm(self.problem.x, axis=1, keepdims=True), axis=1)
        shares = np.arange(1, self.width + 1) / self.width
        i, r = np.unravel_index(np.argmax(shares - np.sqrt(2 / np.pi) * distances / self.sigma), distances.shape)
        return float(distances[i, r]), float(shares[r])

    def redrawn(self, seed: int) -> InitialNetwork:
        """Another Gaussian network on the same data.

        Args:
            seed: a whole number, at least 0.
        """
        return replace(self, weights=another_network(self.weights, seed, self.sigma))

    describe = described("problem", "n", "width", R="radius")


def _longest(x: np.ndarray) -> np.ndarray:
    """A vector, of any length, in the direction in which the rows of x are longest.

    The vector is computed from the smaller one of the matrices x'x and xx'.
    """
    n, d = x.shape
    return np.linalg.eigh(x.T @ x)[1][:, -1] if d <= n else x.T @ np.linalg.eigh(x @ x.T)[1][:, -1]


def one_point(length: float = 1.0, sigma: float = 1.0) -> InitialNetwork:
    """A network on one sample, with R = .05.

    If the sample is long, every entry of H is large. If sigma is small, every activation can change within R.

    Args:
        length: length of the sample, default 1.
        sigma: standard deviation of the weights, default 1.
    """
    problem = Problem(length * np.eye(2)[:1], np.ones(1), name="one point")
    return InitialNetwork(problem, gaussian(4096, 2, 0, sigma), sigma, radius=0.05)


def _network(base: FederatedFamily, seed: int) -> InitialNetwork:
    """A network on the data of a FederatedFamily, with R/sigma log-uniform in .02..0.5 and independent of W."""
    problem, setup = base.problem(seed), base.setup
    radius = float(np.exp(np.random.default_rng([seed, 1]).uniform(np.log(0.02), np.log(0.5))))
    weights = drawn_network(setup.width, problem.d, seed, setup.sigma)
    return InitialNetwork(problem, weights, setup.sigma, radius * setup.sigma)


class InitialNetworkFamily(Family):
    """A family of networks at initialisation. Its method `case_bytes` gives the memory that a case takes."""

    @property
    def base(self) -> FederatedFamily:
        """The family whose data the networks have as inputs."""
        return self.of[0]

    def case_bytes(self, problem: Problem, width: int, rounds: int) -> float:
        """Memory in bytes of a case of these data while its network is drawn; it does not depend on the rounds.

        Args:
            problem: the data of the case.
            width: m.
            rounds: not used.
        """
        return float(drawing_bytes(width, problem.d))


def initial_network_families(options: Options) -> tuple[InitialNetworkFamily, ...]:
    """Networks before training, on the default families' data or on the user's data.

    Args:
        options: data, sizes, steps and seed, as the user chose them.
    """
    generic, trials = initial_networks(), options.trials or 200
    return tuple(
        InitialNetworkFamily(f"{base.name}, at initialisation", _network, generic, (base,), trials)
        for base in federated_families(options)
    )


@cache
@st.composite
def initial_networks(draw: DrawFn) -> InitialNetwork:
    """Gaussian networks of any width up to 2^9 and any sigma, on up to four points, with any R and delta."""
    x = draw(points((1, 4), (1, 3)))
    width, sigma = draw(sizes(1, 512)), draw(st.one_of(st.just(1.0), log_uniform(0.05, 4)))
    weights = gaussian(width, x.shape[1], draw(st.integers(0, 2**16)), sigma)
    problem = Problem(x, draw(labels(len(x))), name="drawn")
    radius, delta = draw(log_uniform(1e-3, 0.99)), draw(log_uniform(0.02, 0.9))
    return InitialNetwork(problem, weights, sigma, radius * sigma, delta)


__getattr__ = old_names(__name__, initial_network_draws="initial_network_families")
