"""Case: a ladder of kernel matrices in which the samples of one client become orthogonal."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import DrawFn, SearchStrategy
from jaxtyping import Float

from bounds import Family
from bounds.case import Case
from bounds.cases.ensembles import ball_array, estimated, squared
from ntkfl.balls import ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate

RUNGS = 8
ONCE, SQUARED = 1, 2


@dataclass(frozen=True, eq=False)
class KernelLadder(Case):
    """Kernel matrices on the samples D of all clients; the first `own` samples are client k's.

    Raises:
        ValueError: shapes that differ, a matrix that is not symmetric, or fewer than two samples of the client.
    """

    kernels: tuple[Float[np.ndarray, "n n"], ...]  # one symmetric (n, n) matrix a rung, taken exactly
    own: int  # n_k

    def __post_init__(self) -> None:
        kernels = tuple(np.asarray(kernel, float) for kernel in self.kernels)
        shapes = {kernel.shape for kernel in kernels}
        if len(shapes) != 1 or kernels[0].ndim != 2 or kernels[0].shape[0] != kernels[0].shape[1]:
            raise ValueError(f"the kernels have shapes {sorted(shapes)}; they must be (n, n), n the same on every rung")
        for rung, kernel in enumerate(kernels):
            if not (kernel == kernel.T).all():
                raise ValueError(f"the kernel of rung {rung} is not symmetric; a kernel matrix is")
        if not 2 <= self.own <= len(kernels[0]):
            raise ValueError(
                f"the client has {self.own} of {len(kernels[0])} samples; an unbiased mean over pairs needs 2 or more"
            )
        object.__setattr__(self, "kernels", kernels)

    @property
    def n(self) -> int:
        """Number of samples of all clients."""
        return len(self.kernels[0])

    @cached_property
    def offsets(self) -> np.ndarray:
        """eps of each rung: the largest |K_ij| of two of the client's samples, exactly."""
        apart = ~np.eye(self.own, dtype=bool)
        return np.array([np.abs(kernel[: self.own, : self.own][apart]).max() for kernel in self.kernels])

    @property
    def sizes(self) -> np.ndarray:
        """1 / eps, infinite where eps is 0."""
        with np.errstate(divide="ignore"):
            return 1 / self.offsets

    @property
    def n_runs(self) -> int:
        """Number of kernel matrices."""
        return len(self.kernels)

    @property
    def diagonal_spread(self) -> float:
        """Largest spread of K(x, x) over the client's samples: largest less smallest value, at the worst rung."""
        return max(float(np.ptp(np.diag(kernel)[: self.own])) for kernel in self.kernels)

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """The smallest eigenvalue of the client's block, over all rungs."""
        with precision():
            blocks = (ball_matrix(kernel[: self.own, : self.own]) for kernel in self.kernels)
            smallest = [enclosure(symmetric_eigenvalues(block)[0]) for block in blocks]
        return min(smallest, key=lambda eigenvalue: float(eigenvalue.lo))

    @cached_property
    def posterior_variances(self) -> list[list[arb]]:
        """K(x,x) - K(x,X) K(X,X)^-1 K(X,x) for the other clients' samples, by rung; 0 for the client's own."""
        with precision():
            return [self._posterior(kernel) for kernel in self.kernels]

    def _posterior(self, kernel: np.ndarray) -> list[arb]:
        k = self.own
        if k == len(kernel):
            return []
        cross = ball_matrix(kernel[:k, k:])
        explained: arb_mat = cross.transpose() * ball_matrix(kernel[:k, :k]).inv() * cross
        return [arb(float(kernel[k + i, k + i])) - explained[i, i] for i in range(len(kernel) - k)]

    def remainders(self, power: int, *, unbiased: bool) -> Estimate:
        """E_D Var - (n_k/(2 lam) MMD^2 + lam_D - n_k/(2 lam) beta_D) by rung, MMD with the kernel K^power.

        `unbiased`: the U-statistic, which leaves out the pair of a sample with itself; else the V-statistic.
        """
        with precision():
            pairs = zip(self.kernels, self.posterior_variances, strict=True)
            remainders = [self._remainder(kernel, variances, power, unbiased) for kernel, variances in pairs]
            return estimated(np.array(remainders, dtype=object))

    def _remainder(self, kernel: np.ndarray, variances: list[arb], power: int, unbiased: bool) -> arb:
        k, n, entries = self.own, self.n, ball_array(kernel)
        raised, lam = squared(entries) if power == SQUARED else entries, np.trace(entries[:k, :k]) / self.own
        mean = _mean_apart if unbiased else _mean
        distance = mean(raised[:k, :k]) + mean(raised) - 2 * _mean(raised[:k])
        beta, average = _mean_apart(squared(entries)), np.trace(entries) / n
        return sum(variances, arb(0)) / n - (k * (distance - beta) / (2 * lam) + average)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"n": self.n, "n_k": self.own, "eps": [float(f"{eps:.3g}") for eps in self.offsets]}


def _mean(block: np.ndarray) -> arb:
    return block.sum() / block.size


def _mean_apart(block: np.ndarray) -> arb:
    """Mean over pairs of different samples."""
    size = len(block)
    return (block.sum() - np.trace(block)) / (size * (size - 1))


def approaching(lam: float, between: np.ndarray, cross: np.ndarray, extra: np.ndarray) -> KernelLadder:
    """The ladder K(X,X) = lam I + eps * between; eps falls by 64 from rung to rung, and all other entries stay.

    `lam` is the diagonal of K(X, X). `between`, (n_k, n_k), is symmetric with a zero diagonal and entries within [-1,
    1]; `cross` is (n_k, n - n_k). `extra`, (n - n_k, r), gives the covariance of the other clients' samples that this
    client's samples do not explain.
    """
    k = len(between)
    first = lam / (16 * k)
    others = (
        2 * cross.T @ cross / lam + extra @ extra.T
    )  # on every rung at least the part that the client's samples explain
    corner = (others + others.T) / 2
    rungs = (np.block([[lam * np.eye(k) + first / 64**j * between, cross], [cross.T, corner]]) for j in range(RUNGS))
    return KernelLadder(tuple(rungs), k)


def _ladder(seed: int) -> KernelLadder:
    """2 to 5 samples of the client, and as many of the others."""
    rng = np.random.default_rng([seed, 9])
    own, others = (int(size) for size in rng.integers(2, 6, 2))
    between = _between(rng.uniform(-1, 1, (own, own)))
    cross, extra = rng.standard_normal((own, others)), rng.standard_normal((others, others))
    return approaching(float(rng.uniform(0.5, 3)), between, cross, extra)


def _between(entries: np.ndarray) -> np.ndarray:
    """The part above the diagonal, mirrored below the diagonal."""
    return np.triu(entries, 1) + np.triu(entries, 1).T


def _integers(shape: tuple[int, int], size: int) -> SearchStrategy[np.ndarray]:
    return arrays(float, shape, elements=st.integers(-size, size).map(float))


@st.composite
def _integer_ladders(draw: DrawFn) -> KernelLadder:
    """Ladders with small integers in every block."""
    own, others = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    block = draw(_integers((own, own), 1).map(_between).filter(np.any))
    lam = float(draw(st.integers(1, 8)))
    return approaching(lam, block, draw(_integers((own, others), 3)), draw(_integers((others, others), 2)))


# Random kernels; data are not used, since the ReLU kernel of any data has eps/lam of about .16 or more.
KERNEL_LADDERS = Family("kernels with orthogonal samples in the limit", _ladder, _integer_ladders(), needs=5)
