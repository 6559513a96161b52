"""The case of the kernel regime for given data and steps, computed by the library and by ball arithmetic.

Balls are intervals with midpoint and radius (python-flint). The library's numbers have a measured error, from a second
computation with the samples in another order.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from bounds.case import Case, Family, described
from bounds.federated_run import ORDER_SAFETY, FederatedFamily, federated_families
from bounds.options import Options
from bounds.strategies import labels, largest_block, largest_eigenvalue, partitions, points, steps
from ntkfl import Estimate, Problem, Setup, gram
from ntkfl.balls import ball, ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.data.user_files import is_data_file
from ntkfl.gram.mirror import mirrored
from ntkfl.limit.infinite_width import KernelRegime

EPS = np.finfo(float).eps
# Least error in units of n eps. With few samples, two orders may agree in every bit although both are rounded.
ROUNDINGS = 16


@dataclass(frozen=True, eq=False)
class MeasuredRegime:
    """The results of `ntkfl.kernel_regime` for a Gram matrix, as Estimates.

    The error is ten times the difference from the same regime with its samples in the opposite order, plus some
    roundings of the summed numbers. This error is measured, not proved.
    """

    problem: Problem  # labels (n,) or (n, C)
    setup: Setup  # step sizes and steps; no warning is given about them
    gram: np.ndarray  # H, (n, n), symmetric

    @cached_property
    def regime(self) -> KernelRegime:
        """The regime itself."""
        return KernelRegime(self.problem, self.setup, self.gram, kernel=None)

    @cached_property
    def _reversed(self) -> KernelRegime:
        p = self.problem
        other = Problem(p.x[::-1], p.y[::-1], p.owner[::-1], name=p.name)
        return KernelRegime(other, self.setup, np.ascontiguousarray(self.gram[::-1, ::-1]), kernel=None)

    def of(
        self,
        quantity: Callable[[KernelRegime, slice], Any] | Callable[[KernelRegime, slice, np.ndarray], Any],
        samples: tuple[int, ...] = (),
        size: float = 0.0,
        start: np.ndarray | None = None,
    ) -> Estimate:
        """A quantity of the regime, computed with the samples in two orders.

        `quantity` is called with the regime and the order of the samples. If `start` is given, `quantity` is also
        called with `start` in that order. `samples` are the axes of the quantity that run over the samples. `size` is
        the size of the numbers that the quantity adds or subtracts. `start` are outputs (n, ...) rounded to float64.
        With the second order of the samples, each output in `start` is replaced by the next larger float64.

        Raises:
            OverflowError: the quantity is too large for float64.
        """
        given = () if start is None else (start,)
        other_given = () if start is None else (np.nextafter(start, np.inf)[::-1],)
        with np.errstate(over="ignore", invalid="ignore"):  # the check below refuses an overflow
            value = np.asarray(quantity(self.regime, slice(None), *given), float)
            other = np.flip(
                np.asarray(quantity(self._reversed, slice(None, None, -1), *other_given), float), axis=samples
            )
        if not (np.isfinite(value).all() and np.isfinite(other).all()):
            raise OverflowError("the kernel regime passes the largest float64")
        difference, largest = (float(np.abs(part).max(initial=0.0)) for part in (value - other, value))
        error = ORDER_SAFETY * difference + ROUNDINGS * self.problem.n * EPS * max(size, largest)
        return Estimate(value, np.full(value.shape, error), "two orders of the samples")


BITS = 256
SMALLEST_EIGENVALUE = 1e-9  # least eigenvalue of H_inf for which its Cholesky factor exists in float64


@dataclass(frozen=True, eq=False)
class KernelCase(Case):
    """The kernel H = L L^T, where L is the Cholesky factor of H_inf in float64.

    H differs from H_inf by rounding only, and is known exactly.
    """

    problem: Problem
    setup: Setup

    @cached_property
    def factor(self) -> np.ndarray:
        """L in float64, (n, n)."""
        return np.linalg.cholesky(gram.infinite(self.problem.x))

    @cached_property
    def _response(self) -> arb_mat:
        """P = blockdiag eta_l sum_{k<K} (I - eta_l H_cc)^k."""
        blocks, eta = self._blocks, ball(self.setup.eta_local)
        one = ball_matrix(np.eye(self.problem.n))
        total = one * 0
        for _ in range(self.setup.local_steps):
            total = one * eta + (one - blocks * eta) * total
        return total

    @cached_property
    def gram(self) -> arb_mat:
        """H = L L^T as balls, (n, n). It must be called at a precision of BITS."""
        factor = ball_matrix(self.factor)
        return factor * factor.transpose()

    @property
    def _blocks(self) -> arb_mat:
        """H_D, which has the entries of H in the clients' blocks, and 0 elsewhere."""
        h, n, owner = self.gram, self.problem.n, self.problem.owner
        return arb_mat([[h[i, j] if owner[i] == owner[j] else arb(0) for j in range(n)] for i in range(n)])

    @cached_property
    def block_eigenvalues(self) -> np.ndarray:
        """The eigenvalues q of all client blocks H_cc, in float64."""
        h = self.factor @ self.factor.T
        return np.concatenate([np.linalg.eigvalsh(h[np.ix_(c, c)]) for c in self.problem.members])

    @cached_property
    def nu(self) -> Estimate:
        """The eigenvalues of H P, ascending, enclosed as the eigenvalues of the symmetric matrix L^T P L."""
        with precision(BITS):
            factor = ball_matrix(self.factor)
            return enclosure(symmetric_eigenvalues(factor.transpose() * self._response * factor))

    @cached_property
    def nu_by_size(self) -> Estimate:
        """The eigenvalues of H W P, ascending. W has the weights n_c/n of the clients in the mean."""
        problem = self.problem
        with precision(BITS):
            factor = ball_matrix(self.factor)
            shares = ball_matrix(np.diag(np.bincount(problem.owner)[problem.owner])) / problem.n
            return enclosure(symmetric_eigenvalues(factor.transpose() * shares * self._response * factor))

    @cached_property
    def least_of_jacobi(self) -> Estimate:
        """The smallest eigenvalue of H_D^-1 H, where H_D has the clients' blocks of H.

        This eigenvalue is one over the largest eigenvalue of L^-1 H_D L^-T.
        """
        with precision(BITS):
            inverse = ball_matrix(self.factor).inv()
            largest = symmetric_eigenvalues(inverse * self._blocks * inverse.transpose())[-1]
            return enclosure(1 / largest)

    @cached_property
    def regime(self) -> MeasuredRegime:
        """The library's kernel regime of H, with H rounded to float64."""
        return MeasuredRegime(self.problem, self.setup, mirrored(self.factor @ self.factor.T))

    @property
    def map_size(self) -> float:
        """1 + (eta_g/N) |nu|, a bound on the terms of M."""
        return 1 + self.setup.eta_global / self.problem.n_clients * float(np.abs(self.nu.value).max())

    @cached_property
    def round_map(self) -> Estimate:
        """M = I - (eta_g/N) H P, (n, n)."""
        return self.regime.of(lambda regime, _: regime.round_map, samples=(0, 1), size=self.map_size)

    @cached_property
    def map_eigenvalues(self) -> Estimate:
        """The eigenvalues of the round's matrix M, descending, by a general solver in ball arithmetic.

        Imaginary parts count as errors. L makes M similar to a symmetric matrix. So an error E in the entries of M
        moves no eigenvalue by more than n cond(L) |E| (Bauer and Fike; the factor n allows for the order of the
        eigenvalues).
        """
        round_map = self.round_map
        with precision(BITS):
            values = ball_matrix(round_map.value).eig(multiple=True)
            real = enclosure([value.real for value in values])
            imaginary = enclosure([value.imag for value in values])
        order = np.argsort(-real.value)
        moved = self.problem.n * np.linalg.cond(self.factor) * np.linalg.norm(round_map.error)
        error = real.error + np.abs(imaginary.value) + imaginary.error + moved
        return Estimate(real.value[order], error[order], round_map.method, round_map.rigour)

    @cached_property
    def rate(self) -> Estimate:
        """The spectral radius of M."""
        return self.regime.of(lambda regime, _: regime.rate, size=self.map_size)

    describe = described("problem", "N", "K", "eta_local", "eta_global")


def orthogonal_points(setup: Setup) -> KernelCase:
    """Two orthogonal points with equal labels on one client. A round of this case is easily computed by hand."""
    return KernelCase(Problem(np.eye(2), np.ones(2), name="two orthogonal points"), setup)


def _kernel_case(base: FederatedFamily, reach: float, user: bool, seed: int) -> KernelCase:
    """A case with 1 to 6 local steps, eta_g up to 1, and eta_l q from .01 to `reach`.

    q is the largest eigenvalue of a client's block. `user` says whether the user has named the data. If so, the
    partition among clients is taken from `base`; if not, there are 1 to 4 clients.
    """
    rng = np.random.default_rng([seed, 3])
    problem = (base if user else replace(base, clients=1 + seed % 4)).problem(seed)
    largest = max(np.linalg.eigvalsh(gram.infinite(problem.x[c]))[-1] for c in problem.members)
    eta_local = float(np.exp(rng.uniform(np.log(0.01), np.log(reach))) / largest)
    setup = Setup(
        eta_local=eta_local, eta_global=float(rng.uniform(0.05, 1)), local_steps=int(rng.integers(1, 7)), seed=seed
    )
    return KernelCase(problem, setup)


def kernel_families(options: Options, reach: float, most: int | None = None, steps: bool = True) -> tuple[Family, ...]:
    """The default families, or the user's data, at infinite width.

    Each family has 50 seeds, or 10 where ball arithmetic is slow. `reach` is the largest eta_l q. `most` is the
    largest number of seeds, for statements that take long on each case. `steps` says whether the statement depends on
    the step sizes and the number of steps. If the statement does not depend on them, a user's file is one case for all
    seeds.
    """
    user, families = options.data is not None, []
    for base in federated_families(options):
        name = f"{base.name}, infinite width, eta_l q up to {reach:g}"
        of = (base, reach, user)
        if not steps and is_data_file(options.data or ""):
            families.append(Family(name, _kernel_case, kernel_cases(), of, trials=1, needs=1))
            continue
        known = None if user else base.n  # the number of samples is known without loading the data
        trials = options.trials or (50 if (known or base.problem(options.seed).n) <= 50 else 10)
        few = trials if most is None else min(most, trials)
        families.append(Family(name, _kernel_case, kernel_cases(), of, few))
    return tuple(families)


@cache
@st.composite
def kernel_cases(draw: DrawFn) -> KernelCase:
    """The kernel regime of up to four points, with step sizes on both sides of the stability limits."""
    x = draw(
        points((1, 4), (1, 3)).filter(lambda x: float(np.linalg.eigvalsh(gram.infinite(x))[0]) > SMALLEST_EIGENVALUE)
    )
    owner = draw(partitions(len(x), clients=(1, 4)))
    h = gram.infinite(x)
    problem = Problem(x, draw(labels(len(x))), owner, name="drawn")
    chosen = draw(steps(largest_block(h, owner), largest_eigenvalue(h), problem.n_clients, (1, 6), (1, 1)))
    return KernelCase(problem, Setup(**chosen))
