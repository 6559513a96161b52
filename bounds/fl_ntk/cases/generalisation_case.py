"""The case of a network of infinite width that FedAvg trains on a sample, and its loss on the distribution."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from inspect import signature

import numpy as np
from flint import arb, arb_mat
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bounds import Case, Family, Options
from ntkfl import Estimate, Problem, Setup, data, gram, kernel_regime
from ntkfl.balls import ball_matrix, enclosure, precision


@dataclass(frozen=True)
class SphereDistribution:
    """A distribution of (x, y), where x is uniform on the sphere of radius `length` in R^d.

    y is signal x_1/|x| plus noise times a fair coin of values +-1.
    """

    d: int = 5
    signal: float = 0.5
    noise: float = 0.0
    length: float = 1.0

    def sample(self, n: int, held_out: int, seed: int, clients: int) -> Problem:
        """n training samples and `held_out` further samples, all independent. Clients get samples in turn."""
        rng = np.random.default_rng([seed, n, 7])
        x = rng.normal(size=(n + held_out, self.d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = self.signal * x[:, 0] + self.noise * rng.choice([-1.0, 1.0], size=n + held_out)
        owner, x = np.arange(n) % min(clients, n), self.length * x
        return Problem(x[:n], y[:n], owner, x[n:], y[n:], name=f"sphere(d={self.d}, n={n}, seed={seed})")


@dataclass(frozen=True)
class UserData:
    """Data that the user names on the command line, by a name or a path.

    Every seed draws other training and held-out rows.
    """

    spec: str
    unit: bool = False

    def sample(self, n: int, held_out: int, seed: int, clients: int) -> Problem:
        """At most n training rows and at most `held_out` other rows.

        Of a file or table at least a third is held out.
        """
        if self.spec == "sphere":
            return SphereDistribution(d=8, signal=0.0, noise=1.0).sample(n, held_out, seed, clients)
        loader = data.BUILT_IN.get(self.spec)
        # tables have no test rows, so they are split in the same way as files
        if loader is not None and "test" in signature(loader).parameters:
            whole = data.named(self.spec, n=n, seed=seed, test=min(held_out, 1000), unit=self.unit)
            assert whole.x_test is not None and whole.y_test is not None
            return replace(whole, owner=np.arange(n) % min(clients, n))
        whole = data.named(self.spec, unit=self.unit, clients=1, partition="iid")
        whole.require_no_zero_row()
        order = np.random.default_rng([seed, 8]).permutation(whole.n)
        n = max(1, min(n, 2 * whole.n // 3))
        train, rest = order[:n], order[n : n + held_out]
        if not len(rest):
            raise ValueError(f"{self.spec} has {whole.n} row; a population loss needs at least 2, one to hold out")
        owner = np.arange(n) % min(clients, n)
        return Problem(whole.x[train], whole.y[train], owner, whole.x[rest], whole.y[rest], name=whole.name)


@dataclass(frozen=True)
class Loss:
    """l(f, y) = min(cap, floor + slope |f - y - shift|).

    The loss is Lipschitz in f with the constant `slope`, and has values in [min(floor, cap), cap]. If floor = shift =
    0, it vanishes at f = y. If floor >= cap or slope = 0, it does not depend on f.

    Raises:
        ValueError: a parameter that is not finite, or a negative slope, cap or floor.
    """

    slope: float = 1.0
    cap: float = 1.0
    floor: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not np.isfinite(value) or (value < 0 and field.name != "shift"):
                wanted = "finite" if field.name == "shift" else "finite and not negative"
                raise ValueError(f"{field.name} of the loss is {value}; it must be {wanted}")

    def __call__(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The loss of each output at its label, elementwise."""
        return np.minimum(self.cap, self.floor + self.slope * np.abs(outputs - labels - self.shift))

    @property
    def lowest(self) -> float:
        """The least value of the loss."""
        return min(self.floor, self.cap)

    @property
    def at_label(self) -> float:
        """l(y, y), which is the same for every y."""
        return min(self.cap, self.floor + self.slope * abs(self.shift))

    @property
    def constant(self) -> bool:
        """Whether the loss is constant, equal to `lowest`."""
        return self.slope == 0 or self.floor >= self.cap


def losses(*, at_label: bool = True) -> SearchStrategy[Loss]:
    """1-Lipschitz losses with values in [0, 1], of any slope, cap, floor and shift.

    If `at_label` is false, they satisfy l(y, y) = 0.
    """
    share = st.floats(0, 1, allow_subnormal=False)
    if not at_label:
        return st.builds(Loss, slope=share, cap=share)
    return st.builds(Loss, slope=share, cap=share, floor=share, shift=st.floats(-1, 1, allow_subnormal=False))


EPS = np.finfo(float).eps
HELD_OUT = 2000
RISK = 1e-6  # probability that the confidence interval does not contain the population loss
CLIENTS, LOCAL_STEPS = 4, 2


@dataclass(frozen=True, eq=False)
class TrainedOnSample(Case):
    """A network trained on n i.i.d. samples of a distribution, and a loss.

    The width is infinite, and training starts from f = 0, which is the limit sigma -> 0. There are 4 clients, 2 local
    steps of 1 / max_c tr H_cc (stable for any data), eta_g = 1, and the theorem's number of rounds. If `in_balls`,
    H_inf and y^T H_inf^-1 y are computed in ball arithmetic (intervals of python-flint), which takes n^3 / 20
    microseconds.
    """

    source: SphereDistribution | UserData
    n: int
    loss: Loss
    seed: int
    delta: float = 0.01
    in_balls: bool = False
    held_out: int = HELD_OUT

    @cached_property
    def problem(self) -> Problem:
        """The sample, with the held-out samples as its test data."""
        return self.source.sample(self.n, self.held_out, self.seed, CLIENTS)

    @cached_property
    def largest_label(self) -> float:
        """The largest |y|, over the training and the held-out samples."""
        assert self.problem.y_test is not None
        return float(max(np.abs(self.problem.y).max(), np.abs(self.problem.y_test).max()))

    @cached_property
    def _limit(self) -> Estimate:
        return gram.infinite_estimate(self.problem.x)

    @property
    def _gram(self) -> np.ndarray:
        return self._limit.value

    @cached_property
    def _eigenvalues(self) -> np.ndarray:
        return np.linalg.eigvalsh(self._gram)

    @cached_property
    def smallest_eigenvalue(self) -> Estimate:
        """lambda_min(H_inf) by LAPACK, with the error n^2 eps |H|. The true error is a small multiple of n eps |H|."""
        n, rounding = self.problem.n, float(self._limit.error.sum(axis=1).max())
        return Estimate(self._eigenvalues[0], n**2 * EPS * self._eigenvalues[-1] + rounding, "rounding bound")

    @cached_property
    def complexity(self) -> Estimate:
        """y^T H_inf^-1 y = y.z + z.s + s^T H^-1 s, where z is near H^-1 y and s = y - H z is its residual."""
        y = self.problem.y
        if self.in_balls:
            with precision():
                column = ball_matrix(y)
                return enclosure((column.transpose() * _limit_in_balls(self.problem.x).solve(column))[0, 0])
        h, n = self._limit, self.problem.n
        z = np.linalg.solve(h.value, y)
        s = y - h.value @ z
        rounding = np.linalg.norm((h.error + (n + 2) * EPS * np.abs(h.value)) @ np.abs(z) + EPS * np.abs(y))
        left_over = (np.linalg.norm(s) + rounding) ** 2 / max(float(self.smallest_eigenvalue.lo), 1e-300)
        error = np.linalg.norm(z) * rounding + left_over + (n + 4) * EPS * (np.abs(y) @ np.abs(z))
        return Estimate(y @ z + z @ s, error, "rounding bound")

    @cached_property
    def setup(self) -> Setup:
        """The step size and steps, and T = ln(n/delta)^2 / (rho lambda) rounds."""
        trace = max(float(np.trace(self._gram[np.ix_(c, c)])) for c in self.problem.members)
        rho = LOCAL_STEPS / trace / self.problem.n_clients
        lowest = max(float(self.smallest_eigenvalue.value), 1e-12)
        rounds = int(np.ceil(np.log(self.n / self.delta) ** 2 / (rho * lowest)))
        return Setup(eta_local=1 / trace, local_steps=LOCAL_STEPS, rounds=min(rounds, 2**50), seed=self.seed)

    @cached_property
    def held_out_loss(self) -> Estimate:
        """L_D of the trained predictor, estimated by the mean over the held-out samples.

        For a constant loss the estimate is exact.
        """
        loss, problem = self.loss, self.problem
        if loss.constant:
            return Estimate.exact(loss.lowest)
        assert problem.y_test is not None
        outputs = kernel_regime(problem, self.setup).predict(problem.x_test, [self.setup.rounds])[0]
        losses = loss(outputs, problem.y_test)
        chance = (loss.cap - loss.lowest) * np.sqrt(np.log(2 / RISK) / (2 * len(losses)))
        condition = self._eigenvalues[-1] / max(float(self.smallest_eigenvalue.lo), 1e-300)
        # this allows for an error of n eps in every eigenvector
        rounding = loss.slope * 8 * problem.n * EPS * condition * np.linalg.norm(problem.y)
        half = chance + min(float(rounding), loss.cap)
        return Estimate(losses.mean(), half, f"{len(losses)} held-out samples, Hoeffding interval 1 - {RISK:g}")

    @property
    def population_loss(self) -> Estimate:
        """L_D, with its interval cut to the values that the loss can take."""
        loss = self.held_out_loss
        if self.loss.constant:
            return loss
        low, high = (np.clip(end, self.loss.lowest, self.loss.cap) for end in (loss.lo, loss.hi))
        return Estimate.between(low, high, loss.method, loss.rigour)

    def redrawn(self, seed: int) -> TrainedOnSample:
        """A case with the same distribution, size and loss, and other samples."""
        return replace(self, seed=seed)

    def describe(self) -> dict:
        """What identifies the case in a report."""
        size = {"problem": self.problem.name, "n": self.problem.n}
        return size | {"source": str(self.source), "loss": str(self.loss), "delta": self.delta}


def _limit_in_balls(x: np.ndarray) -> arb_mat:
    """H_inf of these float64 inputs, in ball arithmetic."""
    rows = ball_matrix(x)
    inner = rows * rows.transpose()
    n = len(x)
    for i in range(n):
        for j in range(i):
            cosine = inner[i, j] / (inner[i, i] * inner[j, j]).sqrt()
            inner[i, j] = inner[j, i] = inner[i, j] * (arb.pi() - cosine.acos()) / (2 * arb.pi())
    for i in range(n):
        inner[i, i] = inner[i, i] / 2
    return inner


def distributions() -> SearchStrategy[SphereDistribution]:
    """Distributions on spheres in 2 to 8 dimensions. y is any mixture of a linear target and noise, with |y| <= 1."""
    return st.builds(
        lambda d, size, mixture: SphereDistribution(d, size * mixture, size * (1 - mixture)),
        st.integers(2, 8),
        st.floats(0.01, 1),
        st.floats(0, 1, allow_subnormal=False),
    )


@cache
def samples() -> SearchStrategy[TrainedOnSample]:
    """Samples of 2 to 200 points of a distribution on a sphere, and 1-Lipschitz losses with values in [0, 1]."""
    return st.builds(
        TrainedOnSample,
        source=distributions(),
        n=st.integers(2, 200),
        loss=losses(),
        seed=st.integers(0, 2**16),
        delta=st.floats(0.01, 0.5),
        held_out=st.just(100),  # few, so a case is quick; few are enough for a loss far from the bound
    )


LINEAR, SIGNS = SphereDistribution(), SphereDistribution(signal=0.0, noise=1.0)


def _sample(sources: tuple[SphereDistribution | UserData, ...], sizes: tuple[int, int], seed: int) -> TrainedOnSample:
    """A sample of log-uniform size n in `sizes`, and a 1-Lipschitz loss that vanishes at the label.

    The sources of samples take turns.
    """
    rng = np.random.default_rng([seed, 9])
    n = round(float(np.exp(rng.uniform(*np.log(sizes)))))
    return TrainedOnSample(sources[seed % len(sources)], n, Loss(slope=float(rng.uniform(0.8, 1))), seed)


SAMPLES = (
    Family("sphere, y = x_1/2, n = 150..400, infinite width", _sample, samples(), ((LINEAR,), (150, 400)), 12, 5),
    Family("sphere, random signs, n = 150..400, infinite width", _sample, samples(), ((SIGNS,), (150, 400)), 12, 5),
    Family("sphere, n = 10..60, infinite width", _sample, samples(), ((SIGNS, LINEAR), (10, 60)), trials=40),
)


def sample_families(options: Options) -> tuple[Family, ...]:
    """Families on the sphere, or one on the user's data.

    There are three families on the sphere. In the first the labels are y = x_1/2, and the sizes n are such that the
    bound is below 1. In the second the labels are random signs, at the same sizes. In the third the samples are small.
    """
    if options.data is None:
        return tuple(family.with_trials(options.trials) for family in SAMPLES)
    user, size = UserData(options.data, options.unit), options.n or 100
    name, of = f"{options.data}, infinite width", ((user,), (size, size))
    return (Family(name, _sample, samples(), of, options.trials or 12, needs=5),)
