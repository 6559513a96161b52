"""Statements on the variances of a client's model, of a mean of clients, and of IMA's average.

The first is Theorem 2 (averaging/I7). In the second (averaging/I10) all clients have the same law. IMA's average
(averaging/I11) is the mean of the last models of the server.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
import sympy as sp
from flint import arb, arb_mat, fmpq, fmpq_mat
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import DrawFn, SearchStrategy
from jaxtyping import Float

from bounds import IMA, Case, Change, Claim, Family, Hypothesis, Kind, Nature, Options, Outcome, Source, Statement
from bounds.cases.bounded_sum import exact
from bounds.cases.ensembles import ball_array, estimated, forward, inputs, squared
from bounds.mutants import MILLIONTH_MORE, index_shifted, power, replaced, without
from bounds.strategies import problems
from bounds.symbols import K
from ntkfl import Problem
from ntkfl.balls import ball, ball_matrix, enclosure, precision, symmetric_eigenvalues
from ntkfl.estimate import Estimate, Rigour

RUNGS = 8
ONCE, SQUARED = 1, 2


@dataclass(frozen=True, eq=False)
class KernelLadder(Case):
    """Kernel matrices on the samples D of all clients. The first `own` samples are those of client k.

    The matrices form a ladder, and each matrix is a rung. Let eps be the largest absolute value of the entries for two
    different samples of client k; from one rung to the next eps falls.

    Raises:
        ValueError: shapes that differ, a matrix that is not symmetric, or fewer than two samples of the client.
    """

    kernels: tuple[Float[np.ndarray, "n n"], ...]  # a symmetric (n, n) matrix for each rung, taken as exact
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
        """eps on each rung: the largest |K_ij| of two different samples of the client, computed exactly."""
        apart = ~np.eye(self.own, dtype=bool)
        return np.array([np.abs(kernel[: self.own, : self.own][apart]).max() for kernel in self.kernels])

    @property
    def sizes(self) -> np.ndarray:
        """1 / eps on each rung, infinite where eps is 0."""
        with np.errstate(divide="ignore"):
            return 1 / self.offsets

    @property
    def n_runs(self) -> int:
        """Number of kernel matrices."""
        return len(self.kernels)

    @property
    def diagonal_spread(self) -> float:
        """The largest difference of two values of K(x, x) on the client's samples, over all rungs."""
        return max(float(np.ptp(np.diag(kernel)[: self.own])) for kernel in self.kernels)

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """The smallest eigenvalue of the client's block of K, over all rungs."""
        with precision():
            blocks = (ball_matrix(kernel[: self.own, : self.own]) for kernel in self.kernels)
            smallest = [enclosure(symmetric_eigenvalues(block)[0]) for block in blocks]
        return min(smallest, key=lambda eigenvalue: float(eigenvalue.lo))

    @cached_property
    def posterior_variances(self) -> list[list[arb]]:
        """K(x,x) - K(x,X) K(X,X)^-1 K(X,x) for the samples of the other clients, rung by rung.

        X are the client's samples. The client's own samples are left out, since their posterior variance is 0.
        """
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
        """The remainder E_D Var - (n_k/(2 lam) MMD^2 + lam_D - n_k/(2 lam) beta_D) on each rung.

        MMD, the maximum mean discrepancy, is taken with the kernel K^power. If `unbiased`, MMD^2 is the U-statistic,
        which leaves out the pair of a sample with itself; otherwise it is the V-statistic.
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
    """The mean of a block's entries over pairs of different samples."""
    size = len(block)
    return (block.sum() - np.trace(block)) / (size * (size - 1))


def approaching(lam: float, between: np.ndarray, cross: np.ndarray, extra: np.ndarray) -> KernelLadder:
    """The ladder K(X,X) = lam I + eps * between.

    From rung to rung eps falls by a factor of 64, and all else stays the same.

    `lam` is the diagonal of K(X, X). `between`, (n_k, n_k), is symmetric with a zero diagonal and entries within [-1,
    1]; `cross` is (n_k, n - n_k). `extra`, (n - n_k, r), gives the part of the other clients' samples' covariance that
    this client's samples do not explain.
    """
    k = len(between)
    first = lam / (16 * k)
    others = (
        2 * cross.T @ cross / lam + extra @ extra.T
    )  # the covariance of the other samples is on every rung at least the part that the client's samples explain
    corner = (others + others.T) / 2
    rungs = (np.block([[lam * np.eye(k) + first / 64**j * between, cross], [cross.T, corner]]) for j in range(RUNGS))
    return KernelLadder(tuple(rungs), k)


def _ladder(seed: int) -> KernelLadder:
    """2 to 5 samples of the client, and 2 to 5 samples of other clients."""
    rng = np.random.default_rng([seed, 9])
    own, others = (int(size) for size in rng.integers(2, 6, 2))
    between = _between(rng.uniform(-1, 1, (own, own)))
    cross, extra = rng.standard_normal((own, others)), rng.standard_normal((others, others))
    return approaching(float(rng.uniform(0.5, 3)), between, cross, extra)


def _between(entries: np.ndarray) -> np.ndarray:
    """A symmetric matrix with zero diagonal and the given entries above the diagonal."""
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


# The kernels are random. Data are not used, since the ReLU kernel of any data has an eps/lam of about .16 or more.
KERNEL_LADDERS = Family("kernels with orthogonal samples in the limit", _ladder, _integer_ladders(), needs=5)


eps = sp.Symbol("epsilon", positive=True)
own = sp.Symbol("n_k", positive=True)
lam, lam_all = sp.symbols("lambda_k lambda_D", positive=True)

CONSTANT_DIAGONAL = Hypothesis(
    "constant-diagonal", "K(x, x) is the same for all samples of the client", lambda case: -case.diagonal_spread
)
INVERTIBLE = Hypothesis(
    "invertible",
    "K(X, X) of the client is positive definite, certified",
    lambda case: float(case.smallest_eigenvalue.lo) - np.finfo(float).tiny,
)
POSITIVE = Hypothesis(
    "positive",
    "every posterior variance is at least 0, as those of a kernel are",
    lambda case: enclosure([v for rung in case.posterior_variances for v in rung]),
)


def _constants(case: KernelLadder) -> dict:
    diagonals = np.array([np.diag(kernel) for kernel in case.kernels])
    return {
        eps: case.offsets,
        own: case.own,
        lam_all: _mean_rows(diagonals),
        lam: _mean_rows(diagonals[:, : case.own]),
    }


def _mean_rows(rows: np.ndarray) -> Estimate:
    with precision():
        return estimated(ball_array(rows).sum(axis=1) / rows.shape[1])


def _with_kernel(case: KernelLadder) -> Estimate:
    """The remainder with MMD in the space of K, for the U- or the V-statistic, whichever gives the smaller remainder.

    The paper leaves open which statistic is meant.
    """
    both = [abs(case.remainders(ONCE, unbiased=unbiased)) for unbiased in (True, False)]
    smaller = np.argmin([kernel.value for kernel in both], axis=0)
    value, error = (np.choose(smaller, [getattr(kernel, part) for kernel in both]) for part in ("value", "error"))
    return Estimate(value, error, "ball", Rigour.ENCLOSED)


def blocks() -> KernelLadder:
    """Two orthogonal samples of the client and two samples of others, so that eps = 0. The two rungs are K and 5 K."""
    cross = np.array([[1.0, 1.0], [0.0, 1.0]])
    kernel = np.block([[np.eye(2), cross], [cross.T, np.array([[2.0, 1.0], [1.0, 4.0]])]])
    return KernelLadder((kernel, 5 * kernel), own=2)


def uneven() -> KernelLadder:
    """A client whose samples have K(x, x) = 1 and K(x, x) = 2. The remainder does not vanish with eps."""
    even = approaching(1.0, np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0], [0.5]]), np.array([[1.0]]))
    return KernelLadder(tuple(kernel + np.diag([0.0, 1.0, 0.0]) for kernel in even.kernels), own=2)


STARTS, RUNS, HIDDEN, SPREAD = 3, 3, 3, 0.5


@dataclass(frozen=True, eq=False)
class SharedStarts(Case):
    """I equally likely starts, with J equally likely outcomes of training from each start.

    All clients share a start, and every client draws its own outcome.

    Raises:
        ValueError: shapes that do not fit, or fewer than one client.
    """

    problem: Problem  # inputs (n, l); labels and owners are not used
    hidden: Float[np.ndarray, "I J h l"]  # U, (I, J, h, l)
    readout: Float[np.ndarray, "I J h"]  # v, (I, J, h)
    clients: int  # K

    def __post_init__(self) -> None:
        hidden, readout = np.asarray(self.hidden, float), np.asarray(self.readout, float)
        if hidden.ndim != 4 or hidden.shape[3] != self.problem.d or readout.shape != hidden.shape[:3]:
            raise ValueError(
                f"the weights have shapes {hidden.shape} and {readout.shape}; they must be (I, J, h, {self.problem.d}) "
                "and (I, J, h)"
            )
        if self.clients < 1:
            raise ValueError(f"there are {self.clients} clients; at least 1 is needed")
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "readout", readout)

    @cached_property
    def outputs(self) -> np.ndarray:
        """f(x) for every outcome of every start, in ball arithmetic, (I, J, n)."""
        with precision():
            x = ball_matrix(self.problem.x)
            pairs = list(np.ndindex(self.readout.shape[:2]))
            outputs = [forward(x, ball_matrix(self.hidden[at]), [ball(v) for v in self.readout[at]]) for at in pairs]
            return ball_array(outputs).reshape(*self.readout.shape[:2], self.problem.n)

    @cached_property
    def single_variance(self) -> Estimate:
        """The variance of one client's output f, averaged over the samples."""
        with precision():
            return estimated(_variance(self.outputs.reshape(-1, self.problem.n)) / self.problem.n)

    @cached_property
    def variance_given_start(self) -> Estimate:
        """The mean over starts of Var(f | start), averaged over the samples."""
        with precision():
            within = sum((_variance(f) for f in self.outputs), arb(0))
            return estimated(within / (len(self.outputs) * self.problem.n))

    @cached_property
    def averaged_variance(self) -> Estimate:
        """The variance of the mean output of the K clients, averaged over the samples.

        The variance runs over all I J^K draws of a round.
        """
        with precision():
            means = [
                start[list(chosen)].sum(axis=0) / self.clients
                for start in self.outputs
                for chosen in product(range(len(start)), repeat=self.clients)
            ]
            return estimated(_variance(np.array(means, dtype=object)) / self.problem.n)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        starts, runs = self.readout.shape[:2]
        return {"problem": self.problem.name, "starts": starts, "outcomes of each": runs, "clients": self.clients}


def _variance(f: np.ndarray) -> arb:
    """The variance over the rows of f (M, n), summed over the columns."""
    return squared(f - f.sum(axis=0) / len(f)).sum() / len(f)


def _shared_starts(options: Options, seed: int) -> SharedStarts:
    """Gaussian starts with outcomes around each, and 2 to 4 clients, on random points or on the user's data."""
    problem, rng = inputs(options, seed, equal=True), np.random.default_rng([seed, 7])
    hidden, readout = (
        rng.standard_normal((STARTS, 1, *size)) + SPREAD * rng.standard_normal((STARTS, RUNS, *size))
        for size in ((HIDDEN, problem.d), (HIDDEN,))
    )
    return SharedStarts(problem, hidden, readout, clients=int(rng.integers(2, 5)))


@st.composite
def _small_cases(draw: DrawFn) -> SharedStarts:
    """One to three starts, one to three outcomes of each, and one to three clients, on any data."""
    problem = draw(problems(clients=(1, 1)))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2)), problem.d)
    entries = st.one_of(st.integers(-3, 3).map(float), st.floats(-3, 3, allow_subnormal=False))
    hidden, readout = (draw(arrays(float, size, elements=entries)) for size in (shape, shape[:3]))
    return SharedStarts(problem, hidden, readout, draw(st.integers(1, 3)))


SMALL_CASES = _small_cases()


def shared_start_families(options: Options) -> tuple[Family, ...]:
    """One family: Gaussian starts with several outcomes each."""
    name = f"{options.data or 'sphere'}, identically distributed clients"
    return (Family(name, _shared_starts, SMALL_CASES, (options,), trials=options.trials or 40),)


single = sp.Symbol("V", real=True)
within = sp.Symbol("W", real=True)


def four_coins() -> SharedStarts:
    """Four independent clients with outputs +-1: each output has variance 1, and their mean has variance 1/4."""
    problem = Problem(np.ones((1, 1)), np.ones(1), name="one sample")
    return SharedStarts(problem, np.ones((1, 2, 1, 1)), np.array([[[1.0], [-1.0]]]), clients=4)


window = sp.Symbol("P", positive=True)
contraction = sp.Symbol("rho", positive=True)

WIDEST = 6  # the largest window P. It is small because the equation for S is solved in rationals, with P^2 unknowns.


def _left_over(models: sp.Expr) -> sp.Expr:
    """The stationary variance of the mean of the last P = `models` models.

    The covariance of w_t and w_{t-j} is the same number g for all 1 <= j <= P, and w_t has the variance g_0. They
    satisfy g = rho (g_0 + (P-1) g) / P and g_0 = rho g + 1. The variance of the mean is g / rho.
    """
    return 1 / ((models + contraction) * (1 - contraction))


@dataclass(frozen=True)
class NoisyQuadratic(Case):
    """Rounds w_t = rho w_IMA(t-1) + noise of variance 1 on a quadratic loss. w_IMA is the mean of the last P models.

    Raises:
        ValueError: a window below 1, or rho outside (0, 1), where there is no stationary variance.
    """

    hundredths: int  # 100 rho, so that rho is rational
    window: int  # P

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"the window is {self.window}; at least 1 model is averaged")
        if not 0 < self.hundredths < 100:
            raise ValueError(f"rho is {self.hundredths / 100:g}; a stationary variance needs 0 < rho < 1")

    @property
    def averaged_models(self) -> float:
        """The number of models w_(t-i), i = 0..P-1, that Eq (5) averages."""
        return float(len({-i for i in range(self.window)}))

    @property
    def averaged_variance(self) -> Estimate:
        """The stationary variance of w_IMA.

        The covariance S of the last P models is computed in rationals from the equation S = A S A^T + B.
        """
        size = self.window
        newest = [fmpq(self.hundredths, 100 * size)] * size
        step = [newest, *([fmpq(int(j == i)) for j in range(size)] for i in range(size - 1))]
        pairs = list(product(range(size), repeat=2))
        system = fmpq_mat([[int(at == of) - step[at[0]][of[0]] * step[at[1]][of[1]] for of in pairs] for at in pairs])
        noise = fmpq_mat(len(pairs), 1, [int(pair == (0, 0)) for pair in pairs])
        mean = sum(system.solve(noise).entries(), fmpq(0)) / size**2
        with precision():
            return enclosure(arb(mean))

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"rho": self.hundredths / 100, "P": self.window}


def _quadratic(seed: int) -> NoisyQuadratic:
    """Windows of 1 to 6 models, with rho from .01 to .99."""
    rng = np.random.default_rng([seed, 8])
    return NoisyQuadratic(int(rng.integers(1, 100)), int(rng.integers(1, WIDEST + 1)))


NOISY_QUADRATICS = Family(
    "noisy quadratic", _quadratic, st.builds(NoisyQuadratic, st.integers(1, 99), st.integers(1, WIDEST)), trials=40
)


STATEMENTS = (
    Statement(
        id="averaging/I7",
        title="Variance of a client's model = discrepancy of its data, up to O(eps)",
        kind=Kind.ORDER,
        source=Source(IMA, "Theorem 2, Eq (3)"),
        note="the theorem is adapted from DiWA, whose text was not available to us. The paper takes MMD in the space "
        "of K. Then the term in MMD has degree 0 in K while the left side has degree 1, and the remainder does not "
        "vanish at eps = 0. The same sentence prints beta_D with K^2 over pairs i != j; the unbiased MMD of K^2 has "
        "this term and subtracts it. So an exponent was lost in print, and the claim is meant for K^2. With the "
        "kernel K^2 and the unbiased statistic (pairs i != j) the claim is an identity up to |R| <= (n_k - 1) eps "
        "lam_D/lam + n_k eps^2/(2 lam), for every eps; with K^2 the V-statistic differs from the unbiased one by the "
        "constant lam/2 + n_k (mean K(x,x)^2 - beta_D)/(2 n lam). So the qualitative claim, that the variance grows "
        "with the discrepancy, survives. 'Var' is the posterior variance of the Gaussian process with kernel K, not "
        "the ensemble variance of networks trained in the kernel regime. For the ReLU kernel on the sphere eps/lam is "
        ".16 at right angles, and the bound exceeds lam_D from n_k = 8 on. Section 5.3.3 concludes 'max_k V_k <= eps' "
        "from the theorem. But the theorem's eps bounds the kernel between different samples, not the variance: a "
        "bound on V_k needs lam_D and MMD as well, and should have another name. The same section equates the mean of "
        "the variance over all data with the mean over D_k. The theorem is about the mean over all data, which is "
        "larger if the client has not seen all data",
        hypotheses=(CONSTANT_DIAGONAL, INVERTIBLE, POSITIVE),
        stated=Claim(
            eps,
            recorded=Outcome.VIOLATED,
            nature=Nature.MISPRINT,
            witness=blocks,
            reading="printed once, in Theorem 2 and the sentence under it",
            note="for the O(eps) this form takes the smaller remainder of the U- and the V-statistic with kernel K",
            consequence="MMD must be measured with K^2, without the pairs of equal samples; computed with K, the "
            "formula gives another number even for orthogonal samples, and changes with the unit of the outputs.",
        ),
        repaired=Claim(
            (own - 1) * eps * lam_all / lam + own * eps**2 / (2 * lam),
            measure=lambda case: abs(case.remainders(SQUARED, unbiased=True)),
            left_formula="|E_D Var - lambda_D - n_k (MMD_{K^2}^2 - beta_D) / (2 lambda_k)|",
            note="unbiased statistic with kernel K^2",
        ),
        constants=_constants,
        measure=_with_kernel,
        symbols={
            eps: "largest |K(x, x')| of two samples of the client",
            own: "number of samples of the client",
            lam: "K(x, x) of the client's samples",
            lam_all: "mean of K(x, x) over all samples",
        },
        left_formula="min_{U,V} |E_D Var - lambda_D - n_k (MMD_K^2 - beta_D) / (2 lambda_k)|",
        says_left="|E_D Var - (n_k/(2 lam) MMD^2 + lam_D - n_k/(2 lam) beta_D)| as eps falls",
        families=(KERNEL_LADDERS,),
        necessity={CONSTANT_DIAGONAL.name: uneven},
        mutants=(
            power(eps, 2),
            power(eps, sp.Rational(3, 2)),
            power(eps, sp.Rational(5, 4)),
            replaced(own - 1, 0, "the term in eps dropped", Change.FACTOR),
        ),
    ),
    Statement(
        id="averaging/I10",
        title="Variance of the mean of identically distributed clients",
        kind=Kind.EQUALITY,
        source=Source(IMA, "section 5.3.3 and appendix C"),
        note="the paper states this twice, in 5.3.3 and after Corollary 2, where it calls averaging more clients "
        "useless. We derived this again from the text: if all clients have one law and every two of them the "
        "covariance C, their mean has the variance Var/K + (1 - 1/K) C. This is Var only if C = Var, and then the "
        "outputs agree almost surely. The paper says that identically distributed clients have Var = Cov, so that "
        "variance and covariance add up to the variance of one model. Equal laws give equal variances; Cov = Var needs "
        "equal outputs (correlation 1). Independent clients have Cov = 0, and their mean the variance Var/K. With a "
        "shared start Cov = Var E(f | start), and averaging gains (1 - 1/K) E Var(f | start), the part of Var that the "
        "start does not explain. The paper says that clients of one law have homogeneous data and the same training "
        "configurations: if this is to mean one data set and one seed, all models of a round are equal and the claim "
        "is true",
        stated=Claim(
            single,
            recorded=Outcome.VIOLATED,
            nature=Nature.SUBSTANCE,
            witness=four_coins,
            reading="printed twice alike, in section 5.3.3 and in appendix C",
            consequence="Averaging more clients trained on homogeneous data does reduce the variance, down to "
            "the part that their common start explains. The claim that the gain flattens with K stands.",
        ),
        repaired=Claim(single - (1 - 1 / K) * within),
        constants=lambda case: {
            single: case.single_variance,
            within: case.variance_given_start,
            K: case.clients,
        },
        measure=lambda case: case.averaged_variance,
        symbols={
            single: "variance of one client's output, averaged over the samples",
            within: "E Var(f | start), averaged over the samples",
            K: "number of clients",
        },
        left_formula="E_x Var(sum_k f_k(x) / K)",
        says_left="variance of the clients' mean output, averaged over the samples, over all I J^K draws of a round",
        families=shared_start_families,
        mutants=(
            MILLIONTH_MORE,
            index_shifted(K, -1),
            power(K, 2),
            replaced(within, -within, "sign of the gain flipped", Change.SIGN),
            without(K),
            replaced(within, single, "the whole variance gained, as if clients were independent", Change.FACTOR),
        ),
        uses=("averaging/I5",),
    ),
    Statement(
        id="averaging/I11",
        title="The moving average needs its last P models",
        kind=Kind.DEFINITION,
        source=Source(IMA, "Eq (5), section 6.2"),
        note="(5) averages w_t .. w_(t-P+1). The paper prints the models to store as tau = t-P..t, which are P+1 "
        "models, and calls them P models in the same sentence: an index slip. Algorithm 1 sends w_IMA^(t-1) in "
        "round t = t_s, before any average exists; the paper means w^(t_s - 1), which is sent here. The average "
        "needs t >= max(t_s, P-1). The second part follows from (5), and its value differs between windows of "
        "different P: on a quadratic where w_t = rho w_IMA(t-1) + noise, Var w_IMA = 1/((P + rho)(1 - rho)) "
        "(docs/proofs/linear_methods.md#noise-in-a-window)",
        stated=Claim(
            (window + 1, _left_over(window + 1)),
            recorded=Outcome.VIOLATED,
            nature=Nature.MISPRINT,
            witness=lambda: NoisyQuadratic(90, 5),
            reading="printed once, in the sentence under (5)",
            note="this form is for the stored set tau = t-P..t",
            consequence="The algorithm is right; a server that follows the text stores one model more than it uses.",
        ),
        repaired=Claim((window, _left_over(window)), note="for the set tau = t-P+1..t"),
        constants=lambda case: {window: case.window, contraction: exact(Fraction(case.hundredths, 100))},
        measure=lambda case: (Estimate.exact(case.averaged_models), case.averaged_variance),
        symbols={window: "size P of the window", contraction: "factor of a round on the distance to the optimum"},
        left_formula=("number of models in w_IMA", "Var w_IMA"),
        says_left="number of models that Eq (5) averages; stationary variance of the average on a noisy quadratic, "
        "from the Lyapunov equation of the last P models in rationals",
        families=(NOISY_QUADRATICS,),
        mutants=(
            index_shifted(window, -1),
            power(window, 2),
            MILLIONTH_MORE,
            replaced(contraction, -contraction, "sign of rho flipped", Change.SIGN),
            replaced(contraction, contraction**2, "rho^2 for rho", Change.POWER),
        ),
    ),
)
