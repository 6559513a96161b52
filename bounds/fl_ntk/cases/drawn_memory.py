"""The case of SCAFFOLD or FedDyn with drawn clients, which is small enough for enumerating every choice.

The clients' orders of their samples may be random too. Clients and server keep vectors from round to round: controls in
SCAFFOLD, duals in FedDyn.
"""

import itertools
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bounds.fl_ntk.cases.random_round import EPS, SmallRound, largest_of_clients, on_sphere
from ntkfl import Estimate, Setup
from ntkfl.exact_dynamics import RandomRegime, algorithm1_limit, random_of_method

SIZES = (3, 2, 1)  # numbers of samples of the clients
# the options of the methods
OPTIONS: dict[str, dict[str, Any]] = {"scaffold": {}, "scaffold I": {"option": "I"}, "feddyn": {}}


@dataclass(frozen=True, eq=False)
class DrawnMemory(SmallRound):
    """Two rounds at infinite width. In each of them `cohort` of three clients are drawn.

    eta_global is SCAFFOLD's server rate.
    """

    # a large number, since the controls are solutions of systems with condition numbers of some tens
    ROUNDINGS: ClassVar[int] = 20_000

    pull: float  # FedDyn's alpha
    noise: float  # standard deviation of the Gaussian noise on every weight of the mean displacement
    first: int  # number of local steps or passes in the first round; the setup has the number for the second round
    shuffled: bool = False  # whether a client passes over its samples one by one, in a random order

    @cached_property
    def features(self) -> np.ndarray:
        """The matrix Phi, (n, n), with Phi Phi^T = H. Its rows are the features of the samples."""
        return np.linalg.cholesky(self.gram)

    def steps(self, number: int) -> int:
        """The number of local steps, or of passes, in round 0 or 1."""
        return self.setup.local_steps if number else self.first

    def _sequences(self, client: int, steps: int) -> list[tuple]:
        """Every sequence of batches that the client may take in a round."""
        samples = range(len(self.problem.members[client]))
        orders = itertools.permutations(samples) if self.shuffled else [(list(samples),)]
        return [sum(passes, ()) for passes in itertools.product(orders, repeat=steps)]

    def maps(self, method: str, steps: int) -> list[np.ndarray]:
        """For each cohort the maps of the state (r, m, c), (choices, 3n, 3n). All cohorts are equally likely.

        The maps are computed from single steps of the weights. r is y - f. Client k has the control -Phi_k^T m_k, or
        the dual Phi_k^T m_k. c is the server's own control or dual, a vector of weights.
        """
        residual, _, server = self._parts
        still = np.eye(3 * self.problem.n)
        if method == "feddyn":
            still[: self.problem.n] = residual + self.features @ server / self.pull
        changes = [[self._change(method, c, taken) for taken in self._sequences(c, steps)] for c in range(len(SIZES))]
        maps = []
        for cohort in itertools.combinations(range(len(SIZES)), self.cohort):
            whole = still[None]
            for c in cohort:
                whole = (whole[:, None] + np.array(changes[c])).reshape(-1, *still.shape)
            maps.append(whole)
        return maps

    @property
    def _parts(self) -> list[np.ndarray]:
        """The maps from the state to r, to m and to c."""
        return np.split(np.eye(3 * self.problem.n), 3)

    def _change(self, method: str, client: int, taken: tuple) -> np.ndarray:
        """The change of the state in a round by one drawn client that takes these batches."""
        setup, owned, count = self.setup, self.problem.members[client], len(SIZES)
        residual, kept, server = self._parts
        own, control = self.features[owned], self.features[owned].T @ kept[owned]
        corrected = -control if method == "feddyn" else control + server
        moved = np.zeros_like(control)
        for batch in taken:
            at = owned[np.atleast_1d(batch)]
            features, scale = self.features[at], len(owned) / len(at)
            gradient = scale * features.T @ (features @ moved - residual[at]) + corrected
            moved = moved - setup.eta_local * (gradient + (self.pull * moved if method == "feddyn" else 0))
        if method == "feddyn":
            fresh, push, of_server = (
                control - self.pull * moved,
                1 / self.cohort + 1 / count,
                -self.pull / count * moved,
            )
        else:
            fresh, push = -control - server - moved / (len(taken) * setup.eta_local), setup.eta_global / self.cohort
            fresh = -own.T @ residual[owned] if method == "scaffold I" else fresh
            of_server, fresh = (fresh + control) / count, -fresh
        coefficients = np.zeros_like(kept)
        coefficients[owned] = np.linalg.lstsq(own.T, fresh, rcond=None)[0] - kept[owned]
        return np.concatenate([-push * self.features @ moved, coefficients, of_server])

    def moments(self, method: str, rounds: int) -> Estimate:
        """E z z^T after `rounds` rounds from r = y, over every choice. z is (r, m), or (r, m, x) for FedDyn.

        FedDyn's server sums up noise. x is what the summed noise adds to the outputs.
        """
        n, share = self.problem.n, self.cohort / len(SIZES)
        second, unit = np.zeros((3 * n, 3 * n)), np.eye(n)
        second[:n, :n] = self.start[:n, :n]
        jump = np.concatenate([-self.setup.eta_global * self.features, 0 * unit, 0 * unit])
        projection = np.eye(2 * n, 3 * n)
        if method == "feddyn":
            jump = np.concatenate([-(1 + share) * self.features, 0 * unit, -self.pull * share * unit])
            summed = [0 * unit, self.gram / (len(SIZES) * self.pull), -self.features / self.pull]
            projection = np.concatenate([projection, np.hstack(summed)])
        for number in range(rounds):
            cohorts = [maps @ second @ maps.transpose(0, 2, 1) for maps in self.maps(method, self.steps(number))]
            second = np.mean([after.mean(axis=0) for after in cohorts], axis=0) + self.noise**2 * jump @ jump.T
        # The error is relative to this size, the largest of the sums of absolute values of terms. The moments
        # themselves would be too small as a size, since without noise the terms of x cancel.
        size = float((np.abs(projection) @ np.abs(second) @ np.abs(projection.T)).max())
        moments = projection @ second @ projection.T
        return Estimate(moments, np.full(moments.shape, self.ROUNDINGS * EPS * size), "rounding, generous")

    def radius(self, method: str) -> Estimate:
        """The spectral radius of E M (x) M on symmetric matrices, over every choice.

        M is the second round's map of (r, m), and (x) is the Kronecker product.
        """
        n = self.problem.n
        whole, rows = 2 * n, np.triu_indices(2 * n)
        sign = 1 if method == "feddyn" else -1
        started = np.concatenate([np.eye(whole), np.hstack([np.zeros((n, n)), sign * self.features.T / len(SIZES)])])
        squares = []
        for maps in self.maps(method, self.setup.local_steps):
            flat = (maps @ started)[:, :whole].reshape(len(maps), -1)
            squares.append((flat.T @ flat).reshape((whole,) * 4) / len(flat))  # the entry [i, k, j, l] is E M_ik M_jl
        mapped = np.mean(squares, axis=0).transpose(0, 2, 1, 3)[rows]
        mapped = (mapped + mapped.transpose(0, 2, 1))[:, *rows]
        mapped[:, rows[0] == rows[1]] /= 2
        value = float(np.abs(np.linalg.eigvals(mapped)).max())
        return Estimate(value, 1e-9 * max(value, 1.0), "rounding of eigenvalues, generous")

    def library(self, method: str) -> RandomRegime:
        """The result of `ntkfl.random_rounds`, without its warning of unstable steps.

        The search for the rate on which this warning depends is left out.
        """
        regime = algorithm1_limit(self.problem, Setup(eta_local=self.setup.eta_local), None)
        options: dict[str, Any] = {"alpha": self.pull}
        if method != "feddyn":
            options = {"server_rate": self.setup.eta_global} | OPTIONS[method]
        drawn: dict[str, Any] = {"participation": self.cohort / len(SIZES), "noise": self.noise}
        drawn |= {"local_steps": [self.first, self.setup.local_steps]}
        drawn |= {"shuffled": True, "batch_size": 1} if self.shuffled else {}
        return random_of_method(regime, method.split()[0], options, **drawn)

    def describe(self) -> dict[str, Any]:
        """What identifies the case in a report."""
        drawn = {"problem": self.problem.name, "s": self.cohort, "alpha": self.pull, "noise": self.noise}
        return drawn | {"K_1": self.first, "shuffled": self.shuffled} | asdict(self.setup)


def drawn_memory(
    seed: int,
    cohort: int,
    steps: int,
    reach: float,
    server: float,
    pull: float,
    noise: float,
    first: int,
    shuffled: bool = False,
    sizes: tuple[int, ...] = SIZES,
) -> DrawnMemory:
    """Points on the sphere in eight dimensions, on three clients with these numbers of samples.

    By default there are six points.
    """
    problem = on_sphere(sizes, seed)
    largest = largest_of_clients(problem)
    setup = Setup(eta_local=float(reach / (largest + pull)), eta_global=server, local_steps=steps, seed=seed)
    return DrawnMemory(problem, setup, cohort, pull, noise, first, shuffled)
