"""The kernel regime of random rounds: exact mean and covariance of the residual, and stability in the mean square.

Let r be the residual, m the coefficients that the server remembers, and v = H m. A round maps z = (r, v) to B z + J H
e. Here B is the mean round, e is the noise of the clients' mean displacement, and J is the server's response to this
noise. Given z, the noise has mean 0, and its covariance is a linear map of E r r^T, which `Noise.covariance` computes.
Gaussian noise of variance s^2 on every weight of the mean moves the outputs by a noise of covariance s^2 H. Hence the
mean follows E z <- B E z, and the covariance follows Cov z <- B Cov z B^T + J (H Noise H + s^2 H) J^T.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ntkfl import interruption
from ntkfl.estimate import Estimate
from ntkfl.limit.cohorts import CohortWeights
from ntkfl.limit.draws import Draws, FourthMoments, SampledRounds, require_few
from ntkfl.limit.infinite_width import Regime, StepLimits, checked_rounds
from ntkfl.limit.linear_regime import LinearRegime, first_below
from ntkfl.limit.linear_round import Blocks
from ntkfl.limit.many_rounds import DrawnRounds, QuietRounds, Rounds, visited
from ntkfl.limit.mean_square import ESTIMATE, MeanSquare, StateMoments, require_search
from ntkfl.limit.shuffled_pass import ShuffledBlocks
from ntkfl.memory import left_for, require
from ntkfl.messages import require_size
from ntkfl.problem import finite_array
from ntkfl.work import A_ROUND, CALL, SECOND, require_work

MOST_ROUNDS = 100_000  # the largest number of rounds that are counted one by one
IN_THE_LONG_RUN = "rate and stationary_mean_square say what many rounds tend to"


def batch_noise(
    second: Float[np.ndarray, "p p"],
    basis: Float[np.ndarray, "n n"],
    values: Float[np.ndarray, " n"],
    step: float,
    steps: int,
    batch: int,
    pull: float = 0.0,
) -> Float[np.ndarray, "n n"]:
    """E e e^T for e = a - f_K(Q) r, the noise that a client's batches cause in the coefficients a of its displacement.

    The client has n samples, and f_K(Q) r are the coefficients after K steps on all samples. A step on a batch of b
    samples is a <- a + eta (D (r - Q a) - pull a), where D is n/b on the samples of the batch and 0 elsewhere. The
    batch is drawn without replacement and independently of the other steps. So E D = I, and for a symmetric Y, E D Y D
    = gamma Y + (n/b - gamma) diag(Y) with gamma = n (b - 1) / (b (n - 1)). The residual before step k + 1 is u = (I - Q
    f_k) r - Q e, and the step takes e to (I - eta (Q + pull)) e + eta (D - I) u, where the last term has mean 0.

    `second` is E r r^T of the client's residual r at the start of the round. Q = basis diag(values) basis^T is the
    client's block of the Gram matrix. If the client corrects its gradient by its memory, a step lowers the residual by
    a further eta d for some vector d. Then `second` is the second moment of (r, d), and r - Q a becomes r - t d - Q a,
    where t is the displacement by a constant unit gradient so far.

    Source: docs/proofs/random_rounds.md#noise-of-the-batches; the recursion here is for the noise only, and loses no
    digits.
    """
    size = len(values)
    if batch >= size:
        return np.zeros((size, size))
    gamma = size * (batch - 1) / (batch * (size - 1))
    blocks = second.reshape(-1, size, len(second) // size, size).transpose(0, 2, 1, 3)
    start = basis.T @ blocks @ basis
    kept, stays = 1 - step * (values + pull), 1 - step * pull
    response, drifted, noise, length = np.zeros(size), np.zeros(size), np.zeros((size, size)), 0.0
    for _ in range(steps):
        left = np.stack([1 - values * response, values * drifted - length])[: len(start)]
        unfitted = np.einsum("ai,abij,bj->ij", left, start, left) + np.outer(values, values) * noise
        own = np.einsum("ij,ij->i", basis @ unfitted, basis)
        drawn = (gamma - 1) * unfitted + (size / batch - gamma) * ((basis.T * own) @ basis)
        noise = np.outer(kept, kept) * noise + step**2 * drawn
        response, drifted = kept * response + step, kept * drifted + step * length
        length = stays * length + step
    return basis @ noise @ basis.T


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of the clients' mean displacement that the draws of clients and batches cause."""

    blocks: Blocks  # the clients' blocks, with their steps
    weighting: str  # how clients are weighted in the server's mean: by "size" or "uniform"
    pull: float  # mu of FedProx, the strength with which clients are pulled to their start
    batch: int | None  # the largest number of samples in a local step; None: all samples of the client
    gaussian: float = 0.0  # s, the standard deviation of the noise that is added to every weight of the mean

    @cached_property
    def weights(self) -> CohortWeights:
        """Moments of the clients' weights in the server's mean."""
        return self.blocks.weights(self.weighting)

    @property
    def cohort(self) -> int:
        """Number of clients in a round."""
        return self.blocks.cohort or len(self.blocks.clients.members)

    def steps_of(self, client: int) -> tuple[int, int, int, int]:
        """Four numbers: samples of the client; samples in a batch; batches in a pass; passes.

        If steps take independent batches, the last two numbers are 1 and the number of steps.
        """
        size = len(self.blocks.clients.members[client])
        batch = min(self.batch or size, size)
        return size, batch, -(-size // batch) if isinstance(self.blocks, ShuffledBlocks) else 1, self.blocks.steps

    def work(self, steps: int | None = None) -> float:
        """Operations of `covariance` with this many local steps or passes; by default as many as a round has."""
        sizes = [len(owned) for owned in self.blocks.clients.members]
        work = 8.0 * len(self.blocks.gram) ** 2 * max(sizes) + 10 * CALL
        if self.batch is not None:
            count = self.blocks.steps if steps is None else steps
            products = [4.0 * size**3 for size in sizes]
            if isinstance(self.blocks, ShuffledBlocks):
                products = [2.0 * own.mean.size**2 for own in self.blocks.passes]
            a_step = [2.5 * CALL + of for size, of in zip(sizes, products, strict=True) if size > self.batch]
            work += 5 * CALL * len(sizes) + count * sum(a_step)
        return work

    def require_few_steps(self) -> None:
        """Refuse a round whose local steps on batches take too long."""
        what = "a round's passes" if isinstance(self.blocks, ShuffledBlocks) else "a round's local steps on batches"
        require_work(what, lambda local_steps: self.work(local_steps), A_ROUND, local_steps=self.blocks.steps)

    @cached_property
    def nothing_drawn(self) -> bool:
        """Whether every client trains on all its samples in every round."""
        largest = max(len(owned) for owned in self.blocks.clients.members)
        return not self.weights.covariance.any() and (self.batch is None or self.batch >= largest)

    def mean(self, residual: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """The expected mean displacement, given r."""
        return self.blocks.apply(self._mean_response, residual)

    @cached_property
    def _mean_response(self) -> Float[np.ndarray, " n"]:
        return self.weights.mean[self.blocks.owner] * self._response

    @cached_property
    def _response(self) -> Float[np.ndarray, " n"]:
        return self.blocks.response(self.pull)

    def covariance(self, second: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        """The covariance of the mean displacement given r, averaged over r with E r r^T = second; symmetric.

        The covariance is sum_cc' Cov(p_c, p_c') E_c P_c C_cc' P_c' E_c'^T + sum_c E p_c^2 E_c V_c(C_cc) E_c^T with C =
        second. Here E_c puts client c's entries in their places, P_c is its response, p_c its weight, and V_c the
        covariance that its batches cause.
        """
        blocks, clients = self.blocks, self.blocks.clients
        covariance = np.zeros_like(second)
        if self.weights.covariance.any():
            covariance = blocks.apply(self._response, blocks.apply(self._response, second).T)
            covariance *= self._by_sample
        if self.batch is not None:
            for client, owned in enumerate(clients.members):
                own = np.ix_(owned, owned)
                covariance[own] += self.weights.second[client] * self.of_batches(client, second[own])
        return (covariance + covariance.T) / 2

    def in_modes(
        self, modes: Float[np.ndarray, "n r"], nu: Float[np.ndarray, " r"], second: Float[np.ndarray, "r r"]
    ) -> Float[np.ndarray, "r r"]:
        """F^T covariance(F S F^T) F, where S is `second` and F are the modes of the mean round.

        The modes satisfy F^T u(H_D) F = diag(nu). If the weights of every pair of clients have the same relative
        covariance (`_alike`), the contribution of all pairs of clients is a multiple of diag(nu) S diag(nu). Then only
        the clients' own blocks of F S F^T remain, and two large products are needed instead of six.
        """
        alike = self._alike
        if alike is None:
            return modes.T @ self.covariance(modes @ second @ modes.T) @ modes
        blocks, weights = self.blocks, self.weights
        spread, drawn = modes @ second, np.zeros_like(modes)
        own_weights = np.diag(weights.covariance) - alike * weights.mean**2
        for client, owned in enumerate(blocks.clients.members):
            of_client, basis = modes[owned], blocks.clients.vectors[client]
            own = spread[owned] @ of_client.T
            noise = np.zeros_like(own)
            if self.batch is not None:
                noise += weights.second[client] * self.of_batches(client, own)
            if own_weights[client]:
                moves = (basis * self._response[owned]) @ basis.T
                noise += own_weights[client] * (moves @ own @ moves)
            drawn[owned] = noise @ of_client
        following = alike * np.outer(nu, nu) * second + modes.T @ drawn
        return (following + following.T) / 2

    def of_batches(self, client: int, second: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "k k"]:
        """The covariance of a client's displacement given its residual, as in `batch_noise`."""
        blocks, owned = self.blocks, self.blocks.clients.members[client]
        if isinstance(blocks, ShuffledBlocks):
            return blocks.passes[client].noise_after(blocks.steps, second)
        assert self.batch is not None
        basis, values = blocks.clients.vectors[client], blocks.clients.values[owned]
        return batch_noise(second, basis, values, blocks.eta_local, blocks.steps, self.batch, self.pull)

    @cached_property
    def _alike(self) -> float | None:
        """The number k with Cov(p_c, p_c') = k E p_c E p_c' for every two clients; None if there is no such k."""
        pairs = ~np.eye(len(self.weights.mean), dtype=bool)
        ratios = (self.weights.covariance / np.outer(self.weights.mean, self.weights.mean))[pairs]
        if not len(ratios):
            return 0.0
        return float(ratios[0]) if np.ptp(ratios) <= 1e-14 * np.abs(ratios).max() else None

    @cached_property
    def _by_sample(self) -> Float[np.ndarray, "n n"]:
        """The matrix of Cov(p_c, p_c') over pairs of samples, where c and c' are the clients of the two samples."""
        owner = self.blocks.owner
        return self.weights.covariance[np.ix_(owner, owner)]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RandomRegime(Regime):
    """Random rounds in the kernel regime; made by `random_rounds`, which checks its arguments.

    `outputs`, `residual` and `predict` are means over the draws of clients and batches, and `movement` is the movement
    of the mean weights. `deviation` and `mean_square` come from the exact covariance, which costs three products of (n,
    n) matrices in each round.

    Args:
        mean: the mean round.
        noise: the noise that the draws add to the mean round.

    Source: docs/proofs/random_rounds.md#server-memory.
    """

    mean: LinearRegime
    noise: Noise
    no_answer: ClassVar = dict.fromkeys(
        ("response_eigenvalues", "round_map", "spectrum"),
        "its rounds are drawn; the mean round, `mean`, has this name, and `mean_square` has rate and stability",
    ) | {
        "at": "call random_rounds with the other steps",
        "nu": "its rounds are drawn; use `mean.response_eigenvalues`, which include the server's step",
        "local_outputs": "its rounds are drawn; `outputs` and `covariance` are those of the server's model",
        "trajectory": "its rounds are drawn; `outputs` and `covariance` are those of the server's model",
    }

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.mean.method

    @cached_property
    def mean_square(self) -> MeanSquare:
        """The mean square of the residual's modes, which determines rate and stability."""
        return MeanSquare.of(self.gram, self.mean.round, self.noise)

    @property
    def rate(self) -> float:
        """The factor per round by which sqrt(E |r|^2) falls in the long run."""
        return self.mean_square.rate

    @property
    def rate_estimate(self) -> Estimate:
        """The rate with its error, shape (), from a lower and an upper bound of a spectral radius.

        Source: docs/proofs/random_rounds.md#both-sides-of-a-radius.
        """
        return Estimate.between(*self.mean_square.rate_bounds, "both sides of a radius")

    @property
    def stable(self) -> bool:
        """Whether E |r|^2 is known to go to 0 from every start; False if 1 is within the error of the rate."""
        return self.mean_square.stable

    @property
    def undecided(self) -> bool:
        """True if it is unknown, because of rounding, whether E |r|^2 goes to 0.

        The answer is about the part of the residual that weights can change.
        """
        return self.mean_square.undecided

    @property
    def step_limits(self) -> StepLimits:
        """The largest server rate, and the largest eta_local of the clients.

        Below this server rate the mean square falls, for the part of the residual that weights can change. The server
        rate is NaN if the method has none, or if clients shuffle their samples, since no limit is known for shuffled
        passes.
        """
        given = self.mean.round.server_rate
        limit = float("nan") if given is None else given * self.mean_square.limit
        return StepLimits(limit, self.mean._local_limit(self.noise.pull))

    @cached_property
    def step_warning(self) -> str | None:
        """A warning that the mean square grows, with steps at which it would not grow; None if the mean square does not
        grow.
        """
        if not self.mean_square.grows:
            return None
        setup, limits = self.setup, self.step_limits
        steps = f"{self.method} at eta_local = {setup.eta_local:g} with {setup.local_steps} local steps"
        if limits.eta_global > 0:
            return f"{steps} is stable in the mean square for a server rate below {limits.eta_global:.6g} only"
        return f"{steps} is not stable in the mean square; try smaller steps"

    def root_mean_square(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """sqrt(E |r(t)|^2), in the shape of `rounds`; |.| is the norm over all samples and outputs.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        return np.sqrt(self._moments(rounds, initial_outputs, _mean_square)).reshape(np.shape(rounds))

    def deviation(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """Standard deviation of every output over the draws, in the shape of `outputs`.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        variance = self._moments(rounds, initial_outputs, lambda _, own: np.diagonal(own, 0, 1, 2).T)
        deviation = np.sqrt(np.maximum(variance, 0)).reshape(-1, self.problem.n, self.problem.y[0].size)
        return self._shaped(deviation, np.shape(rounds))

    def covariance(self, rounds: int, initial_outputs: ArrayLike | None = None) -> Float[np.ndarray, "*C n n"]:
        """Covariance of the outputs at the samples after this round, (n, n), or (C, n, n) for y of shape (n, C).

        Args:
            rounds: the round t >= 0.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises: as `outputs`.
        """
        moments = self._moments(np.array([rounds]), initial_outputs, lambda _, own: own)[0]
        return moments if self.problem.y.ndim > 1 else moments[0]

    def square_variance(self, rounds: ArrayLike, initial_outputs: ArrayLike | None = None) -> np.ndarray:
        """The variance of |r(t)|^2 over the draws, in the shape of `rounds`; |.| is the norm over all samples and
        outputs.

        If clients or batches are drawn, every choice of a round is enumerated. The enumeration is possible for up to
        some ten samples, and the error of the result is the rounding error of (E |r|^2)^2. If the only noise is
        Gaussian, there may be any number of samples.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: as `outputs`; too many samples and choices for the exact variance, which `sampled` estimates.

        Source: docs/proofs/random_rounds.md#the-loss-of-a-run.
        """
        t, initial = checked_rounds(rounds), self._initial_residual(initial_outputs)
        last, (settled, period) = int(t.max(initial=-1)), self._recurring()
        regimes = [self._of_round(number) for number in range(min(last, settled + period))]
        if all(regime.noise.nothing_drawn for regime in regimes):  # in this case r is Gaussian
            return self._moments(t, initial_outputs, _variance_of_gaussian).reshape(np.shape(rounds))
        one = require_few(self.noise, self._size(self.problem.n))
        require_work("fourth moments", lambda rounds: rounds * (one + 10 * CALL), hint=ESTIMATE, rounds=last)
        moments = FourthMoments.start(self._state(initial))
        variances = {}
        with np.errstate(over="ignore", invalid="ignore"):  # overflows are reported below
            for now in range(last + 1):
                variances[now] = moments.variance(self.problem.n)
                if now < last:
                    regime = regimes[min(now, settled + (now - settled) % period)]
                    moments = moments.after(regime._choices, regime._added)
        return self._finite(np.array([variances[int(now)] for now in t])).reshape(np.shape(rounds))

    def chance_above(
        self, level: float, rounds: ArrayLike, initial_outputs: ArrayLike | None = None
    ) -> Float[np.ndarray, "*T"]:
        """An upper bound of the probability that |r(t)|^2 exceeds a level, in the shape of `rounds`.

        The bound is the smaller of E |r|^2 / level and, if level > |E r|^2, tr Cov(r) / (sqrt(level) - |E r|)^2. The
        bound is 1 if no better bound is known.

        Args:
            level: positive.
            rounds: numbers of rounds t >= 0, an integer or an array.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: a level that is not positive; as `outputs`.

        Source: docs/proofs/random_rounds.md#the-loss-of-a-run.
        """
        if not level > 0:
            raise ValueError(f"level is {level!r}; it must be positive, since |r|^2 is compared with it")

        def least(mean: np.ndarray, covariance: np.ndarray) -> float:
            size, spread = float(np.linalg.norm(mean)), float(np.trace(covariance, 0, 1, 2).sum())
            beyond = level**0.5 - size
            return min(1.0, (size**2 + spread) / level, spread / beyond**2 if beyond > 0 else 1.0)

        return self._moments(rounds, initial_outputs, least).reshape(np.shape(rounds))

    def sampled(
        self, rounds: ArrayLike, runs: int = 100, seed: int = 0, initial_outputs: ArrayLike | None = None
    ) -> SampledRounds:
        """Independent runs of the rounds, which give estimates with errors where the exact moments take too long.

        A round costs a product of H with as many vectors as there are runs. Gaussian noise needs the eigenvectors of H.

        Args:
            rounds: numbers of rounds t >= 0, an integer or an array.
            runs: number of runs, 2 or more; default 100.
            seed: the seed of the draws; default 0.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.

        Raises:
            ValueError: fewer than 2 runs, a negative seed; as `outputs`.

        Source: docs/proofs/random_rounds.md#the-loss-of-a-run.
        """
        require_size("runs", runs, least=2)
        require_size("seed", seed, least=0)
        t, initial = np.atleast_1d(checked_rounds(rounds)), self._initial_residual(initial_outputs)
        n, outputs, rng = self.problem.n, initial.shape[1], np.random.default_rng(seed)
        states = np.tile(self._state(initial), runs)
        mean = states[: self.mean._size, :outputs]
        need = 8 * (8 + self._most_steps) * outputs * runs * len(states) / n  # bytes for each sample
        require("runs of random rounds", lambda n: need * n, n=n)
        kept: dict[int, tuple[np.ndarray, ...]] = {}
        last = int(t.max(initial=-1))
        of_batches = 0 if self.noise.batch is None else self.noise.work(self._most_steps)
        cost = 10 * CALL + 4.0 * len(states) * n * runs * outputs + of_batches
        require_work("runs of random rounds", lambda rounds: rounds * cost, hint=IN_THE_LONG_RUN, rounds=last)
        with np.errstate(over="ignore", invalid="ignore"):  # overflows are reported below
            for now, regime in zip(range(last + 1), self._in_rounds(), strict=False):
                if now in t:
                    ends = states[:n].reshape(n, runs, outputs)
                    off = ends - mean[:n, None]
                    kept[now] = (mean[:n] ** 2).sum(), *((part**2).sum(axis=(0, 2)) for part in (ends, off))
                if now == last:
                    break
                interruption.check()
                states = regime._after(states, Draws.at_random(regime.noise, runs, outputs, rng))
                if regime.noise.gaussian:
                    pushed = regime.noise.gaussian * self._root @ rng.standard_normal((n, runs * outputs))
                    states = states + np.kron(regime._jump[:, None], pushed)
                mean = regime.mean.mapped(mean)
        of_mean, squares, spreads = zip(*(kept[int(now)] for now in t), strict=True) if len(t) else ((), (), ())
        numbers = (self._finite(np.array(part)) for part in (of_mean, squares, spreads))
        return SampledRounds(t, *numbers)

    def rounds_to(self, eps: float, initial_outputs: ArrayLike | None = None, at_most: int = MOST_ROUNDS) -> int:
        """The first t with sqrt(E |r(t)|^2) <= eps |r(0)|; the rounds are computed one by one.

        Args:
            eps: positive.
            initial_outputs: y(0), 0 unless given.
            at_most: the largest number of rounds that are tried; default 100000.

        Raises:
            ValueError: as `LinearRegime.rounds_to`.
        """

        def counted(initial: np.ndarray, target: float) -> int:
            self._require_reachable(initial, target)
            sizes = (float(np.sqrt(_mean_square(*moments))) for moments in self._rounds(initial))
            return first_below(target, sizes, at_most, "root mean square of the residual", lambda: self.rate)

        return self._first_round(eps, initial_outputs, counted, what="the residual")

    def _require_reachable(self, initial: Float[np.ndarray, "n C"], target: float) -> None:
        """Raise a ValueError if the part of this residual that no round changes is larger than the target."""
        self.mean.require_reachable(initial, target)

    def _both(self, initial: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.mean._both(initial, t)

    def prediction_covariance(
        self,
        x: ArrayLike | None,
        rounds: int,
        initial_outputs: ArrayLike | None = None,
        cross_gram: ArrayLike | None = None,
        own_gram: ArrayLike | None = None,
    ) -> Float[np.ndarray, "*C p p"]:
        """Covariance of the predictions f(x, t) over the draws and the noise, (p, p), or (C, p, p) for y of shape (n,
        C).

        Args:
            x: points, (p, d).
            rounds: the round t >= 0.
            initial_outputs: outputs y(0) before training, shape (n,) or (n, C); default 0.
            cross_gram: kernel values between `x` and the samples, shape (p, n). If H was given as a matrix, these
                values must be given; by default the regime's kernel computes them.
            own_gram: kernel values between the points x, (p, p). If H was given as a matrix, these values must be
                given; by default the regime's kernel computes them.

        Raises:
            ValueError: as `predict`; an own_gram that is missing or of the wrong shape.
        """
        h = self._cross_gram(x, cross_gram)
        if own_gram is None:
            if self.kernel is None or x is None:
                raise ValueError(
                    "own_gram is missing: with x absent or a Gram matrix of your own, give the kernel's values between "
                    f"the new points, shape ({len(h)}, {len(h)})"
                )
            own_gram = self.kernel(finite_array("x", x), None)
            if len(own_gram) * self.problem.outputs == len(h):
                own_gram = np.kron(own_gram, np.eye(self.problem.outputs))
        own = finite_array("own_gram", own_gram)
        if own.shape != (len(h), len(h)):
            raise ValueError(f"own_gram has shape {own.shape}; it must be ({len(h)}, {len(h)})")
        together = np.block([[self.gram, h.T], [h, own]])
        n, t = self.problem.n, checked_rounds(np.array([rounds]))
        moments = self._moments(t, initial_outputs, lambda _, covariance: covariance[:, n:, n:], together)[0]
        return moments if self.problem.y.ndim > 1 else moments[0]

    def stationary_mean_square(self, initial_outputs: ArrayLike | None = None) -> float:
        """The limit of E |r(t)|^2; infinite if the mean square grows.

        Without Gaussian noise the limit has two contributions: the part of the residual that no weights can change, and
        the fluctuations that the draws cause because of this part. If cohorts take turns, the limit is the mean over a
        cycle of cohorts.

        Args:
            initial_outputs: y(0), 0 unless given; y(0) matters only if H is singular.

        Raises:
            ValueError: rounding hides whether the mean square falls.
        """
        if self.mean_square.grows:
            return float("inf")
        if self.mean_square.undecided:
            raise ValueError("the stationary mean square is not known: the rounds are nearly unstable")
        initial, total = self._initial_residual(initial_outputs), 0.0
        for column in initial.T:
            rest = self.mean_square.resting(column, self.noise.blocks)
            total += float(rest @ rest) + self.mean_square.stationary_trace(rest, self.noise.gaussian)
        return total

    def _moments(self, rounds, initial_outputs, quantity, gram: np.ndarray | None = None) -> np.ndarray:
        """The values of the function `quantity` in these rounds, along a leading axis.

        The function takes E r, (n, C), and the covariance, (C, p, p).
        """
        t, moments = checked_rounds(rounds), {}
        initial, steps = self._initial_residual(initial_outputs), np.unique(t).tolist()
        with np.errstate(over="ignore", invalid="ignore"):  # overflows are reported below
            for now, mean, own in self._visited(initial, steps, self.gram if gram is None else gram):
                moments[now] = quantity(mean, own)
        return self._finite(np.array([moments[int(now)] for now in t]))

    def _visited(
        self, initial: Float[np.ndarray, "n C"], asked: list[int], gram: Float[np.ndarray, "p p"]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yields E r and the covariance in these rounds, whose numbers ascend.

        Many equal rounds are computed at once if that is less work.
        """
        last, points, outputs = max(asked, default=-1), len(gram), initial.shape[1]
        if not self._takes_at_once(last, points, outputs):
            self._require_work(last, points, outputs)
            for now, (mean, own) in zip(range(last + 1), self._rounds(initial, gram), strict=False):
                if now in asked:
                    yield now, mean, own
            return
        require_moments(len(initial), outputs, self._size(points) / len(initial))
        settled, period = self._recurring()
        cycle = [self._of_round(settled + number) for number in range(period)]
        quiet = all(regime.noise.nothing_drawn for regime in cycle)

        def step(number: int, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self._of_round(number)._onto(mean, covariance, gram)

        maps = (regime._as_map(gram, quiet) for regime in cycle)
        for now, (mean, own) in visited(asked, self._start(initial, points), step, settled, period, maps):
            yield now, mean[: len(initial)], own[:, :points, :points]

    def _takes_at_once(self, rounds: int, points: int, outputs: int) -> bool:
        """Whether powers of the map should be used for these rounds.

        Powers are used if the rounds, computed one by one, would take more than a second, and if powers take less work.
        """
        one_by_one = rounds * outputs * self._work_of_round(points)
        return one_by_one > SECOND and self._work_at_once(rounds, points) < one_by_one

    def _work(self, rounds: int) -> float:
        """Operations that the moments after this many rounds take."""
        return min(self._work_at_once(rounds, self.problem.n), rounds * self._work_of_labels)

    @property
    def _work_of_labels(self) -> float:
        """Operations that a round takes, for all outputs at the samples."""
        return self.problem.y[0].size * self._work_of_round(self.problem.n)

    def _work_at_once(self, rounds: int, points: int) -> float:
        """Operations that the moments at this many points take if many rounds are computed at once.

        The number is infinite if memory does not suffice.
        """
        settled, period = self._recurring()
        if rounds < settled + 2 * period:
            return float("inf")
        mean, size, doublings = self.mean._size, self._size(points), int(rounds).bit_length()
        cost = self._work_of_round(points)
        rows = mean + size
        work, numbers, build = 2.0 * mean**3 + 6.0 * size**3, mean**2 + 2 * size**2, 2 * rows * cost / max(points, 1)
        if not all(self._of_round(settled + number).noise.nothing_drawn for number in range(period)):
            rows = (size * (size + 1) + mean * (mean + 1)) // 2
            work, numbers, build = 2.0 * rows**3, rows**2, rows * cost
        needed = 8.0 * (doublings + 4) * numbers
        if needed > left_for(needed) / 2:
            return float("inf")
        return settled * cost + (doublings + period) * (work + 10 * CALL) + period * build

    def _require_work(self, rounds: int, points: int, outputs: int) -> None:
        """Refuse rounds that take too long one after the other."""
        cost = outputs * self._work_of_round(points)
        require_work("the moments of random rounds", lambda rounds: rounds * cost, hint=IN_THE_LONG_RUN, rounds=rounds)

    def _work_of_round(self, points: int) -> float:
        """Operations that a round of one output takes, with the covariance at this number of points."""
        drawn = 0.0 if self.noise.nothing_drawn else self.noise.work()
        return 10 * CALL + 4.0 * points * self.problem.n * self._size(points) + drawn

    @property
    def _most_steps(self) -> int:
        """The largest number of local steps, or of passes, in a round."""
        return self.noise.blocks.steps

    def _recurring(self) -> tuple[int, int]:
        """The round from which on the rounds recur, and the number of rounds in a period."""
        return 0, 1

    def _of_round(self, number: int) -> RandomRegime:
        """The regime of the round with this number, from 0 on."""
        return self

    def _as_map(self, gram: Float[np.ndarray, "p p"], quiet: bool) -> Rounds:
        """A round as a map of mean and covariance."""
        mean, size = self.mean.mapped(np.eye(self.mean._size)), self._size(len(gram))
        if not quiet:
            return DrawnRounds.of(mean, size, lambda covariance, mean: self._next(covariance, mean, gram))
        return QuietRounds(mean, self._map_at(gram), self._next(np.zeros((size, size)), np.zeros(len(mean)), gram))

    def _start(self, initial: Float[np.ndarray, "n C"], points: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the state before the first round."""
        size = self._size(points)
        return self._state(initial)[: self.mean._size], np.zeros((initial.shape[1], size, size))

    def _state(self, initial: Float[np.ndarray, "n C"]) -> Float[np.ndarray, "s C"]:
        """The state before the first round, at the samples: the residuals, followed by zeros."""
        return np.pad(initial, ((0, self._size(len(initial)) - len(initial)), (0, 0)))

    def _onto(
        self, mean: Float[np.ndarray, "m C"], covariance: Float[np.ndarray, "C s s"], gram: Float[np.ndarray, "p p"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the state after a round."""
        interruption.check()
        after = np.stack([self._next(own, mean[:, k], gram) for k, own in enumerate(covariance)])
        return self.mean.mapped(mean), after

    def _rounds(self, initial: np.ndarray, gram: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields E r, (n, C), and the covariance of the outputs, (C, p, p), in rounds 0, 1, ..."""
        gram = self.gram if gram is None else gram
        n, points, outputs = len(initial), len(gram), initial.shape[1]
        require_moments(n, outputs, self._size(points) / n)
        mean, covariance = self._start(initial, points)
        for regime in self._in_rounds():
            yield mean[:n], covariance[:, :points, :points]
            mean, covariance = regime._onto(mean, covariance, gram)

    def _in_rounds(self) -> Iterator[RandomRegime]:
        """The regime of each of the rounds 0, 1, ..."""
        return map(self._of_round, count())

    def _size(self, points: int) -> int:
        """Number of entries of the state.

        The state has the residuals at the points of a kernel, and as many numbers for each vector of the memory.
        """
        return points * (1 + self.mean.round.memory)

    @cached_property
    def _root(self) -> Float[np.ndarray, "n n"]:
        """A matrix whose product with its transpose is H."""
        values, basis = self._eigen
        return basis * np.sqrt(np.maximum(values, 0))

    @cached_property
    def _choices(self) -> list[tuple[float, Float[np.ndarray, "s s"]]]:
        """Every choice of a round: its probability, and its map of the state."""
        unit = np.eye(self._size(self.problem.n))
        return [(chance, self._after(unit, draws)) for chance, draws in Draws.every(self.noise, len(unit))]

    @property
    def _added(self) -> Float[np.ndarray, "s s"] | None:
        """The covariance that Gaussian noise adds to the state in a round."""
        if not self.noise.gaussian:
            return None
        return np.kron(np.outer(self._jump, self._jump), self.noise.gaussian**2 * self.gram)

    @property
    def _jump(self) -> Float[np.ndarray, " p"]:
        """The response of each part of the state to noise on the mean displacement."""
        return self.mean.round.numbers[1]

    def _after(self, states: Float[np.ndarray, "s m"], draws: Draws) -> Float[np.ndarray, "s m"]:
        """The states after a round with these draws, without Gaussian noise."""
        n, (kept, jump) = self.problem.n, self.mean.round.numbers
        displaced = draws.displacements(states[:n]) * draws.weights[self.noise.blocks.owner]
        pushed = self.gram @ displaced
        stays = np.tensordot(kept, states.reshape(len(kept), *pushed.shape), 1)
        return (stays + np.multiply.outer(jump, pushed)).reshape(states.shape)

    @cached_property
    def _quiet(self) -> Self:
        """The same rounds without Gaussian noise, and without the server's record of this noise."""
        return replace(self, noise=replace(self.noise, gaussian=0.0)) if self.noise.gaussian else self

    @property
    def _keeps_noise(self) -> bool:
        """Whether the server keeps the sum of all Gaussian noise."""
        return False

    def _following(self, second: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
        """E z z^T after a round without Gaussian noise, from E z z^T before it."""
        return self._quiet._next(second, np.zeros(self.mean._size), self.gram)

    @property
    def _map(self) -> Float[np.ndarray, "s s"]:
        """The expected map of the state in a round."""
        return self._map_at(self.gram)

    def _map_at(self, gram: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "s s"]:
        """The expected map of the state in a round, with residuals at the points of a kernel."""
        return self._onward(np.eye(self._size(len(gram))), gram[:, : self.problem.n])

    def _onward(
        self, states: Float[np.ndarray, "s k"], known: Float[np.ndarray, "p n"], further: np.ndarray | float = 0.0
    ) -> Float[np.ndarray, "s k"]:
        """The states after a mean round. They have the residuals at the points whose kernel values are the rows of
        `known`.

        The displacements `further` are added to the clients' mean displacement.
        """
        kept, jump = self.mean.round.numbers
        pushed = known @ (self.noise.mean(states[: known.shape[1]]) + further)
        stays = np.tensordot(kept, states.reshape(len(kept), *pushed.shape), 1)
        return (stays + np.multiply.outer(jump, pushed)).reshape(states.shape)

    def _next(
        self, covariance: Float[np.ndarray, "s s"], mean: Float[np.ndarray, " m"], gram: Float[np.ndarray, "p p"]
    ) -> Float[np.ndarray, "s s"]:
        """The covariance after a round, from the covariance before it and from the mean of r and of the memory."""
        noise, n = self.noise, self.problem.n
        mean = mean[:n]
        if noise.nothing_drawn and not noise.gaussian and not covariance.any():
            return covariance  # the covariance is 0 and stays 0
        known, jump = gram[:, :n], self.mean.round.numbers[1]
        drawn: np.ndarray | float = 0.0
        if not noise.nothing_drawn:
            drawn = np.kron(jump, noise.covariance(covariance[:n, :n] + np.outer(mean, mean)) @ known.T)
        following = self._onward(self._onward(covariance, known).T, known, drawn)
        return (following + following.T) / 2 + np.kron(np.outer(jump, jump), noise.gaussian**2 * gram)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StateRegime(RandomRegime):
    """Random rounds that have no orthogonal modes; rate and limit follow from the map of all second moments of the
    state.

    Source: docs/proofs/random_rounds.md#server-memory.
    """

    @cached_property
    def mean_square(self) -> StateMoments:  # type: ignore[override]
        require_search(self._size(self.problem.n))
        jump = self._jump

        def noise(second: np.ndarray) -> np.ndarray:
            drawn = self.noise.covariance(second[: self.problem.n, : self.problem.n])
            return np.kron(np.outer(jump, jump), self.gram @ drawn @ self.gram)

        nothing, rests = self.noise.nothing_drawn, bool(self.mean.unreachable.shape[1])
        return StateMoments(self._map, None if nothing else noise, rests)

    def stationary_mean_square(self, initial_outputs=None) -> float:
        if self.mean_square.grows or (self._keeps_noise and self.gram.any()):
            return float("inf")
        if self.mean_square.rests:
            raise ValueError(
                f"the limit of the mean square of {self.method} with drawn clients is not known if the Gram matrix is "
                "singular; root_mean_square gives the mean square of any round"
            )
        if not self.mean_square.stable:
            raise ValueError("the stationary mean square is not known: the rounds are nearly unstable")
        if self._added is None:
            return 0.0
        n, outputs = self.problem.n, self._initial_residual(initial_outputs).shape[1]
        return outputs * float(np.trace(self.mean_square.resting(self._added)[:n, :n]))


def require_moments(samples: int, outputs: int, parts: float = 1) -> None:
    """Refuse a covariance that does not fit the memory.

    The covariance belongs to a state with `parts` parts. Each part has as many entries as there are samples.
    """
    need = 8 * (2 * outputs + 10) * parts**2  # bytes, for each pair of samples
    require("the covariance of random rounds", lambda n: need * n**2, hint=ESTIMATE, n=samples)


def _mean_square(mean: Float[np.ndarray, "n C"], covariance: Float[np.ndarray, "C n n"]) -> float:
    """E |r|^2, where |.| is the norm over all samples and outputs."""
    return (mean**2).sum() + np.trace(covariance, 0, 1, 2).sum()


def _variance_of_gaussian(mean: Float[np.ndarray, "n C"], covariance: Float[np.ndarray, "C n n"]) -> float:
    """The variance of |r|^2 for a Gaussian r with independent outputs."""
    pairs = zip(mean.T, covariance, strict=True)
    return float(sum(2 * (own**2).sum() + 4 * column @ own @ column for column, own in pairs))


def random_regime(
    mean: LinearRegime, blocks: Blocks, weighting: str, batch: int | None, gaussian: float = 0.0
) -> RandomRegime:
    """The regime of random rounds with these blocks and this mean round.

    A batch has at most `batch` samples, and None means all samples of a client. `gaussian` is the standard deviation of
    the noise on every weight of the mean.

    Raises:
        ValueError: a method whose clients do more than plain steps, or whose server uses more than the clients' mean
            displacement.
    """
    round_ = mean.round
    if round_.in_turn is not None:
        raise ValueError(
            f"{mean.method} has no exact second moments here: its clients train one after the other. fedavg with "
            "`cohorts` of one client each, in turn, trains the same models; one round of fedavg is then one client's "
            "turn"
        )
    if round_.server is None:
        raise ValueError(
            f"{mean.method} has no exact second moments here: its clients remember, or do more than plain steps. "
            "Exact second moments are known for methods whose server combines the mean displacements (fedavg, fedprox, "
            "fedavgm, fednova and fl-ntk), and for scaffold and feddyn"
        )
    noise = Noise(blocks, weighting, round_.pull, batch, gaussian)
    taken = noise.weights.mean[blocks.owner] * blocks.response(round_.pull)
    if not np.allclose(round_.mean_response, taken, rtol=1e-9, atol=0):
        raise ValueError(
            f"{mean.method} has no exact second moments here: it weighs displacements by more than the clients' "
            "shares. For example, fednova weighs them by numbers of steps, which differ if the clients' passes have "
            "different numbers of batches"
        )
    shared = (mean.problem, mean.setup, mean.gram, mean.kernel)
    if not isinstance(blocks, ShuffledBlocks) or blocks.right is None:
        return RandomRegime(*shared, mean=mean, noise=noise)
    own = replace(mean, round=replace(round_, response=None, roots=None), at_server_rate=None)
    vars(own)["_clients"] = blocks.clients
    return StateRegime(*shared, mean=own, noise=noise)
