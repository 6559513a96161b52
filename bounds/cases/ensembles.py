"""The case of a finite ensemble: finitely many draws, and the data of the clients.

In each draw, one network for each client is drawn, jointly for all clients. The moments of the ensemble are balls:
intervals with midpoint and radius (python-flint), which enclose the exact value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from hypothesis.strategies import DrawFn
from jaxtyping import Float

from bounds.case import Case, Family
from bounds.federated_run import federated_families
from bounds.options import Options
from bounds.strategies import problems
from ntkfl import Estimate, Problem, data
from ntkfl.balls import ball, ball_matrix, enclosure, precision
from ntkfl.estimate import Rigour

ZERO = arb(0)


@dataclass(frozen=True, eq=False)
class Ensemble(Case):
    """M equally likely draws of K client networks f(x) = v . relu(U x). Expectations run over these M draws.

    `problem.owner` says which samples client k has. The clients of one draw are drawn jointly: they share, for example,
    a random initialisation.

    Raises:
        ValueError: shapes that do not fit each other or the problem, or several labels for each sample.
    """

    problem: Problem  # inputs (n, l), labels (n,) and K clients
    hidden: Float[np.ndarray, "M K h l"]  # U, (M, K, h, l)
    readout: Float[np.ndarray, "M K h"]  # v, (M, K, h)

    def __post_init__(self) -> None:
        hidden, readout = np.asarray(self.hidden, float), np.asarray(self.readout, float)
        right = (self.problem.n_clients, self.problem.d)
        if hidden.ndim != 4 or (hidden.shape[1], hidden.shape[3]) != right:
            raise ValueError(
                f"the hidden weights have shape {hidden.shape}; {right[0]} clients on {right[1]} features need "
                f"(M, {right[0]}, h, {right[1]})"
            )
        if readout.shape != hidden.shape[:3]:
            raise ValueError(f"the readouts have shape {readout.shape}; the hidden weights ask for {hidden.shape[:3]}")
        if self.problem.y.ndim != 1:
            raise ValueError(f"y has shape {self.problem.y.shape}; an ensemble of scalar networks needs one label each")
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "readout", readout)

    @property
    def draws(self) -> int:
        """M, the number of draws."""
        return len(self.hidden)

    @property
    def clients(self) -> int:
        """K, the number of clients."""
        return self.problem.n_clients

    @property
    def sizes(self) -> np.ndarray:
        """The numbers n_k of samples, (K,)."""
        return np.bincount(self.problem.owner)

    @cached_property
    def shares(self) -> np.ndarray:
        """n_k / n as balls, (K,)."""
        with precision():
            return np.array([arb(int(size)) / self.problem.n for size in self.sizes], dtype=object)

    @cached_property
    def labels(self) -> np.ndarray:
        """y as balls, (n,)."""
        return np.array([ball(value) for value in self.problem.y], dtype=object)

    @cached_property
    def outputs(self) -> np.ndarray:
        """f_k(x) of every draw as balls, (M, K, n)."""
        with precision():
            x = ball_matrix(self.problem.x)
            nets = zip(
                self.hidden.reshape(-1, *self.hidden.shape[2:]),
                self.readout.reshape(-1, self.readout.shape[2]),
                strict=True,
            )
            outputs = [forward(x, ball_matrix(hidden), [ball(v) for v in readout]) for hidden, readout in nets]
            return ball_array(outputs).reshape(self.draws, self.clients, self.problem.n)

    @cached_property
    def wens_outputs(self) -> np.ndarray:
        """The outputs of the weighted ensemble (WENS), sum_k (n_k/n) f_k(x), as balls, (M, n)."""
        with precision():
            return (self.shares[:, None] * self.outputs).sum(axis=1)

    @cached_property
    def fma_outputs(self) -> np.ndarray:
        """The outputs of the averaged network (FMA), whose weights are sum_k (n_k/n) w_k, as balls, (M, n)."""
        with precision():
            x, outputs = ball_matrix(self.problem.x), []
            for hidden, readout in zip(self.hidden, self.readout, strict=True):
                parts = [ball_matrix(u) * share for u, share in zip(hidden, self.shares, strict=True)]
                total = sum(parts[1:], parts[0])
                outputs.append(forward(x, total, list((self.shares[:, None] * ball_array(readout)).sum(axis=0))))
            return ball_array(outputs)

    @cached_property
    def mean_outputs(self) -> np.ndarray:
        """E f_k(x) as balls, (K, n)."""
        with precision():
            return self.outputs.sum(axis=0) / self.draws

    @cached_property
    def deviations(self) -> np.ndarray:
        """f_k(x) - E f_k(x) of every draw as balls, (M, K, n)."""
        with precision():
            return self.outputs - self.mean_outputs

    @cached_property
    def covariances(self) -> np.ndarray:
        """The covariances of the outputs of every two clients, sample by sample, as balls, (K, K, n)."""
        with precision():
            z = self.deviations
            return (z[:, :, None] * z[:, None]).sum(axis=0) / self.draws

    @cached_property
    def independent_covariances(self) -> np.ndarray:
        """The `covariances` that independently drawn clients would have, as balls, (K, K, n); 0 on the diagonal.

        These covariances are computed over all M^2 pairs of draws.
        """
        with precision():
            z = self.deviations
            none = np.full((self.clients, self.clients, self.problem.n), ZERO, dtype=object)
            total = none
            for shift in range(self.draws):
                total = total + (z[:, :, None] * np.roll(z, shift, axis=0)[:, None]).sum(axis=0)
            return np.where(~np.eye(self.clients, dtype=bool)[:, :, None], total / self.draws**2, none)

    def mean_loss(self, outputs: np.ndarray) -> Estimate:
        """The mean of (y - f)^2 over draws and samples. The outputs f are balls, (M, n)."""
        with precision():
            return estimated(squared(self.labels - outputs).sum() / outputs.size)

    def mean_variance(self, outputs: np.ndarray) -> Estimate:
        """The variance over the draws of outputs (M, n), which are balls, averaged over the samples."""
        with precision():
            apart = outputs - outputs.sum(axis=0) / len(outputs)
            return estimated(squared(apart).sum() / outputs.size)

    @property
    def largest_distance(self) -> float:
        """An upper bound of Delta, the largest |w_k - w_FMA| of any client in any draw."""
        flat = np.concatenate([self.hidden.reshape(*self.readout.shape[:2], -1), self.readout], axis=2)
        average = np.einsum("k,mks->ms", self.sizes / self.problem.n, flat)
        return float(np.linalg.norm(flat - average[:, None], axis=2).max() * (1 + 1e-12)) + 1e-14 * np.abs(flat).max()

    @property
    def kink_distance(self) -> float:
        """The least margin by which a kink is farther from the averaged network than the clients' networks are.

        For a unit of the averaged network and a sample take the distance of the unit's hidden weights from the nearest
        weights that put the kink of the unit on the sample. Subtract the largest distance of a client's hidden weights
        of this unit from the averaged weights. The result is the least difference over all draws, units and samples. If
        it is positive, all clients of a draw and their averaged network have the same activations.
        """
        u = np.einsum("k,mkhl->mhl", self.sizes / self.problem.n, self.hidden)
        lengths = np.linalg.norm(self.problem.x, axis=1)
        reach = np.linalg.norm(self.hidden - u[:, None], axis=3).max(axis=1)  # (M, h)
        free = np.abs(np.einsum("mhl,nl->mhn", u, self.problem.x)) / lengths - reach[:, :, None]
        return float(free.min()) - 1e-12 * float(np.abs(self.hidden).max())

    def describe(self) -> dict:
        """What identifies the case in a report."""
        return {"problem": self.problem.name, "n": self.problem.n, "clients": self.clients, "draws": self.draws}


def forward(x: arb_mat, hidden: arb_mat, readout: Sequence[arb]) -> list[arb]:
    """v . relu(U x) for every row of x (n, l), U (h, l) and v (h,), in balls."""
    rows = (x * hidden.transpose()).tolist()
    return [sum((v * arb.max(a, ZERO) for v, a in zip(readout, row, strict=True)), ZERO) for row in rows]


def squared(balls: np.ndarray) -> np.ndarray:
    """The squares of balls, as products. The power 2 of a ball that contains 0 is not finite."""
    return balls * balls


def ball_array(values: Sequence | np.ndarray) -> np.ndarray:
    """Floats or balls, nested to any depth, as an array of balls."""
    objects = np.array(values, dtype=object)
    flat = [value if isinstance(value, arb) else ball(value) for value in objects.ravel()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(objects.shape)


def estimated(values: arb | np.ndarray) -> Estimate:
    """A ball, or an array of balls, as an Estimate of that shape."""
    if isinstance(values, arb):
        return enclosure(values)
    flat = enclosure(list(values.ravel()))
    return Estimate(flat.value.reshape(values.shape), flat.error.reshape(values.shape), "ball", Rigour.ENCLOSED)


DRAWS, HIDDEN, TRIALS = 8, 4, 40  # M, h, and the number of seeds of a family
MOST = 64  # largest number of samples of the user's data; computing every output as a ball is slow
WIDE, CLOSE = 0.5, 2e-5  # distances of clients from the initialisation, in units of an initial weight


def _ensemble(options: Options, amplitude: float, equal: bool, seed: int) -> Ensemble:
    """M draws of a Gaussian initialisation, and the clients around it.

    A client's weights are the sum of the draw's initial weights, a move that is the same in all draws, and a move that
    differs from draw to draw.
    """
    problem, rng = inputs(options, seed, equal=equal), np.random.default_rng([seed, 5])

    def entries(*shape: int) -> np.ndarray:
        shared = rng.standard_normal((shape[0], 1, *shape[2:]))
        moves = rng.standard_normal((1, *shape[1:])) + rng.standard_normal(shape)
        return shared + amplitude * moves

    sizes = DRAWS, problem.n_clients, HIDDEN
    return Ensemble(problem, entries(*sizes, problem.d), entries(*sizes))


def ensemble_families(options: Options, *, amplitude: float = WIDE, equal: bool = False) -> tuple[Family, ...]:
    """One family: clients around a shared initialisation, either far apart or close together."""
    data_name = "sphere" if options.data is None else f"{options.data} (at most {MOST} samples)"
    name = f"{data_name}, clients around a shared start, moves of {amplitude:g}" + (", equal sizes" if equal else "")
    return (Family(name, _ensemble, SMALL_ENSEMBLES, (options, amplitude, equal), options.trials or TRIALS),)


def inputs(options: Options, seed: int, *, equal: bool) -> Problem:
    """Data of at most MOST samples, since outputs are computed as balls.

    Clients of random data have unequal numbers of samples unless `equal`.
    """
    rng = np.random.default_rng([seed, 6])
    if options.data is not None:
        return _kept(federated_families(options)[0].problem(seed), rng, equal)
    clients = int(rng.integers(2, 5))
    drawn = data.sphere(3 * clients, 3, seed=seed, labels="uniform", clients=clients)
    if equal:
        return drawn
    owner = np.concatenate([np.arange(clients), np.minimum(rng.geometric(0.4, 2 * clients) - 1, clients - 1)])
    return Problem(drawn.x, drawn.y, owner, name=f"{drawn.name}, unequal clients")


def _kept(problem: Problem, rng: np.random.Generator, equal: bool) -> Problem:
    """A problem of at most MOST samples.

    Every client keeps the same fraction or, if `equal`, the same number of samples.
    """
    rows = problem.members
    counts = [len(row) for row in rows]
    if equal:
        counts = [max(1, min(*counts, MOST // len(rows)))] * len(rows)
    else:
        counts = [max(1, count * MOST // max(MOST, problem.n)) for count in counts]
    keep = np.sort(np.concatenate([rng.permutation(row)[:count] for row, count in zip(rows, counts, strict=True)]))
    return Problem(problem.x[keep], problem.y[keep], problem.owner[keep], name=problem.name)


@st.composite
def _small_ensembles(draw: DrawFn) -> Ensemble:
    """One to four draws of up to four clients. Weights are small integers, or any numbers of absolute value up to 3."""
    problem = draw(problems(clients=(1, 4)))
    shape = (draw(st.integers(1, 4)), problem.n_clients, draw(st.integers(1, 2)), problem.d)
    entries = draw(st.sampled_from([st.integers(-3, 3).map(float), st.floats(-3, 3, allow_subnormal=False)]))
    hidden, readout = (draw(arrays(float, size, elements=entries)) for size in (shape, shape[:3]))
    return Ensemble(problem, hidden, readout)


SMALL_ENSEMBLES = _small_ensembles()
