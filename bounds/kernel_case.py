"""Case: the kernel regime of given data and steps, every matrix of it in balls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from flint import arb, arb_mat
from hypothesis.strategies import SearchStrategy

from bounds.draw_counts import DerivedDraw
from bounds.federated_run import FederatedDraw, federated_draws
from bounds.options import Options
from ntkfl import gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate
from ntkfl.problem import Problem, Setup

BITS = 256


@dataclass(frozen=True, eq=False)
class KernelCase:
    """H = L L^T exactly, L the float Cholesky factor of H_inf: within rounding of H_inf, and known without error."""

    problem: Problem
    setup: Setup

    @cached_property
    def _factor(self) -> np.ndarray:
        return np.linalg.cholesky(gram.infinite(self.problem.x))

    @cached_property
    def _response(self) -> arb_mat:
        """P = blockdiag eta_l sum_{k<K} (I - eta_l H_cc)^k."""
        h, n, owner = self._gram, self.problem.n, self.problem.owner
        eta = ball(self.setup.eta_local)
        blocks = arb_mat([[h[i, j] if owner[i] == owner[j] else arb(0) for j in range(n)] for i in range(n)])
        one = ball_matrix(np.eye(n))
        total = one * 0
        for _ in range(self.setup.local_steps):
            total = one * eta + (one - blocks * eta) * total
        return total

    @cached_property
    def _gram(self) -> arb_mat:
        factor = ball_matrix(self._factor)
        return factor * factor.transpose()

    @cached_property
    def block_eigenvalues(self) -> np.ndarray:
        """All eigenvalues q of all client blocks H_cc, in floats."""
        h = self._factor @ self._factor.T
        return np.concatenate([np.linalg.eigvalsh(h[np.ix_(c, c)]) for c in self.problem.clients()])

    @cached_property
    def nu(self) -> Estimate:
        """Eigenvalues of L^T P L, ascending: those of H P, enclosed through a symmetric matrix."""
        with precision(BITS):
            factor = ball_matrix(self._factor)
            return enclosure(symmetric_eigenvalues(factor.transpose() * self._response * factor))

    @cached_property
    def map_eigenvalues(self) -> Estimate:
        """Eigenvalues of M = I - (eta_g/N) H P, descending, by a general solver; imaginary parts count as error."""
        with precision(BITS):
            scale = ball(self.setup.eta_global) / self.problem.n_clients
            values = (ball_matrix(np.eye(self.problem.n)) - self._gram * self._response * scale).eig(multiple=True)
            real = enclosure([value.real for value in values])
            imaginary = enclosure([value.imag for value in values])
        order = np.argsort(-real.value)
        error = real.error + np.abs(imaginary.value) + imaginary.error
        return Estimate(real.value[order], error[order], "ball")

    def describe(self) -> dict:
        """What identifies the case in a report."""
        s = self.setup
        return {
            "problem": self.problem.name,
            "N": self.problem.n_clients,
            "K": s.local_steps,
            "eta_local": s.eta_local,
            "eta_global": s.eta_global,
        }


@dataclass(frozen=True)
class KernelDraw(DerivedDraw):
    """The data of a FederatedDraw; 1 to 4 clients, 1 to 6 local steps, eta_g up to 1, eta_l q from .01 to `reach`."""

    base: FederatedDraw
    reach: float
    user: bool = False

    @property
    def name(self) -> str:
        """What reports call the family."""
        return f"{self.base.name}, infinite width, eta_l q up to {self.reach:g}"

    def case(self, seed: int) -> KernelCase:
        """The case of one seed; the user's own data keep their clients."""
        rng = np.random.default_rng([seed, 3])
        base = self.base if self.user else replace(self.base, clients=1 + seed % 4)
        problem = base.problem(seed)
        largest = max(np.linalg.eigvalsh(gram.infinite(problem.x[c]))[-1] for c in problem.clients())
        eta_local = float(np.exp(rng.uniform(np.log(0.01), np.log(self.reach))) / largest)
        setup = Setup(
            eta_local=eta_local, eta_global=float(rng.uniform(0.05, 1)), local_steps=int(rng.integers(1, 7)), seed=seed
        )
        return KernelCase(problem, setup)

    def strategy(self) -> SearchStrategy[KernelCase]:
        """Up to four points, with steps on both sides of the stability limits."""
        from bounds.case_strategies import kernel_cases

        return kernel_cases()


def kernel_draws(options: Options, reach: float) -> tuple[KernelDraw, ...]:
    """The default families, or the user's data, at infinite width; 50 seeds each, 10 where balls make them slow."""
    found = []
    for base in federated_draws(options):
        known = base.n if options.data is None else None  # without loading the digits
        trials = options.trials or (50 if (known or base.problem(options.seed).n) <= 50 else 10)
        found.append(KernelDraw(replace(base, trials=trials), reach, options.data is not None))
    return tuple(found)
